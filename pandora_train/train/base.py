"""The base model, its tokenizer and the fresh adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from pandora_train.errors import UserError, did_you_mean, first_line
from pandora_train.llm.tokens import open_tokenizer
from pandora_train.train.config import TrainConfig


def load_tokenizer(path: str | Path) -> Any:
    """The tokenizer of a model; raises :class:`UserError` when there is none, or no chat template."""
    tokenizer = open_tokenizer(path)
    if not tokenizer.chat_template:
        raise UserError(f"{path} has no chat template: choose an instruction-tuned model")
    if not tokenizer.is_fast:
        raise UserError(f"{path} has no fast tokenizer, which finding the assistant's tokens needs")
    return tokenizer


def load_adapted(path: str | Path, config: TrainConfig, device: torch.device) -> Any:
    """The frozen base with a new LoRA adapter (fp32, seeded); on the CPU still, when it is to be sharded.

    Its attention is transformers' own until :func:`~pandora_train.train.loss.use_tree_attention`.
    """
    from peft import LoraConfig, get_peft_model

    base = _load_base(path, config, device)
    _check_targets(base, config)
    if config.checkpoint_layers:
        base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    torch.manual_seed(config.seed)
    lora = LoraConfig(r=config.lora.rank, lora_alpha=config.lora.alpha, lora_dropout=config.lora.dropout,
                      target_modules=list(config.lora.targets), task_type="CAUSAL_LM", bias="none")
    model = get_peft_model(base, lora)
    model.peft_config["default"].base_model_name_or_path = config.model
    for parameter in trainable(model):
        parameter.data = parameter.data.float()
    for module in model.modules():
        if hasattr(module, "cast_input_dtype_enabled"):  # autocast does it, without a copy per layer
            module.cast_input_dtype_enabled = False
    return model


def trainable(model: Any) -> list[torch.nn.Parameter]:
    """The adapter's parameters, in a fixed order."""
    return [p for p in model.parameters() if p.requires_grad]


def precision(config: TrainConfig, device: torch.device) -> torch.dtype:
    """Arithmetic of the frozen base."""
    cpu = torch.cpu
    fast = (torch.cuda.is_bf16_supported(including_emulation=False) if device.type == "cuda"
            else cpu._is_avx512_bf16_supported() or cpu._is_amx_tile_supported())
    bf16 = config.precision == "bf16" or (config.precision == "auto" and fast)
    return torch.bfloat16 if bf16 else torch.float32


def _load_base(path: str | Path, config: TrainConfig, device: torch.device) -> Any:
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    dtype = precision(config, device)
    options: dict[str, Any] = {"dtype": dtype, "attn_implementation": "sdpa"}
    if config.quantize == "4bit":
        if device.type != "cuda":
            raise UserError("quantize: 4bit needs a GPU; set quantize: none")
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype,
            bnb_4bit_use_double_quant=True)
        options["device_map"] = {"": device}
    try:
        base = AutoModelForCausalLM.from_pretrained(path, **options)
    except (ImportError, OSError, ValueError) as e:
        remedy = " (pip install '.[quantize]')" if config.quantize == "4bit" else ""
        raise UserError(f"cannot load model '{config.model}': {first_line(e)}{remedy}") from None
    for parameter in base.parameters():
        parameter.requires_grad_(False)
    return base if config.quantize == "4bit" or config.shard else base.to(device)


def _check_targets(base: Any, config: TrainConfig) -> None:
    """Refuse adapters that vLLM would not serve, or that match nothing, with the reason."""
    linear = {name.rpartition(".")[2] for name, m in base.named_modules() if isinstance(m, torch.nn.Linear)}
    for target in config.lora.targets:
        if target in ("lm_head", "embed_tokens"):
            raise UserError(f"lora.targets: '{target}' would change the vocabulary's layers "
                            "(modules_to_save), which vLLM refuses in an adapter; leave it out")
        if target not in linear:
            raise UserError(f"lora.targets: no linear layer '{target}' in {config.model}"
                            f"{did_you_mean(target, linear)}; it has {', '.join(sorted(linear))}")


def check_vocabulary(base: Any, tokenizer: Any) -> None:
    """Refuse tokens that the model has no embedding for: adding them would resize the vocabulary."""
    rows = base.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise UserError(f"the tokenizer has {len(tokenizer)} tokens, the model {rows}: training them would "
                        "resize the vocabulary, which vLLM refuses in an adapter; use the model's tokenizer")
