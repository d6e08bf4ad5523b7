"""Resumable checkpoints: written beside, flushed, then renamed, so that a kill leaves an old or a new one.

``checkpoints/step-00000020/`` holds the adapter, AdamW's state and the position; the learning rate, the order
of rows and the random numbers of a step follow from the position. The two newest are kept.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel

from pandora_train.errors import UserError
from pandora_train.train.shard import full, load_optimizer, sharded_like

KEPT = 2


class Position(BaseModel):
    """Where a run stands after an optimizer step."""

    step: int = 0
    """Optimizer steps done."""
    best: float | None = None
    """Lowest held-out loss so far."""
    since_best: int = 0
    """Held-out losses since then."""
    tokens: int = 0
    """Labelled tokens trained on so far."""
    stopped: bool = False
    """Ended early."""


def save_checkpoint(run: Path, position: Position, parameters: list[torch.nn.Parameter],
                    optimizer: torch.optim.Optimizer, write: bool = True) -> None:
    """Write the checkpoint of ``position`` and drop all but the newest two.

    Every process calls this, since sharded tensors are gathered; one has ``write`` set.
    """
    adapter, moments = full([p.detach() for p in parameters]), full(optimizer.state_dict())
    folder = run / "checkpoints" / f"step-{position.step:08d}"
    if folder.exists() or not write:
        return
    with replacing(folder) as temporary:
        torch.save({"adapter": adapter, "optimizer": moments}, temporary / "state.pt")
        (temporary / "position.json").write_text(position.model_dump_json(), encoding="utf-8")
    for old in checkpoints(run)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def newest(run: Path) -> str:
    """Name of the newest complete checkpoint; empty for a run without one."""
    found = checkpoints(run)
    return found[-1].name if found else ""


def load_checkpoint(run: Path, name: str, parameters: list[torch.nn.Parameter],
                    optimizer: torch.optim.Optimizer) -> Position:
    """Take up the checkpoint ``name``, which all processes agreed on; none starts at step 0."""
    if not name:
        return Position()
    folder = run / "checkpoints" / name
    if not folder.is_dir():
        raise UserError(f"no {folder} on this machine: the run folder must be on a disk that all nodes share")
    state: dict[str, Any] = torch.load(folder / "state.pt", map_location="cpu", weights_only=True)
    with torch.no_grad():
        for parameter, saved in zip(parameters, state["adapter"], strict=True):
            parameter.copy_(sharded_like(saved, parameter))
    load_optimizer(optimizer, state["optimizer"], parameters)
    return Position.model_validate_json((folder / "position.json").read_text(encoding="utf-8"))


def checkpoints(run: Path) -> list[Path]:
    """Complete checkpoints of a run, oldest first."""
    return sorted((run / "checkpoints").glob("step-" + "[0-9]" * 8))


def cut_metrics(file: Path, step: int) -> None:
    """Drop lines of ``metrics.jsonl`` past ``step``: those steps are run again."""
    if not file.exists():
        return
    kept = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
        except (ValueError, KeyError):
            continue  # a line that a kill left half written
    temporary = file.with_suffix(".tmp")
    temporary.write_text("".join(kept), encoding="utf-8")
    temporary.replace(file)


class replacing:
    """A folder to fill; on success it takes the place of ``folder`` by renaming, flushed to disk first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder.with_name(f".{folder.name}.tmp")

    def __enter__(self) -> Path:
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir(parents=True)
        return self.temporary

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        for file in self.temporary.rglob("*"):
            if file.is_file():
                with file.open("rb") as f:
                    os.fsync(f.fileno())
        old = self.folder.with_name(f".{self.folder.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if self.folder.exists():
            self.folder.rename(old)
        self.temporary.rename(self.folder)
        shutil.rmtree(old, ignore_errors=True)
