"""The report: one HTML file that needs no network, with a viewer of every trajectory.

What runs wrote is data twice over: tables and titles are escaped by the template, samples arrive as packed
blocks that the viewer turns into text nodes. A content policy names our own script by its hash, so that
nothing else in the file can run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import jinja2
import yaml
from markupsafe import Markup

from pandora_train.errors import UserError
from pandora_train.evaluate.error_kinds import KINDS
from pandora_train.report.load import RunData, load_runs
from pandora_train.report.payload import build_payload
from pandora_train.report.plots import all_plots
from pandora_train.report.tables import about, all_tables
from pandora_train.runs import write_text

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("store.js", "dom.js", "list.js", "detail.js", "main.js")


def write_report(run_dirs: list[Path], out: Path) -> Path:
    """Write the report of one run, or of several side by side, to the file ``out`` and return its path.

    Raises :class:`~pandora_train.errors.UserError` when a folder is no evaluation run.
    """
    return save_report(load_runs(run_dirs), out)


def save_report(runs: list[RunData], out: Path) -> Path:
    """Write the report of loaded runs. Raises :class:`UserError` where ``out`` cannot be written."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_text(out, render_report(runs))
    except OSError as e:
        raise UserError(f"cannot write {out} ({e.strerror}): choose another --out") from None
    return out


def render_report(runs: list[RunData]) -> str:
    """The report as HTML."""
    script = f"const KINDS = {json.dumps(KINDS)};\n" + "\n".join(_asset(name) for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return _environment().get_template("report.html").render(
        title=" · ".join(r.name for r in runs),
        runs=runs,
        tables=all_tables(runs),
        about=about(runs),
        plots=[(p.title, Markup(p.themed_svg())) for p in all_plots(runs)],
        configs=[(r.name, yaml.safe_dump(r.config, sort_keys=False, allow_unicode=True), _environment_text(r))
                 for r in runs],
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        blocks=build_payload(runs),
        css=Markup(_asset("report.css")),
        script=Markup(script),
        script_hash=digest,
    )


def _environment_text(run: RunData) -> str:
    """The environment without the diff, which may be long; the run folder has it."""
    return json.dumps({k: v for k, v in run.environment.items() if k != "diff"}, indent=2, ensure_ascii=False)


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _environment() -> jinja2.Environment:
    return jinja2.Environment(loader=jinja2.FileSystemLoader(ASSETS), autoescape=True, trim_blocks=True,
                              lstrip_blocks=True, undefined=jinja2.StrictUndefined)
