"""A run folder in Weights & Biases: config, metrics, plots, a table of samples, adapter and data set.

Works online and offline (``wandb sync`` sends it later). Logging a folder again, after a resumed evaluation
for example, continues the same W&B run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pandora_train.config import Config
from pandora_train.errors import UserError
from pandora_train.evaluate.error_kinds import KINDS, primary_score
from pandora_train.report.html import render_report
from pandora_train.report.load import RunData, load_run
from pandora_train.report.plots import all_plots
from pandora_train.runs import write_text
from pandora_train.wandb_log import start_wandb, wandb_id

COLUMNS = ["id", "benchmark", "group", "question", "score", "ended", "error kind", "turns", "code", "answer",
           "gold"]


class TrackingConfig(Config):
    """Where a run is logged. Keys and hosts come from W&B's own environment variables or login."""

    project: str = ""
    """W&B project; empty: ``WANDB_PROJECT``, else pandora_train."""
    entity: str | None = None
    """W&B user or team; null: ``WANDB_ENTITY``, else the default of the login."""
    mode: Literal["online", "offline"] = "online"
    """``offline`` writes under the run folder, for ``wandb sync``; so does ``WANDB_MODE=offline``."""
    tags: list[str] = []
    """Tags of the W&B run."""
    samples: int = 2000
    """Most rows of the table of samples; wrong answers come first."""
    adapter: str = ""
    """Adapter folder to log as an artifact of type ``model``."""
    dataset: str = ""
    """Data set folder (distill run) to log as an artifact of type ``dataset``."""
    report: bool = True
    """Log the HTML report as an artifact of type ``report``."""


def log_run(run_dir: Path, config: TrackingConfig) -> str:
    """Log an evaluation run folder; returns the id of the W&B run, the same for the same folder.

    Raises :class:`UserError` when the folder is no run, an artifact's folder is missing, or W&B refuses.
    """
    run = load_run(run_dir)
    for folder in (config.adapter, config.dataset):
        if folder and not Path(folder).is_dir():
            raise UserError(f"no folder {folder} to log as an artifact")
    import wandb

    client = start_wandb(run.path, run.name, config.mode, run.config, "evaluate", config.project,
                         config.entity, config.tags)
    try:
        plots = {f"plots/{p.name}": wandb.Html(p.svg, inject=False) for p in all_plots([run])}
        table = wandb.Table(columns=COLUMNS, data=sample_rows(run, config.samples))
        client.log(metrics(run) | plots | {"samples": table})
        for artifact in _artifacts(run, config):
            client.log_artifact(artifact)
    finally:
        client.finish()
    return wandb_id(run.path)


def metrics(run: RunData) -> dict[str, float]:
    """Figures under ``<benchmark>/<metric>``, intervals, what became of the questions, endings and cost."""
    figures: dict[str, float] = {}
    for benchmark, part in run.benchmarks.items():
        for name, m in part.metrics.items():
            ends = {"": m.value, "_low": m.low, "_high": m.high, "_stderr": m.stderr}
            figures |= {f"{benchmark}/{name}{end}": v for end, v in ends.items() if v is not None}
        q = part.questions
        counts = {"n": q.n, "asked": q.asked, "answered": q.answered, "unfinished": q.unfinished,
                  "failed_reading": sum(q.failed_reading.values()), "unusable": sum(q.unusable.values())}
        figures |= {f"{benchmark}/{what}": n for what, n in counts.items()}
    figures |= {f"ended/{ending}": n for ending, n in run.statuses().items()}
    usage = run.usage()
    return figures | {f"cost/{name}": getattr(usage, name) for name in type(usage).model_fields}


def sample_rows(run: RunData, most: int) -> list[list[Any]]:
    """One row of :data:`COLUMNS` per sample, wrong ones first."""
    ordered = sorted(run.samples, key=lambda t: primary_score(t) or 0.0)
    rows = []
    for t in ordered[:most]:
        diagnosis = run.diagnoses.get(t.id)
        gold = t.gold_rows if t.gold_rows is not None else [[a] for a in t.gold.answers or ()]
        rows.append([t.id, t.benchmark, t.group, t.question, primary_score(t), t.status or t.ending,
                     KINDS[diagnosis.kind] if diagnosis else "", len(t.steps),
                     t.steps[-1].code if t.steps else "", _text(t.rows), _text(gold)])
    return rows


def _text(rows: Any) -> str:
    return json.dumps(rows, ensure_ascii=False, default=str)[:2000]


def _artifacts(run: RunData, config: TrackingConfig) -> list[Any]:
    import wandb

    made = []
    for kind, folder in (("model", config.adapter), ("dataset", config.dataset)):
        if folder:
            artifact = wandb.Artifact(f"{run.path.name}-{kind}", type=kind)
            artifact.add_dir(folder)
            made.append(artifact)
    if config.report:
        file = run.path / "report.html"
        write_text(file, render_report([run]))
        artifact = wandb.Artifact(f"{run.path.name}-report", type="report")
        artifact.add_file(str(file))
        made.append(artifact)
    return made
