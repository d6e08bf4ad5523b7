"""SFT rows in LLaMA-Factory's documented format (OpenAI-style messages, named in dataset_info.json)."""

from __future__ import annotations

import json
from pathlib import Path

from pandora_train.runs import write_json, write_text
from pandora_train.train.rows import read_rows


def export_llama_factory(data: str | Path, folder: str | Path, name: str = "pandora") -> Path:
    """Write ``<name>.jsonl`` and ``dataset_info.json`` for ``--dataset_dir <folder> --dataset <name>``.

    LLaMA-Factory trains on every assistant turn unless told otherwise (``mask_history: false``), as we do.
    """
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"messages": [turn.model_dump() for turn in row.messages]}, ensure_ascii=False)
             for row in read_rows(data)]
    write_text(out / f"{name}.jsonl", "\n".join(lines) + "\n")
    write_json(out / "dataset_info.json", {name: {
        "file_name": f"{name}.jsonl",
        "formatting": "sharegpt",
        "columns": {"messages": "messages"},
        "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user",
                 "assistant_tag": "assistant", "system_tag": "system"},
    }})
    return out
