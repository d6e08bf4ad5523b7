"""Training room: LoRA on SFT rows with shared prefixes paid once; checkpoints, merge, export.

Importing this package imports no torch: the functions below load the rest when they are called.
"""

from __future__ import annotations

from pathlib import Path

from pandora_train.train.config import LoraSettings, MergeConfig, TrainConfig
from pandora_train.train.export import export_llama_factory

__all__ = ["LoraSettings", "MergeConfig", "TrainConfig", "export_llama_factory", "merge", "train"]


def train(config: TrainConfig, run_dir: Path | None = None, resume: bool = False) -> Path:
    """LoRA-tune ``config.model`` on ``config.data``; returns the adapter folder (peft's layout).

    ``run_dir`` defaults to ``<home>/runs/train/<name>``; an existing one needs ``resume``. Raises
    :class:`~pandora_train.errors.UserError` for what the user can fix.
    """
    from pandora_train.train.fit import fit

    return fit(config, run_dir, resume)


def merge(config: MergeConfig) -> Path:
    """Write the base model with the adapter's weights added in; returns the folder."""
    from pandora_train.train.merge import merge_adapter

    return merge_adapter(config)
