"""The base model with an adapter added in, for servers without LoRA support."""

from __future__ import annotations

import json
from pathlib import Path

from pandora_train.errors import UserError
from pandora_train.llm.adapter import adapter_keys, with_adapter
from pandora_train.llm.identity import read_prompt_settings, write_prompt_settings
from pandora_train.train.checkpoint import replacing
from pandora_train.train.config import MergeConfig


def merge_adapter(config: MergeConfig) -> Path:
    """See :func:`pandora_train.train.merge`."""
    import torch
    from transformers import AutoModelForCausalLM

    from pandora_train.llm.tokens import open_tokenizer
    from pandora_train.llm.weights import resolve

    adapter, out = Path(config.adapter), Path(config.out).absolute()
    adapter_keys(adapter)
    if out.exists():
        raise UserError(f"{out} exists: choose another out=")
    named = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    base = resolve(config.model or named["base_model_name_or_path"])
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    merged = with_adapter(model, adapter).merge_and_unload(safe_merge=True)
    if config.dtype == "bf16":
        merged = merged.to(torch.bfloat16)
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as folder:
        merged.save_pretrained(folder)
        open_tokenizer(base).save_pretrained(folder)
        if (settings := read_prompt_settings(adapter)) is not None:  # who asks the merged model needs them
            write_prompt_settings(folder, settings)
    return out
