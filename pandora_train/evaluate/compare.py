"""Two runs over the same questions: paired differences, intervals for few clusters, flips, cost.

Both must have finished the same questions; one whose gold is unusable in either is outside on both sides.

The test is the clustered paired t test; the clustered bootstrap interval stands beside it. McNemar's
counts are descriptive only: they take questions over one database as independent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np

from pandora_train.errors import UserError
from pandora_train.evaluate.results import Results
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
from pandora_train.records import Record, Trajectory

DRAWS = 10_000
SEED = 20240
Pair = tuple[Trajectory, Trajectory]
"""One question in run A and in run B."""


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

    @property
    def whole(self) -> tuple[Difference, ...]:
        """All metrics, over whole benchmarks."""
        return tuple(d for d in self.differences if not d.subset)

    @property
    def main(self) -> tuple[Difference, ...]:
        """The primary metric of each benchmark."""
        return tuple({d.benchmark: d for d in reversed(self.differences)}.values())[::-1]


class Evaluated(Protocol):
    """An evaluation run: its scored trajectories, and the results that say what it asked."""

    @property
    def name(self) -> str: ...
    @property
    def samples(self) -> Sequence[Trajectory]: ...
    @property
    def results(self) -> Results: ...
    @property
    def finished(self) -> bool: ...


def compare_runs(a: Evaluated, b: Evaluated) -> Comparison:
    """Run ``b`` against run ``a``.

    Raises :class:`UserError` where they asked different questions, one left questions unfinished that the
    other finished, or texts or gold differ.
    """
    _refuse_unlike(a, b)
    by_id = {t.id: t for t in b.samples}
    pairs: defaultdict[str, list[Pair]] = defaultdict(list)
    for t in a.samples:
        if "unusable gold" not in (t.ending, by_id[t.id].ending):
            pairs[t.benchmark].append((t, by_id[t.id]))
    if not pairs:
        raise UserError(f"{a.name} and {b.name} hold no samples to compare")
    differences = [d for benchmark, part in pairs.items() for d in _benchmark(benchmark, part)]
    flips = [f for benchmark, part in pairs.items() for f in _flips(benchmark, part)]
    return Comparison(a=a.name, b=b.name, differences=tuple(differences), flips=tuple(flips),
                      cost_a=cost_of(a.samples), cost_b=cost_of(b.samples))


def _refuse_unlike(a: Evaluated, b: Evaluated) -> None:
    """Raise :class:`UserError` unless both runs finished the same questions, with the same text and gold."""
    for run in (a, b):
        if not run.finished:
            raise UserError(f"{run.name} is not finished: go on with --resume, then compare")
    for here, there in ((a, b), (b, a)):
        other = _asked(here) - _asked(there)
        if other:
            raise UserError(f"the runs asked different questions: {len(other)} of {here.name} are not in "
                            f"{there.name}, for example {min(other)}; compare runs over one question set")
    for here, there in ((a, b), (b, a)):
        later = {t.id for t in here.samples} - {t.id for t in there.samples}
        if later:
            raise UserError(f"{there.name} left {len(later)} questions unfinished that {here.name} finished, "
                            f"for example {min(later)}: go on with --resume, then compare")
    contents = {t.id: (t.question, t.gold) for t in b.samples}
    for t in a.samples:
        if contents[t.id] != (t.question, t.gold):
            raise UserError(f"question {t.id} differs between {a.name} and {b.name} in its text or gold: the "
                            "runs used different data")


def _asked(run: Evaluated) -> set[str]:
    """Ids of the questions that ``run`` asked."""
    return {t.id for t in run.samples} | run.results.unfinished.keys()


def _benchmark(benchmark: str, pairs: list[Pair]) -> list[Difference]:
    first = [a for a, _ in pairs]
    primary = primary_of(benchmark, first)
    names = list(dict.fromkeys([primary, *(name for pair in pairs for t in pair for name in t.scores)]))
    other = {a.id: b for a, b in pairs}
    whole = [_difference(benchmark, "", name, pairs) for name in names]
    return whole + [_difference(benchmark, subset, primary, [(a, other[a.id]) for a in part])
                    for subset, part in subsets(first).items()]


def _difference(benchmark: str, subset: str, metric: str,
                pairs: list[Pair]) -> Difference:
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
    low, high = max(-1.0, mean - reach), min(1.0, mean + reach)  # few clusters reach beyond it
    return stderr, low, high, p, f"paired t, {clusters - 1} dof, clustered"


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


def _flips(benchmark: str, pairs: list[Pair]) -> list[Flip]:
    primary = primary_of(benchmark, [a for a, _ in pairs])
    flips: list[Flip] = []
    for a, b in pairs:
        right_a, right_b = (t.scores.get(primary, 0.0) >= 1.0 for t in (a, b))
        if right_a != right_b:
            direction: Literal["gained", "lost"] = "gained" if right_b else "lost"
            flips.append(Flip(id=a.id, benchmark=benchmark, group=a.group, question=a.question,
                              direction=direction, status_a=a.status or a.ending,
                              status_b=b.status or b.ending))
    return flips
