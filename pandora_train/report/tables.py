"""The tables of figures, as data: made here alone, written by ``markdown``, ``html`` and ``text``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pandora_train.errors import UserError
from pandora_train.evaluate.compare import Difference, compare_runs
from pandora_train.evaluate.error_kinds import KINDS
from pandora_train.evaluate.score import ScoreReport
from pandora_train.evaluate.stats import Metric
from pandora_train.report.load import RunData, benchmark_titles

NO_INTERVAL = "no interval"
NAMES = ("benchmark", "run", "metric", "subset")
"""Columns of names; all but the first column and these hold figures."""


@dataclass(frozen=True)
class TableCell:
    """``text``, the softer ``note`` below or beside it, and the viewer's filter that shows what it counts."""

    text: str
    note: str = ""
    filter: dict[str, str] = field(default_factory=dict)
    strong: bool = False

    @property
    def interval(self) -> bool:
        """Whether the note is an interval, or the words for a missing one."""
        return self.note.startswith("[") or self.note == NO_INTERVAL


@dataclass(frozen=True)
class ReportTable:
    """Rows of cells under column names."""

    title: str
    columns: list[str]
    rows: list[list[TableCell]]
    note: str = ""

    @property
    def names(self) -> list[str]:
        """The columns that hold names, to be set to the left."""
        return [c for n, c in enumerate(self.columns) if n == 0 or c in NAMES]

    def only(self, *columns: str) -> ReportTable:
        """The same rows under some of the columns."""
        places = [self.columns.index(c) for c in columns]
        return replace(self, columns=list(columns), rows=[[row[i] for i in places] for row in self.rows])

    def headed(self, heads: dict[str, str]) -> ReportTable:
        """The same rows; columns named in ``heads`` bear other heads."""
        return replace(self, columns=[heads.get(c, c) for c in self.columns])


def all_tables(runs: list[RunData]) -> list[ReportTable]:
    """Every table that these runs can fill, in reading order."""
    makers = (levels, kinds, endings, forms, cost)
    made = [results(runs), questions(runs), *differences(runs), *(make(runs) for make in makers)]
    return [t for t in made if t.rows]


def results(runs: list[RunData]) -> ReportTable:
    """Each metric of each benchmark, the primary one first."""
    rows = []
    for benchmark, title in benchmark_titles(runs).items():
        stats = [r.benchmarks.get(benchmark) for r in runs]
        primary = next(s.primary for s in stats if s)
        metrics = [s.metrics if s else {} for s in stats]
        for name in dict.fromkeys([primary, *(n for m in metrics for n in m)]):
            cells = [_metric(m.get(name), name == primary, r.incomplete(benchmark))
                     for m, r in zip(metrics, runs, strict=True)]
            rows.append([TableCell(title), TableCell(name), _counts(metrics, name), *cells])
    note = ("Mean over all questions of the set in per cent, with its 95 % interval, clustered by database, "
            "table or topic. A failed answer, and a question whose data could not be read, is a scored 0.")
    return ReportTable("Results", ["benchmark", "metric", "n", *(r.name for r in runs)], rows, note)


def questions(runs: list[RunData]) -> ReportTable:
    """What became of the questions that were asked."""
    rows = []
    for benchmark, title in benchmark_titles(runs).items():
        for run in runs:
            if benchmark not in run.benchmarks:
                continue
            q = run.benchmarks[benchmark].questions
            rows.append([TableCell(title), TableCell(run.name), TableCell(f"{q.asked:,}"),
                         TableCell(f"{q.answered:,}"), _by_reason(q.failed_reading), _by_reason(q.unusable),
                         TableCell(f"{q.unfinished:,}")])
    note = ("Failed reading: our reader or builder can't make the BOXes; in n, scored 0. Unusable gold: the "
            "label gives no answer to compare with; outside n. Unfinished: a server or our machinery failed; "
            "the score is incomplete until --resume has taken them up.")
    columns = ["benchmark", "run", "asked", "answered", "failed reading", "unusable gold", "unfinished"]
    return ReportTable("Questions", columns, rows, note)


def _by_reason(reasons: dict[str, int]) -> TableCell:
    return TableCell(f"{sum(reasons.values()):,}", "; ".join(f"{n} × {why}" for why, n in reasons.items()))


def _counts(metrics: list[dict[str, Metric]], name: str) -> TableCell:
    known = [m[name] for m in metrics if name in m]
    counts, clusters = (" / ".join(dict.fromkeys(f"{n:,}" for n in numbers))
                        for numbers in ([m.n for m in known], [m.clusters for m in known]))
    return TableCell(counts or "0", f"{clusters} clusters" if known else "")


