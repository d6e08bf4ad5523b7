"""A LoRA adapter on its base model, refused where it would change nothing or only a part."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from pandora_train.errors import UserError, first_line

WEIGHTS = "adapter_model.safetensors"


def adapter_keys(folder: Path) -> set[str]:
    """Names of an adapter's tensors. Raises :class:`UserError` for what is no whole adapter."""
    from safetensors import SafetensorError, safe_open

    if not (folder / "adapter_config.json").is_file():
        raise UserError(f"{folder} is no LoRA adapter: it has no adapter_config.json")
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder} has no {WEIGHTS}: it is not a whole adapter")
    try:
        with safe_open(folder / WEIGHTS, framework="numpy") as tensors:
            return set(tensors.keys())
    except (OSError, SafetensorError) as e:
        raise UserError(f"{folder / WEIGHTS} cannot be read ({first_line(e)}): it is cut off, or a pointer "
                        "to a file that was never fetched") from None


def with_adapter(model: Any, folder: Path | str) -> Any:
    """``model`` as a peft model with the adapter in ``folder``.

    peft loads an adapter of another base without a word, as far as names match. Raises :class:`UserError`
    unless every tensor of the adapter has its place in the model, and every place its tensor.
    """
    from peft import PeftModel, get_peft_model_state_dict

    keys = adapter_keys(Path(folder))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of missing keys; said below, in one line
            adapted = PeftModel.from_pretrained(model, str(folder))
    except (ValueError, RuntimeError, KeyError, TypeError) as e:  # no target module, other shapes, no config
        raise UserError(f"adapter {folder} does not fit the model: {first_line(e)}") from None
    places = set(get_peft_model_state_dict(adapted))
    if places != keys:
        example = min(keys - places, default="") or min(places - keys)
        raise UserError(f"adapter {folder} does not fit the model: {len(keys & places)} of its {len(keys)} "
                        f"tensors match one of the model's {len(places)} places (not {example}); give the "
                        "base model that it was trained on")
    return adapted
