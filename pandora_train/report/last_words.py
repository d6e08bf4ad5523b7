"""What a command ends with: one table that fits 80 columns, what happened in words, where the report lies."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

from pandora_train.errors import UserError, pick
from pandora_train.evaluate.compare import Comparison, compare_runs
from pandora_train.evaluate.score import score_file
from pandora_train.evaluate.stats import Cost
from pandora_train.metrics import METRICS
from pandora_train.report.html import save_report
from pandora_train.report.load import RunData, load_run, load_runs
from pandora_train.report.tables import difference, interval, mark, results, score_table
from pandora_train.report.text import WIDTH, text_table
from pandora_train.runs import write_json
from pandora_train.sources import DataConfig
from pandora_train.sources.freebase import NO_GRAPH

WIDE = 200
"""Columns for what is asked for in full."""


def evaluated(folder: Path) -> str:
    """The last words of an evaluation: figures and, where not all were answered, what became of the
    questions.

    Writes ``report.html`` into the run folder.
    """
    run = load_run(folder)
    table = replace(results([run]), columns=["benchmark", "metric", "n", "score [95 %]"])
    report = save_report([run], run.path / "report.html")
    return "\n".join([text_table(table), *_counts(run), f"report: {report}"])


def compared(folder_a: Path, folder_b: Path, out: Path | None = None, subsets: bool = False,
             everything: bool = False) -> str:
    """The last words of a comparison; before them ``subsets``, or ``everything``: metrics, costs, flips.

    Writes the report to ``out``, else into the second run's folder. Raises
    :class:`~pandora_train.errors.UserError` where the runs can't be compared.
    """
    a, b = load_runs([folder_a, folder_b])
    comparison = compare_runs(a, b)
    a, b = (replace(run, name=label) for run, label in zip((a, b), labels(a.name, b.name), strict=True))
    lines = _all(comparison, a, b) if everything else []
    if subsets or everything:
        lines += _subsets(comparison, a, b)
    table = difference(comparison.main, a, b).only("benchmark", "n", "A", "B", "difference")
    lines += [text_table(table.headed({"A": a.name, "B": b.name})), "", _filled(sentence(comparison, a, b))]
    return "\n".join([*lines, *_counts(a), *_counts(b), _report([a, b], out)])


def scored(predictions: Path, benchmark: str, path: Path, split: str = "dev", store: str = "",
           out: Path | None = None) -> str:
    """Score a prediction file and say what each number is about; all verdicts to ``out`` (JSON)."""
    pick("benchmark", benchmark, METRICS)
    graph = store or (NO_GRAPH if benchmark in ("grailqa", "webqsp") else "")
    report = score_file(predictions, DataConfig.model_validate(
        {"benchmark": benchmark, "path": str(path), "split": split, "store": graph}))
    if out is not None:
        write_json(out, report.model_dump(mode="json"))
    outcomes = ", ".join(f"{n} {outcome}" for outcome, n in report.outcomes.items())
    return "\n".join([
        f"{benchmark} {split} ({path}): {report.n} questions", text_table(score_table(report)),
        f"{outcomes}; {report.unknown} predictions for unknown questions; {report.unusable} questions of the "
        "split can't be used", *report.notes])


def labels(a: str, b: str) -> tuple[str, str]:
    """Two runs' names without the words they begin with in common.

    ``evaluate-icl`` and ``evaluate-full`` are ``icl`` and ``full``.
    """
    equal = "".join(x for x, _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
    start = max(equal.rfind(c) for c in "-_./ ") + 1
    short = a[start:], b[start:]
    return short if all(any(c.isalpha() for c in label) for label in short) else (a, b)


def sentence(comparison: Comparison, a: RunData, b: RunData) -> str:
    """What happened, by benchmark, in the main metrics."""
    apart: list[str] = []
    alike: list[str] = []
    for d in comparison.main:
        title = a.title(d.benchmark) + mark(a.incomplete(d.benchmark))
        if d.low is None or d.high is None or d.low <= 0 <= d.high:
            alike.append(title)
            continue
        points = f"{abs(100 * d.difference):.1f} points {'more' if d.difference > 0 else 'less'}"
        than = "" if apart else f" than {a.name}"
        apart.append(f"{points}{than} on {title} {interval(d.low, d.high)}")
    parts = [f"{b.name} scores {_listed(apart)}"] if apart else []
    parts += [f"{'no' if apart else 'No'} difference can be told on {_listed(alike)}"] if alike else []
    return "; ".join(parts) + "."


def _listed(items: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]]))


def _all(comparison: Comparison, a: RunData, b: RunData) -> list[str]:
    """All metrics, what the runs cost, and each question that one has right and the other hasn't."""
    table = difference(comparison.whole, a, b)
    table = table.only(*(c for c in table.columns if c != "subset")).headed({"A": a.name, "B": b.name})
    costs = [f"{run.name}: {_cost(cost)}" for run, cost in ((a, comparison.cost_a), (b, comparison.cost_b))]
    lines = [text_table(table, WIDE), "", *costs, ""]
    for direction in ("gained", "lost"):
        flips = [f for f in comparison.flips if f.direction == direction]
        lines += [f"{direction}: {len(flips)}", *(f"  {f.id}  {' '.join(f.question.split())}" for f in flips)]
        lines.append("")
    return lines


def _subsets(comparison: Comparison, a: RunData, b: RunData) -> list[str]:
    table = difference([d for d in comparison.differences if d.subset], a, b)
    table = table.only("benchmark", "subset", "n", "A", "B", "difference", "p")
    return [text_table(table.headed({"A": a.name, "B": b.name}), WIDE), ""] if table.rows else []


def _counts(run: RunData) -> list[str]:
    words = run.results.questions.words()
    return [_filled(f"{run.name}: {words}")] if words else []


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _report(runs: list[RunData], out: Path | None) -> str:
    """Where the report lies: ``out``, else the last run's folder, which may be another's to write."""
    if out is not None:
        return f"report: {save_report(runs, out)}"
    name = runs[0].name.replace("/", "-")
    try:
        return f"report: {save_report(runs, runs[-1].path / f'against-{name}.html')}"
    except UserError as e:
        return f"no report: {e}"


def _cost(cost: Cost) -> str:
    usage = cost.usage
    return (f"{usage.calls:,} calls, {usage.prompt_tokens:,} prompt and {usage.completion_tokens:,} "
            f"completion tokens, {cost.wall_seconds:.1f} s in answers, {usage.usd:.4f} USD")
