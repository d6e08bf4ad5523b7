"""Two runs over the same questions: paired differences, intervals for few clusters, flips, cost.

The test is the clustered paired t test; the clustered bootstrap interval stands beside it. McNemar's
counts are descriptive only: they take questions over one database as independent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from pandora_train.errors import UserError
from pandora_train.evaluate.stats import (
    ROUNDING,
    Cost,
    clustered_stderr,
    cost_of,
    measure,
    primary_of,
    subsets,
    t_quantile,
    t_two_sided,
)
from pandora_train.records import Benchmark, Record, Trajectory
from pandora_train.runs import read_jsonl

DRAWS = 10_000
SEED = 20240
Questions = dict[tuple[Benchmark, str], Trajectory]
"""Scored trajectories by benchmark and example id."""


class Difference(Record):
    """Run B minus run A in one metric, on one benchmark or one of its subsets."""

    benchmark: str
    subset: str
    """Empty for the whole benchmark, else for example ``level=zero-shot``."""
    metric: str
    n: int
    clusters: int
    a: float
    b: float
    difference: float
    stderr: float | None
    low: float | None
    high: float | None
    """95 % interval of the difference: t with clusters - 1 degrees of freedom."""
    p: float | None
    """Two-sided p of the clustered paired t test; not corrected for looking at many subsets."""
    bootstrap_low: float | None
    bootstrap_high: float | None
    """95 % percentile interval, clusters redrawn."""
    method: str
    gained: int
    """McNemar: wrong in A, right in B (the metric is 1)."""
    lost: int
    """McNemar: right in A, wrong in B."""


class Flip(Record):
    """A question that one run answers right and the other doesn't, by the primary metric."""

    id: str
    benchmark: str
    group: str
    question: str
    direction: Literal["gained", "lost"]
    status_a: str
    status_b: str


class Comparison(Record):
    """Run B against run A."""

    a: str
    b: str
    differences: tuple[Difference, ...]
    """Primary metric of each benchmark first, then its other metrics, then its subsets."""
    flips: tuple[Flip, ...]
    cost_a: Cost
    cost_b: Cost


def compare_runs(run_a: Path, run_b: Path) -> Comparison:
    """Compare two evaluation run folders.

    Raises :class:`UserError` when a folder is no evaluation run, or the question sets differ.
    """
    a, b = _samples(run_a), _samples(run_b)
    return compare_samples(list(a.values()), list(b.values()), run_a.name, run_b.name)


def compare_samples(a: Sequence[Trajectory], b: Sequence[Trajectory], name_a: str, name_b: str) -> Comparison:
    """Compare two sets of scored trajectories over the same questions (else :class:`UserError`)."""
    by_id = {(t.benchmark, t.id): t for t in b}
    _refuse_other_questions({(t.benchmark, t.id): t for t in a}, by_id, name_a, name_b)
    pairs: defaultdict[str, list[tuple[Trajectory, Trajectory]]] = defaultdict(list)
    for t in a:
        pairs[t.benchmark].append((t, by_id[t.benchmark, t.id]))
    differences = [d for benchmark, part in pairs.items() for d in _benchmark(benchmark, part)]
    flips = [f for benchmark, part in pairs.items() for f in _flips(benchmark, part)]
    return Comparison(a=name_a, b=name_b, differences=tuple(differences), flips=tuple(flips),
                      cost_a=cost_of(a), cost_b=cost_of(b))


def _samples(run: Path) -> Questions:
    file = run / "samples.jsonl"
    if not file.is_file():
        raise UserError(f"{run} is no evaluation run: it has no samples.jsonl")
    return {(t.benchmark, t.id): t for t in read_jsonl(file, Trajectory)}


def _refuse_other_questions(a: Questions, b: Questions, name_a: str, name_b: str) -> None:
    for here, there, has, lacks in ((a, b, name_a, name_b), (b, a, name_b, name_a)):
        missing = sorted(here.keys() - there.keys())
        if missing:
            raise UserError(f"the runs answer different questions: {len(missing)} of {has} are not in "
                            f"{lacks}, for example {missing[0][1]} ({missing[0][0]}); compare runs over one "
                            "question set")
    if not a:
        raise UserError(f"{name_a} and {name_b} hold no samples to compare")
    for key, sample in a.items():
        other = b[key]
        if (sample.question, sample.gold) != (other.question, other.gold):
            raise UserError(f"question {key[1]} differs between {name_a} and {name_b} in its text or gold: "
                            "the runs used different data")


def _benchmark(benchmark: str, pairs: list[tuple[Trajectory, Trajectory]]) -> list[Difference]:
    first = [a for a, _ in pairs]
    primary = primary_of(benchmark, first)
    names = list(dict.fromkeys([primary, *(name for pair in pairs for t in pair for name in t.scores)]))
    other = {a.id: b for a, b in pairs}
    found = [_difference(benchmark, "", name, pairs) for name in names]
    for subset, part in subsets(first).items():
        found.append(_difference(benchmark, subset, primary, [(a, other[a.id]) for a in part]))
    return found


