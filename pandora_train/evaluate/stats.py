"""Means with honest uncertainty: questions over one database, table or topic are not independent.

Standard errors are clustered; intervals are 95 % t intervals with (clusters - 1) degrees of freedom. Near
0 and 100 %, where a t interval leaves [0, 1] or shrinks to a point, a Wilson interval with the design
effect takes its place.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

from pandora_train.metrics import PRIMARY
from pandora_train.records import Record, Trajectory, Usage

CONFIDENCE = 0.95
ASSUMED_ICC = 0.1
"""Correlation within a cluster, assumed only where all values are equal and none can be estimated."""
ROUNDING = 1e-12
"""Standard errors below this are zero but for rounding."""
MAX_TAG_VALUES = 12
"""A tag with more values than this is no level, and scores aren't broken down by it."""


class Metric(Record):
    """A mean over questions with its uncertainty. No interval exists for a single cluster."""

    name: str
    value: float
    n: int
    clusters: int
    stderr: float | None
    low: float | None
    high: float | None
    method: str
    """How the interval was made."""


class Cost(Record):
    """What a set of answers took, in all."""

    questions: int
    usage: Usage
    wall_seconds: float
    """Sum of the questions' seconds; questions run side by side, so a run is shorter."""


def measure(name: str, values: Sequence[float], groups: Sequence[str]) -> Metric:
    """Mean of ``values`` in [0, 1], clustered by ``groups``. There must be at least one value."""
    mean = math.fsum(values) / len(values)
    clusters = len(set(groups))
    if clusters < 2:
        return Metric(name=name, value=mean, n=len(values), clusters=clusters, stderr=None, low=None,
                      high=None, method="none: one cluster")
    stderr = clustered_stderr(values, groups)
    reach = t_quantile(clusters - 1) * stderr
    low, high, method = mean - reach, mean + reach, f"t, {clusters - 1} dof, clustered"
    if stderr < ROUNDING or low < 0 or high > 1:
        low, high, method = _wilson(mean, stderr, len(values), clusters)
    return Metric(name=name, value=mean, n=len(values), clusters=clusters, stderr=stderr, low=low, high=high,
                  method=method)


def clustered_stderr(values: Sequence[float], groups: Sequence[str]) -> float:
    """Standard error of the mean with clusters as the units drawn (G/(G-1) corrected).

    Liang and Zeger's sandwich for a mean; needs two clusters or more.
    """
    mean = math.fsum(values) / len(values)
    sums: defaultdict[str, float] = defaultdict(float)
    for value, group in zip(values, groups, strict=True):
        sums[group] += value - mean
    clusters = len(sums)
    return math.sqrt(clusters / (clusters - 1) * math.fsum(s * s for s in sums.values())) / len(values)


def _wilson(mean: float, stderr: float, n: int, clusters: int) -> tuple[float, float, str]:
    """Wilson interval over the effective number of questions, with the t quantile of the clusters."""
    mean = min(1.0, max(0.0, mean))
    spread = mean * (1 - mean) / n
    if stderr >= ROUNDING and spread > 0:
        effect, origin = max(1.0, stderr**2 / spread), "estimated"
    else:
        effect, origin = 1 + max(0.0, n / clusters - 1) * ASSUMED_ICC, f"ICC {ASSUMED_ICC} assumed"
    low, high = wilson(mean, n / effect, t_quantile(clusters - 1))
    return low, high, f"Wilson, design effect {effect:.2f} ({origin}), {clusters - 1} dof"


def wilson(p: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's score interval of a proportion ``p`` over ``n`` (effective) trials; it always holds ``p``."""
    centre = p + z * z / (2 * n)
    reach = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low, high = max(0.0, (centre - reach) / scale), min(1.0, (centre + reach) / scale)
    return min(low, p), max(high, p)  # at 0 and 1 the last bit may fall on the wrong side


def t_two_sided(t: float, dof: int) -> float:
    """P(|T| > t) for Student's t with ``dof`` degrees of freedom.

    The finite sum for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    if math.isinf(t):
        return 0.0
    theta = math.atan(abs(t) / math.sqrt(dof))
    cos2 = math.cos(theta) ** 2
    odd = dof % 2
    term = total = math.cos(theta) if odd else 1.0
    for k in range(2 + odd, dof - 1, 2):
        term *= (k - 1) / k * cos2
        total += term
    if not odd:
        inside = math.sin(theta) * total
    else:
        inside = 2 / math.pi * (theta + (math.sin(theta) * total if dof > 1 else 0.0))
    return min(1.0, max(0.0, 1.0 - inside))


@lru_cache(maxsize=1024)
def t_quantile(dof: int, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| <= t) = ``confidence``, by bisection (12.71 for one degree of freedom)."""
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_two_sided(middle, dof) > 1 - confidence else (low, middle)
    return high


def cost_of(samples: Sequence[Trajectory]) -> Cost:
    """Calls, tokens, seconds and money of all ``samples``."""
    usage = Usage()
    for sample in samples:
        usage += sample.usage
    return Cost(questions=len(samples), usage=usage, wall_seconds=math.fsum(s.seconds for s in samples))


class ScoredSample(Protocol):
    """A scored question, whatever else is known of it."""

    @property
    def group(self) -> str: ...
    @property
    def tags(self) -> dict[str, str]: ...
    @property
    def scores(self) -> dict[str, float]: ...


S = TypeVar("S", bound=ScoredSample)


def subsets(samples: Sequence[S]) -> dict[str, list[S]]:
    """The samples by tag, under names like ``level=zero-shot``; tags that name no level are left out."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for sample in samples:
        for tag, value in sample.tags.items():
            values[tag].add(value)
    parts: defaultdict[str, list[S]] = defaultdict(list)
    for sample in samples:
        for tag, value in sample.tags.items():
            if len(values[tag]) <= MAX_TAG_VALUES:
                parts[f"{tag}={value}"].append(sample)
    return dict(sorted(parts.items()))


def measured(samples: Sequence[ScoredSample]) -> dict[str, Metric]:
    """Every metric that any of the samples has; a sample without it counts 0."""
    names = list(dict.fromkeys(name for s in samples for name in s.scores))
    groups = [s.group for s in samples]
    return {name: measure(name, [s.scores.get(name, 0.0) for s in samples], groups) for name in names}


def primary_of(benchmark: str, samples: Sequence[ScoredSample]) -> str:
    """The primary metric as these samples carry it (own files with SQL gold are scored by EX)."""
    name = PRIMARY[benchmark]
    if not samples or any(name in s.scores for s in samples):
        return name
    return next(iter(samples[0].scores), name)
