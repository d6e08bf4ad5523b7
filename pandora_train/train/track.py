"""What a run shows while it runs and leaves behind: progress, metrics.jsonl, W&B, a plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pandora_train.config import Config
from pandora_train.runs import append_line
from pandora_train.wandb_log import start_wandb

SHOWN = ("loss", "held_out_loss", "execution_accuracy", "rows_per_s")
"""What stands beside the progress bar."""


LINES = 50
"""Progress lines of a run whose output is no terminal (Slurm, CI)."""


class Tracker:
    """Progress bar, ``metrics.jsonl`` and, if asked, W&B. Silent where ``active`` is false (other ranks)."""

    def __init__(self, run: Path, total: int, done: int, config: Config,
                 wandb: Literal["off", "offline", "online"], name: str,
                 active: bool) -> None:
        self.file, self.active, self._total = run / "metrics.jsonl", active, total
        self._wandb: Any = None
        self._console = Console(stderr=True)
        self._progress = Progress(TextColumn("training"), BarColumn(), MofNCompleteColumn(),
                                  TextColumn("{task.description}"), TimeElapsedColumn(),
                                  TextColumn("left"), TimeRemainingColumn(),
                                  console=self._console,
                                  disable=not (active and self._console.is_terminal))
        self._task = self._progress.add_task("", total=total, completed=done)
        if active and wandb != "off":
            self._wandb = start_wandb(run, name, wandb, config.model_dump(mode="json"), "train")

    def __enter__(self) -> Tracker:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        if self._wandb is not None:
            self._wandb.finish()

    def log(self, step: int, **values: float) -> None:
        """Record values of one optimizer step."""
        if not self.active:
            return
        append_line(self.file, json.dumps({"step": step, **values}))
        shown = " ".join(f"{k} {v:.4g}" for k, v in values.items() if k in SHOWN)
        self._progress.update(self._task, completed=step, description=shown)
        told = step == self._total or step % max(1, self._total // LINES) == 0 or "held_out_loss" in values
        if told and not self._console.is_terminal:
            self._console.print(f"training {step}/{self._total} {shown}", highlight=False)
        if self._wandb is not None:
            self._wandb.log(values, step=step)


def read_metrics(file: Path) -> list[dict[str, float]]:
    """The lines of ``metrics.jsonl``."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def plot(run: Path) -> None:
    """``training.png``: training and held-out loss above, throughput below."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = read_metrics(run / "metrics.jsonl")
    figure, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(7, 6), layout="constrained")
    for key, label in (("loss", "training"), ("held_out_loss", "held out")):
        points = [(p["step"], p[key]) for p in lines if key in p]
        if points:
            upper.plot(*zip(*points, strict=True), label=label, marker="o" if key != "loss" else None)
    upper.set_ylabel("loss per labelled token")
    upper.legend()
    points = [(p["step"], p["tokens_per_s"]) for p in lines if "tokens_per_s" in p]
    if points:
        lower.plot(*zip(*points, strict=True), color="tab:green")
    lower.set_ylabel("labelled tokens / s")
    lower.set_xlabel("optimizer step")
    figure.savefig(run / "training.png", dpi=120)
    plt.close(figure)
