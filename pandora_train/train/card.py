"""What lies beside an adapter's weights: its card, its prompt settings, and rows that prove it is live."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pandora_train.config import dump
from pandora_train.llm.identity import SETTINGS, write_prompt_settings
from pandora_train.records import PromptSettings
from pandora_train.rows import SftRow
from pandora_train.runs import write_text
from pandora_train.train.checkpoint import Position
from pandora_train.train.config import TrainConfig, served_rank

PROBES = "probes.jsonl"
"""Rows of its own, ``{"messages", "completion"}`` a line: a server is asked how likely it finds the
answers."""
MOST_PROBES = 8


@dataclass(frozen=True)
class Beside:
    """What an adapter's folder holds for those who will ask it."""

    settings: PromptSettings | None = None
    """How the rows were laid out; ``None`` for others' rows."""
    rows: Sequence[SftRow] = ()
    """The training rows; the shortest become probes."""

    def write(self, folder: Path) -> None:
        """Write the prompt settings and the probes."""
        if self.settings is not None:
            write_prompt_settings(folder, self.settings)
        shortest = sorted(self.rows, key=lambda row: (sum(len(m["content"]) for m in row.prompt), row.id))
        lines = [json.dumps({"messages": row.prompt, "completion": row.completion[0]["content"]},
                            ensure_ascii=False) for row in shortest[:MOST_PROBES]]
        write_text(folder / PROBES, "".join(line + "\n" for line in lines))


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
DataFrames. Trained by pandora_train; the loss is on the completions and their end-of-turn tokens only. It
expects prompts laid out by `{SETTINGS}`.

| | |
|---|---|
{lines}

Serve it with `pandora serve`, or vLLM's `--enable-lora --max-lora-rank {served_rank(config.lora.rank)}`,
with the base model's own chat template (a copy is beside this file). Generated code must run in a sandbox.

**Licence**: the adapter derives from the base model and from the training data; the licences of both apply.

```yaml
{dump(config)}```
""", encoding="utf-8")
