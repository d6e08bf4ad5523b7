"""SFT rows in LLaMA-Factory's documented format (OpenAI-style messages, named in dataset_info.json)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pandora_train.rows import HELD_OUT, SftRow, read_rows
from pandora_train.runs import write_json, write_text


def export_llama_factory(data: str | Path, folder: str | Path, name: str = "pandora") -> Path:
    """Write ``<name>.jsonl`` and ``dataset_info.json`` for ``--dataset_dir <folder> --dataset <name>``.

    Held-out rows of a distill folder become ``--eval_dataset <name>_heldout``. Train with its
    ``mask_history: true``: the loss belongs on the last turn alone, earlier ones are mistakes.
    """
    sets = {name: read_rows(data)}
    if (held := Path(data) / HELD_OUT).is_file():
        sets[f"{name}_heldout"] = read_rows(held)
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    registry = out / "dataset_info.json"  # of LLaMA-Factory's own folder, perhaps: the others' entries stay
    known = json.loads(registry.read_text(encoding="utf-8")) if registry.exists() else {}
    write_json(registry, known | {name: _write(out, name, rows) for name, rows in sets.items()})
    return out


def _write(out: Path, name: str, rows: Sequence[SftRow]) -> dict[str, Any]:
    lines = [json.dumps({"messages": [*row.prompt, *row.completion]}, ensure_ascii=False) for row in rows]
    write_text(out / f"{name}.jsonl", "\n".join(lines) + "\n")
    return {
        "file_name": f"{name}.jsonl",
        "formatting": "sharegpt",
        "columns": {"messages": "messages"},
        "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user",
                 "assistant_tag": "assistant", "system_tag": "system"},
    }