def _metric(metric: Metric | None, strong: bool, incomplete: bool = False) -> TableCell:
    if metric is None:
        return TableCell("–")
    text = percent(metric.value) + mark(incomplete)
    return TableCell(text, interval(metric.low, metric.high), strong=strong)


def mark(incomplete: bool) -> str:
    """What stands beside a score over a part of its questions."""
    return " (incomplete)" if incomplete else ""


def percent(value: float) -> str:
    """A share in per cent with one digit."""
    return f"{100 * value:.1f}"


def interval(low: float | None, high: float | None) -> str:
    """``[40.2, 54.0]``, or words where one cluster allows no interval."""
    return NO_INTERVAL if low is None or high is None else f"[{percent(low)}, {percent(high)}]"


def differences(runs: list[RunData]) -> list[ReportTable]:
    """The first run beside each other run, paired over the same questions."""
    return [_difference(runs[0], other, n) for n, other in enumerate(runs) if n]


def _difference(a: RunData, b: RunData, number: int) -> ReportTable:
    try:
        table = difference(compare_runs(a, b).whole, a, b, number)
    except UserError as e:
        return ReportTable(f"{b.name} against {a.name}", ["benchmark"], [[TableCell("not compared")]],
                           f"Not compared: {e}.")
    return table.only(*(c for c in table.columns if c != "subset")).headed({"A": a.name, "B": b.name})


def difference(parts: Sequence[Difference], a: RunData, b: RunData, number: int = 1) -> ReportTable:
    """Run ``b`` against ``a`` (columns B and A); ``number`` is b's in the viewer."""
    first = {d.benchmark: d.metric for d in reversed(parts)}
    rows = [_difference_row(d, a, number, d.metric == first[d.benchmark]) for d in parts]
    note = ("Paired over the same questions: 95 % t interval over clusters, and p of the clustered paired t "
            "test. Gained and lost are flips of single questions (McNemar's counts, descriptive).")
    columns = ["benchmark", "subset", "metric", "n", "A", "B", "difference", "p", "gained", "lost"]
    return ReportTable(f"{b.name} against {a.name}", columns, rows, note)


def _difference_row(d: Difference, a: RunData, number: int, primary: bool) -> list[TableCell]:
    """Flips can be listed for the primary metric, by which the viewer knows right from wrong."""
    flips = {"benchmark": d.benchmark, "from": "0", "run": str(number)}
    listed = primary and not d.subset
    change = f"{100 * d.difference:+.1f}{mark(a.incomplete(d.benchmark))}"
    return [
        TableCell(a.title(d.benchmark)), TableCell(d.subset.replace("=", ": ")), TableCell(d.metric),
        TableCell(f"{d.n:,}", f"{d.clusters:,} clusters"), TableCell(percent(d.a)), TableCell(percent(d.b)),
        TableCell(change, interval(d.low, d.high), strong=listed),
        TableCell("–" if d.p is None else f"{d.p:.3f}" if d.p >= 0.001 else "< 0.001"),
        TableCell(str(d.gained), filter=flips | {"flip": "gained"} if listed else {}),
        TableCell(str(d.lost), filter=flips | {"flip": "lost"} if listed else {}),
    ]


def levels(runs: list[RunData]) -> ReportTable:
    """The primary metric by level, hardness and other tags."""
    rows = []
    for benchmark, title in benchmark_titles(runs).items():
        stats = [r.benchmarks.get(benchmark) for r in runs]
        primary = next(s.primary for s in stats if s)
        for subset in dict.fromkeys(name for s in stats if s for name in s.subsets):
            metrics = [s.subsets.get(subset, {}) if s else {} for s in stats]
            cells = [_metric(m.get(primary), False, r.incomplete(benchmark))
                     for m, r in zip(metrics, runs, strict=True)]
            part = TableCell(subset.replace("=", ": "))
            rows.append([TableCell(title), part, _counts(metrics, primary), *cells])
    return ReportTable("By level", ["benchmark", "subset", "n", *(r.name for r in runs)], rows,
                       "The benchmark's main metric in parts of the question set.")


def score_table(report: ScoreReport) -> ReportTable:
    """A prediction file's score: each metric over all questions, then over parts of them."""
    parts = {"all": report.metrics, **report.subsets}
    rows = [[TableCell(part.replace("=", ": ")), TableCell(name), _counts([metrics], name), _metric(m, False)]
            for part, metrics in parts.items() for name, m in metrics.items()]
    return ReportTable(f"{report.benchmark} {report.split}", ["questions", "metric", "n", "score"], rows)


