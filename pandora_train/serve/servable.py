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
from pandora_train.llm.tokens import open_tokenizer, turn_end
from pandora_train.train.config import RANKS, served_rank


def check_end(folder: Path) -> None:
    """Refuse a model that vLLM would let run on after a turn's end; ``folder``: its files.

    Training teaches it to stop with what the chat template writes after an assistant turn; vLLM stops with
    the tokenizer's end and those in ``generation_config.json``.
    """
    tokenizer, file = open_tokenizer(folder), folder / "generation_config.json"
    named = json.loads(file.read_text(encoding="utf-8")).get("eos_token_id") if file.is_file() else None
    stops = {tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])}
    end = turn_end(tokenizer)
    if end is not None and end not in stops:
        token = tokenizer.convert_ids_to_tokens(end)
        raise UserError(f"the chat template in {folder} ends a turn with {token}, at which vLLM would not "
                        f"stop: add its id {end} to eos_token_id in {file.name}")


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
