"""Weights & Biases, started in one place for evaluations and training.

``WANDB_PROJECT``, ``WANDB_ENTITY`` and ``WANDB_MODE`` decide where nothing else is said. The W&B run's id
lies in the run folder: what is logged from the folder again continues that run, and another folder that
happens to have the same path (a new container) begins its own.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pandora_train.errors import UserError, first_line
from pandora_train.runs import write_text

PROJECT = "pandora_train"
"""Where neither config nor ``WANDB_PROJECT`` names one."""


def start_wandb(folder: Path, name: str, mode: Literal["online", "offline"], config: dict[str, Any],
                job: Literal["evaluate", "train"], project: str = "", entity: str | None = None,
                tags: Sequence[str] = ()) -> Any:
    """The open W&B run of a run folder. ``mode`` online may be turned off by ``WANDB_MODE``, offline stays.

    Raises :class:`UserError` when W&B refuses, for want of a key say.
    """
    import wandb

    where: Any = mode if mode == "offline" else os.environ.get("WANDB_MODE") or mode
    quiet = wandb.Settings(silent=True, disable_git=True, save_code=False)
    try:
        return wandb.init(
            project=project or os.environ.get("WANDB_PROJECT") or PROJECT, name=name,
            entity=entity or os.environ.get("WANDB_ENTITY"),
            mode=where, id=wandb_id(folder), resume="allow", dir=str(folder), job_type=job, tags=list(tags),
            config=config, settings=quiet)
    except wandb.Error as e:
        hint = "log in by `wandb login`, or set WANDB_MODE=offline"
        raise UserError(f"W&B: {first_line(e)} ({hint})") from None


def wandb_id(folder: Path) -> str:
    """The id of the folder's W&B run, made when first asked for."""
    file = folder / "wandb_id"
    if not file.is_file():
        write_text(file, secrets.token_hex(6) + "\n")
    return file.read_text(encoding="utf-8").strip()
