"""What vLLM can serve: checked before the start.

An adapter that matches no module serves the base model without a word; what vLLM refuses it refuses with a
traceback after a minute.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pandora_train.errors import UserError
from pandora_train.llm.adapter import adapter_keys
from pandora_train.train.config import RANKS, served_rank


def check_adapter(name: str, path: str) -> int:
    """The adapter's rank. Raises :class:`UserError` for what vLLM cannot serve, with the reason."""
    folder = Path(path)
    file = folder / "adapter_config.json"
    if not file.is_file():
        raise UserError(f"adapter '{name}': {folder} has no adapter_config.json; give the adapter's folder")
    config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    refused = ("modules_to_save", "trainable_token_indices", "use_dora")
    wrong = next((f"{key} is set" for key in refused if config.get(key)), None)
    if config.get("peft_type") != "LORA":
        wrong = f"its type is {config.get('peft_type')}, not LORA"
    elif config.get("bias", "none") != "none":
        wrong = "it trains biases"
    elif any(part in key for key in adapter_keys(folder) for part in ("embed_tokens", "lm_head")):
        wrong = "it holds vocabulary layers"
    if wrong:
        raise UserError(f"adapter '{name}' cannot be served by vLLM ({wrong}): train it on linear layers "
                        "only, or `pandora merge` it and serve the merged folder as model")
    rank = max([int(config["r"]), *(int(r) for r in (config.get("rank_pattern") or {}).values())])
    if rank > RANKS[-1]:
        raise UserError(f"adapter '{name}' has rank {rank}, vLLM allows {RANKS[-1]}: merge it instead")
    return served_rank(rank)
