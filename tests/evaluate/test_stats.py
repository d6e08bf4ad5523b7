"""Clustered means: against known tables, plain formulas and simulated truth."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pandora_train.evaluate.stats import clustered_stderr, measure, t_quantile, t_two_sided, wilson


@pytest.mark.parametrize(("dof", "t"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (7, 2.3646), (11, 2.2010),
                                        (30, 2.0423), (120, 1.9799)])
def test_t_quantiles_are_the_tables(dof: int, t: float) -> None:
    assert t_quantile(dof) == pytest.approx(t, abs=1e-4)
    assert t_two_sided(t, dof) == pytest.approx(0.05, abs=1e-5)


def test_t_tails() -> None:
    assert t_two_sided(0.0, 5) == 1.0
    assert t_two_sided(math.inf, 5) == 0.0
    assert t_two_sided(-2.0, 9) == t_two_sided(2.0, 9)


@given(st.floats(0, 1), st.floats(1, 1e4), st.floats(1, 13))
def test_wilson_bounds_are_the_proportions_that_would_just_not_be_rejected(p: float, n: float, z: float) -> None:
    for bound in wilson(p, n, z):
        assert (p - bound) ** 2 == pytest.approx(z * z * bound * (1 - bound) / n, abs=1e-9)


def test_wilson_holds_the_proportion_at_the_ends() -> None:
    for n in range(2, 200):
        for z in (1.96, 4.303, 12.706):
            assert wilson(0.0, n / 1.03, z)[0] == 0.0
            assert wilson(1.0, n / 1.03, z)[1] == 1.0


def test_one_question_a_cluster_is_the_ordinary_standard_error() -> None:
    values = [0.0, 1.0, 1.0, 0.5, 0.0, 1.0]
    assert clustered_stderr(values, list("abcdef")) == pytest.approx(statistics.stdev(values) / math.sqrt(6))


def test_repeating_each_question_adds_no_certainty() -> None:
    values, groups = [0.0, 1.0, 1.0, 0.0, 1.0], list("abcde")
    assert clustered_stderr(values * 7, groups * 7) == pytest.approx(clustered_stderr(values, groups))


def test_interval_is_t_with_clusters_minus_one() -> None:
    metric = measure("ex", [1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0], list("aaaabbbbccccdddd"))
    assert metric.stderr is not None
    assert metric.low is not None
    assert (metric.n, metric.clusters, metric.value) == (16, 4, 0.5)
    assert metric.value - metric.low == pytest.approx(3.1824 * metric.stderr, abs=1e-4)
    assert "3 dof" in metric.method


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from("abcdefgh")), min_size=1))
def test_an_interval_is_never_a_point_and_stays_in_range(pairs: list[tuple[float, str]]) -> None:
    metric = measure("m", [v for v, _ in pairs], [g for _, g in pairs])
    if metric.clusters == 1:
        assert (metric.stderr, metric.low, metric.high) == (None, None, None)
        return
    assert metric.low is not None
    assert metric.high is not None
    assert 0 <= metric.low <= metric.value + 1e-9
    assert metric.value - 1e-9 <= metric.high <= 1
    assert metric.high - metric.low > 1e-3


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_equal_gets_a_wilson_interval_with_an_assumed_design_effect(value: float) -> None:
    metric = measure("ex", [value] * 650, [str(i % 12) for i in range(650)])
    assert metric.low is not None
    assert metric.high is not None
    assert "ICC 0.1 assumed" in metric.method
    assert 0.03 < metric.high - metric.low < 0.06


def test_coverage_with_twelve_unequal_clusters() -> None:
    """About 95 of 100 intervals hold the truth; independent ones would hold it far less often."""
    random_ = random.Random(1)
    held = naive = 0
    for _ in range(400):
        values, groups = [], []
        for cluster in range(12):
            p = min(0.95, max(0.05, random_.gauss(0.5, 0.2)))
            size = random_.randint(20, 90)
            values += [float(random_.random() < p) for _ in range(size)]
            groups += [str(cluster)] * size
        metric = measure("ex", values, groups)
        assert metric.low is not None
        assert metric.high is not None
        held += metric.low <= 0.5 <= metric.high
        naive += abs(metric.value - 0.5) < 1.96 * statistics.stdev(values) / math.sqrt(len(values))
    assert held / 400 > 0.90
    assert naive / 400 < 0.75