def _difference(benchmark: str, subset: str, metric: str,
                pairs: list[tuple[Trajectory, Trajectory]]) -> Difference:
    a = [x.scores.get(metric, 0.0) for x, _ in pairs]
    b = [y.scores.get(metric, 0.0) for _, y in pairs]
    groups = [x.group for x, _ in pairs]
    change = [y - x for x, y in zip(a, b, strict=True)]
    clusters, mean = len(set(groups)), math.fsum(change) / len(change)
    stderr, low, high, p, method = _interval(change, groups)
    draws = bootstrap(change, groups) if clusters > 1 else None
    return Difference(
        benchmark=benchmark, subset=subset, metric=metric, n=len(change), clusters=clusters,
        a=math.fsum(a) / len(a), b=math.fsum(b) / len(b), difference=mean, stderr=stderr, low=low, high=high,
        p=p, method=method, bootstrap_low=draws and draws[0], bootstrap_high=draws and draws[1],
        gained=sum(x < 1.0 <= y for x, y in zip(a, b, strict=True)),
        lost=sum(y < 1.0 <= x for x, y in zip(a, b, strict=True)),
    )


def _interval(change: list[float], groups: list[str]) -> tuple[float | None, float | None, float | None,
                                                               float | None, str]:
    """Standard error, 95 % interval, p and method of a mean paired difference."""
    clusters = len(set(groups))
    mean = math.fsum(change) / len(change)
    if clusters < 2:
        return None, None, None, None, "none: one cluster"
    if not any(change):  # never a point: no change seen bounds how often one could come
        bound = measure("changed", [0.0] * len(change), groups)
        assert bound.high is not None
        return 0.0, -bound.high, bound.high, 1.0, f"no answer differs; bound by {bound.method}"
    stderr = clustered_stderr(change, groups)
    if stderr < ROUNDING:
        return 0.0, None, None, None, "none: every cluster changes equally"
    reach = t_quantile(clusters - 1) * stderr
    p = t_two_sided(mean / stderr, clusters - 1)
    return stderr, mean - reach, mean + reach, p, f"paired t, {clusters - 1} dof, clustered"


def bootstrap(change: Sequence[float], groups: Sequence[str], draws: int = DRAWS) -> tuple[float, float]:
    """95 % percentile interval of the mean when whole clusters are redrawn; seeded."""
    sums: defaultdict[str, list[float]] = defaultdict(list)
    for value, group in zip(change, groups, strict=True):
        sums[group].append(value)
    totals = np.array([math.fsum(v) for v in sums.values()])
    sizes = np.array([len(v) for v in sums.values()], dtype=float)
    random = np.random.default_rng(SEED)
    means = np.empty(draws)
    block = max(1, 2_000_000 // len(totals))
    for at in range(0, draws, block):
        drawn = random.integers(0, len(totals), size=(min(block, draws - at), len(totals)))
        means[at:at + len(drawn)] = totals[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _flips(benchmark: str, pairs: list[tuple[Trajectory, Trajectory]]) -> list[Flip]:
    primary = primary_of(benchmark, [a for a, _ in pairs])
    found: list[Flip] = []
    for a, b in pairs:
        right_a, right_b = (t.scores.get(primary, 0.0) >= 1.0 for t in (a, b))
        if right_a != right_b:
            direction: Literal["gained", "lost"] = "gained" if right_b else "lost"
            found.append(Flip(id=a.id, benchmark=benchmark, group=a.group, question=a.question,
                              direction=direction, status_a=a.status, status_b=b.status))
    return found


def print_comparison(run_a: Path, run_b: Path) -> None:
    """Print the comparison of two run folders in the terminal: differences, cost, flips both ways."""
    from rich.console import Console
    from rich.table import Table

    comparison = compare_runs(run_a, run_b)
    console = Console()
    table = Table(title=f"B = {comparison.b} against A = {comparison.a}")
    for column in ("benchmark", "metric", "n", "G", "A", "B", "B - A", "95 % (t)", "95 % (bootstrap)", "p",
                   "gained / lost"):
        table.add_column(column, overflow="fold")
    for d in comparison.differences:
        table.add_row(f"{d.benchmark} {d.subset}".strip(), d.metric, str(d.n), str(d.clusters), _percent(d.a),
                      _percent(d.b), _percent(d.difference), _range(d.low, d.high),
                      _range(d.bootstrap_low, d.bootstrap_high), "" if d.p is None else f"{d.p:.3f}",
                      f"{d.gained} / {d.lost}")
    console.print(table)
    for name, cost in ((comparison.a, comparison.cost_a), (comparison.b, comparison.cost_b)):
        console.print(f"{name}: {_cost(cost)}")
    for direction in ("gained", "lost"):
        flips = [f for f in comparison.flips if f.direction == direction]
        console.print(f"{direction}: {len(flips)}" + (":" if flips else ""))
        for f in flips:
            console.print(f"  {f.id}  {f.question}", markup=False, overflow="ellipsis", no_wrap=True)


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _range(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{_percent(low)}, {_percent(high)}]"


def _cost(cost: Cost) -> str:
    usage = cost.usage
    return (f"{usage.calls} calls, {usage.prompt_tokens} prompt and {usage.completion_tokens} completion "
            f"tokens, {cost.wall_seconds:.1f} s in answers, {usage.usd:.4f} USD")