def kinds(runs: list[RunData]) -> ReportTable:
    """Wrong answers by the paper's six kinds."""
    counts = [Counter(d.kind for d in r.diagnoses.values()) for r in runs]
    rows = [[TableCell(KINDS[k]), *_shares(counts, k, "kind")] for k in KINDS if any(f[k] for f in counts)]
    note = ("Of the questions that are not fully right. Kinds are assigned by rules from code, execution and "
            "gold; each sample shows what its rule saw.")
    return ReportTable("Why answers are wrong", ["kind", *(r.name for r in runs)], rows, note)


def _shares(counts: Sequence[Counter[Any]], key: str | int, filter: str = "") -> list[TableCell]:
    """Count and share of ``key`` in each run; ``filter`` names the viewer's filter that lists them."""
    return [TableCell(f"{c[key]:,}", f"{c[key] / c.total():.0%}" if c.total() else "",
                      {filter: str(key), "run": str(n)} if filter and c[key] else {})
            for n, c in enumerate(counts)]


def endings(runs: list[RunData]) -> ReportTable:
    """What became of the questions: how the last turn ended, or why there was none."""
    words = {"ok": "an answer", "empty": "an empty answer", "error": "failed code", "timeout": "time-out",
             "limit": "another limit", "reply": "a reply that could not be run", "prompt": "prompt too long",
             "refused": "a refusal", "failed reading": "data that could not be read",
             "unusable gold": "gold without an answer"}
    counts = [r.statuses() for r in runs]
    rows = [[TableCell(words[s]), *_shares(counts, s, "status")] for s in words if any(f[s] for f in counts)]
    turns = [Counter(len(t.steps) for t in r.samples) for r in runs]
    several = sorted({n for t in turns for n in t if n > 1})
    rows += [[TableCell(f"took {n} turns"), *_shares(turns, n)] for n in several]
    return ReportTable("How questions ended", ["ending", *(r.name for r in runs)], rows)


def forms(runs: list[RunData]) -> ReportTable:
    """What ``result`` was before normalisation."""
    last = [[t.steps[-1].execution for t in r.samples if t.steps] for r in runs]
    counts = [Counter(x.shape or "rows" for x in run if x and x.outcome == "result") for run in last]
    shapes = sorted({s for f in counts for s in f}, key=lambda s: (s != "rows", s))
    rows = [[TableCell("list of rows, as asked" if s == "rows" else s),
             *_shares(counts, s)] for s in shapes]
    return ReportTable("Form of the results", ["form", *(r.name for r in runs)], rows,
                       "Forms other than a list of rows are normalised before scoring; so often each came.")


def cost(runs: list[RunData]) -> ReportTable:
    """Calls, tokens, time and money."""
    usage = [r.usage() for r in runs]
    counts = [max(len(r.samples), 1) for r in runs]
    seconds = [sum(t.seconds for t in r.samples) / n for r, n in zip(runs, counts, strict=True)]
    cached = [u.cached_tokens / max(u.prompt_tokens, 1) for u in usage]

    def row(name: str, values: Iterable[float], write: Callable[[float], str]) -> list[TableCell]:
        return [TableCell(name), *[TableCell(write(v)) for v in values]]

    def per(attribute: str) -> list[float]:
        return [getattr(u, attribute) / n for u, n in zip(usage, counts, strict=True)]

    rows = [
        row("model calls per question", per("calls"), lambda v: f"{v:.2f}"),
        row("prompt tokens per question", per("prompt_tokens"), lambda v: f"{v:,.0f}"),
        row("reply tokens per question", per("completion_tokens"), lambda v: f"{v:,.0f}"),
        row("prompt tokens from the server's cache", cached, lambda v: f"{v:.0%}"),
        row("seconds per question", seconds, lambda v: f"{v:.1f}"),
        row("USD per 1,000 questions", [1000 * v for v in per("usd")], lambda v: f"{v:.2f}"),
    ]
    return ReportTable("Cost", ["", *(r.name for r in runs)], rows,
                 "Questions run side by side, so that a run takes less than its questions' seconds together. "
                 "USD is 0 without prices in the config.")


def about(runs: list[RunData]) -> ReportTable:
    """What the numbers are about: model, demonstrations, guide, question set."""
    rows = [[TableCell(name), *[TableCell(str(r.facts.get(name, "–"))) for r in runs]]
            for name in dict.fromkeys(n for r in runs for n in r.facts)]
    return ReportTable("Runs", ["", *(r.name for r in runs)], rows)
