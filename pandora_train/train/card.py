"""The model card of an adapter: where it comes from and how it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pandora_train.config import dump
from pandora_train.train.checkpoint import Position
from pandora_train.train.config import TrainConfig, served_rank


def write_card(folder: Path, config: TrainConfig, data: dict[str, Any], at: Position) -> None:
    """Write ``README.md``: base, data and its hash, figures, config, licence."""
    facts = {"optimizer steps": at.step, "labelled tokens": at.tokens, **data}
    if at.best is not None:
        facts["best held-out loss"] = round(at.best, 5)
    lines = "\n".join(f"| {k} | {v} |" for k, v in facts.items())
    (folder / "README.md").write_text(f"""---
base_model: {config.model}
library_name: peft
pipeline_tag: text-generation
tags: [lora, pandora_train]
---
# {config.name}: LoRA adapter for {config.model}

Writes reasoning and pandas code that answers a question over tables, databases or knowledge graphs shown as
DataFrames. Trained by pandora_train; the loss is on assistant turns and their end-of-turn tokens only.

| | |
|---|---|
{lines}

Serve it with `pandora serve`, or vLLM's `--enable-lora --max-lora-rank {served_rank(config.lora.rank)}`,
with the base model's own chat template (a copy is beside this file). Generated code must run in a sandbox.

**Licence**: the adapter derives from the base model and from the training data; the licences of both apply.

```yaml
{dump(config)}```
""", encoding="utf-8")
