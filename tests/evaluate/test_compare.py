"""Two runs: differences, their uncertainty, flips, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pandora_train.errors import UserError
from pandora_train.evaluate.compare import Comparison, bootstrap, compare_runs
from pandora_train.evaluate.results import Results, summarise
from pandora_train.records import Benchmark, Gold, Trajectory, Usage


def sample(number: int, group: str, value: float, benchmark: Benchmark = "wikitq", metric: str = "da",
           gold: str = "x", **tags: str) -> Trajectory:
    return Trajectory(id=f"q{number}", benchmark=benchmark, split="dev", group=group, question=f"what {number}?",
                      tags=tags, gold=Gold(answers=(gold,)), status="ok", scores={metric: value},
                      usage=Usage(calls=1, prompt_tokens=10), seconds=0.5)


@dataclass(frozen=True)
class Run:
    """An evaluation as :func:`compare_runs` sees it."""

    name: str
    samples: Sequence[Trajectory]
    results: Results
    finished: bool = True


def run(name: str, samples: list[Trajectory], unfinished: Sequence[Trajectory] = (), finished: bool = True) -> Run:
    down = {t.id: "server down" for t in unfinished}
    return Run(name, samples, summarise(samples, [*samples, *unfinished], down), finished)


def compared(a: list[Trajectory], b: list[Trajectory]) -> Comparison:
    return compare_runs(run("A", a), run("B", b))


def with_ending(t: Trajectory, **fields: object) -> Trajectory:
    return t.model_copy(update={"status": None, "rows": None, **fields})


def test_flips_and_counts_go_both_ways() -> None:
    a = [sample(i, "abcd"[i % 4], v) for i, v in enumerate([1, 1, 0, 0, 1, 0, 1, 0])]
    b = [sample(i, "abcd"[i % 4], v) for i, v in enumerate([1, 0, 1, 1, 1, 0, 1, 1])]
    found = compared(a, b[::-1])
    difference = found.differences[0]
    assert (difference.a, difference.b, difference.difference) == (0.5, 0.75, 0.25)
    assert (difference.gained, difference.lost, difference.n, difference.clusters) == (3, 1, 8, 4)
    assert {(f.id, f.direction) for f in found.flips} == {("q1", "lost"), ("q2", "gained"), ("q3", "gained"),
                                                         ("q7", "gained")}
    assert difference.low is not None
    assert difference.low < 0.25 < (difference.high or 0)
    assert "3 dof" in difference.method
    assert found.cost_a.usage.calls == 8


def test_runs_that_asked_different_questions_are_refused() -> None:
    a, b = [sample(1, "a", 1.0), sample(2, "b", 0.0)], [sample(1, "a", 1.0)]
    with pytest.raises(UserError, match="asked different questions: 1 of A are not in B, for example q2"):
        compared(a, b)
    with pytest.raises(UserError, match="1 of B are not in A"):
        compared(b, a)
    with pytest.raises(UserError, match="differs between"):
        compared(b, [sample(1, "a", 1.0, gold="y")])
    with pytest.raises(UserError, match="no samples"):
        compared([], [])


def test_both_runs_must_have_finished_the_same_questions() -> None:
    one, two = sample(1, "a", 1.0), sample(2, "b", 0.0)
    whole, part = run("A", [one, two]), run("B", [one], [two])
    with pytest.raises(UserError, match=r"B left 1 questions unfinished that A finished, for example q2: .*--resume"):
        compare_runs(whole, part)
    with pytest.raises(UserError, match="B left 1 questions unfinished"):
        compare_runs(part, whole)
    with pytest.raises(UserError, match="B is not finished"):
        compare_runs(whole, run("B", [one, two], finished=False))
    with pytest.raises(UserError, match="asked different questions"):
        compare_runs(run("A", [one]), part)
    assert compare_runs(part, part).differences[0].n == 1


def test_a_failed_reading_counts_and_unusable_gold_on_either_side_does_not() -> None:
    a = [sample(i, "abcd"[i % 4], 1.0) for i in range(8)]
    b = [t.model_copy(update={"scores": {"da": 0.0}}) for t in a]
    b[0] = with_ending(b[0], ending="failed reading", scores={"da": 0.0})
    a[1] = with_ending(a[1], ending="unusable gold", scores={})
    b[2] = with_ending(b[2], ending="unusable gold", scores={})
    found = compared(a, b)
    assert (found.differences[0].n, found.differences[0].difference) == (6, -1.0)
    assert {f.id: f.status_b for f in found.flips}["q0"] == "failed reading"


def test_benchmarks_and_levels_stand_apart() -> None:
    a = [sample(i, "abc"[i % 3], 0.0, level="easy" if i < 6 else "hard") for i in range(12)]
    a += [sample(100 + i, "abc"[i % 3], 1.0, "webqsp", "f1") for i in range(12)]
    b = [t.model_copy(update={"scores": dict.fromkeys(t.scores, 1.0)}) for t in a]
    found = {(d.benchmark, d.subset, d.metric): d for d in compared(a, b).differences}
    assert {k: (d.n, d.difference) for k, d in found.items()} == {
        ("wikitq", "", "da"): (12, 1.0), ("wikitq", "level=easy", "da"): (6, 1.0),
        ("wikitq", "level=hard", "da"): (6, 1.0), ("webqsp", "", "f1"): (12, 0.0)}


def test_no_change_is_not_certainty() -> None:
    a = [sample(i, "abcd"[i % 4], 1.0) for i in range(40)]
    difference = compared(a, a).differences[0]
    assert difference.low is not None
    assert difference.high is not None
    assert difference.low < -0.01 < 0.01 < difference.high
    assert difference.p == 1.0


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from("abc")),
                min_size=1, max_size=12))
def test_an_interval_holds_the_difference_and_nothing_impossible(questions: list[tuple[float, float, str]]) -> None:
    a = [sample(n, group, x) for n, (x, _, group) in enumerate(questions)]
    b = [sample(n, group, y) for n, (_, y, group) in enumerate(questions)]
    d = compared(a, b).differences[0]
    if d.low is not None:
        assert d.high is not None
        assert -1 <= d.low <= d.difference <= d.high <= 1


def test_one_cluster_has_no_interval() -> None:
    a = [sample(i, "a", float(i % 2)) for i in range(10)]
    difference = compared(a, [t.model_copy(update={"scores": {"da": 1.0}}) for t in a]).differences[0]
    assert (difference.low, difference.p, difference.bootstrap_low) == (None, None, None)
    assert difference.difference == 0.5


def test_the_test_holds_its_level_under_no_difference() -> None:
    """Clusters share their luck; p < 0.05 comes about 5 times in 100 all the same."""
    random_ = random.Random(4)
    rejected, trials = 0, 80
    for _ in range(trials):
        a, b = [], []
        for cluster in range(10):
            shift = random_.choice([-0.3, 0.3])
            for i in range(15):
                a.append(sample(cluster * 100 + i, str(cluster), float(random_.random() < 0.5)))
                b.append(sample(cluster * 100 + i, str(cluster), float(random_.random() < 0.5 + shift)))
        p = compared(a, b).differences[0].p
        rejected += p is not None and p < 0.05
    assert 0.0 < rejected / trials < 0.13


def test_the_bootstrap_is_seeded_and_near_the_truth() -> None:
    change = [1.0, 0.0, 0.0, 1.0, -1.0, 1.0] * 20
    groups = [str(i // 6) for i in range(120)]
    assert bootstrap(change, groups) == bootstrap(change, groups)
    low, high = bootstrap([float(i % 2) for i in range(400)], [str(i) for i in range(400)])
    assert (low, high) == pytest.approx((0.45, 0.55), abs=0.01)
