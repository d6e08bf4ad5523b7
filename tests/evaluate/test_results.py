"""``results.json``: n is what was asked, and a record of another layout is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pandora_train.errors import UserError
from pandora_train.evaluate.results import Results, read_results, summarise
from pandora_train.records import Ending, Status, Trajectory, Usage


def sample(number: int, group: str, value: float, status: Status = "ok", **tags: str) -> Trajectory:
    return Trajectory(id=f"q{number}", benchmark="spider", split="dev", group=group, question="?", tags=tags,
                      status=status, scores={"ex": value}, usage=Usage(calls=2, usd=0.5), seconds=1.5)


def without(number: int, ending: Ending, reason: str = "no file") -> Trajectory:
    scores = {"ex": 0.0} if ending == "failed reading" else {}
    return Trajectory(id=f"q{number}", benchmark="spider", split="dev", group="c", question="?", ending=ending,
                      reason=reason, scores=scores)


def test_every_answer_counts_by_benchmark_level_and_status() -> None:
    samples = [sample(1, "a", 1.0, level="easy"), sample(2, "a", 0.0, "error", level="easy"),
               sample(3, "b", 0.0, "timeout", level="hard"), sample(4, "b", 1.0, level="hard")]
    results = summarise(samples, samples)
    spider = results.benchmarks["spider"]
    assert (spider.metrics["ex"].value, spider.metrics["ex"].n, spider.primary) == (0.5, 4, "ex")
    assert spider.statuses == {"ok": 2, "error": 1, "timeout": 1}
    assert {k: v["ex"].n for k, v in spider.subsets.items()} == {"level=easy": 2, "level=hard": 2}
    assert (results.cost.usage.calls, results.cost.wall_seconds) == (8, 6.0)
    assert results.complete
    assert results.questions.words() == ""


ENDINGS = st.sampled_from(["right", "wrong", "failed reading", "unusable gold", "unfinished"])


@given(st.lists(ENDINGS, max_size=30))
def test_n_is_what_was_asked_less_unusable_gold_and_what_is_unfinished(endings: list[str]) -> None:
    made: dict[str, Callable[[int], Trajectory]] = {
        "right": lambda n: sample(n, "ab"[n % 2], 1.0), "wrong": lambda n: sample(n, "ab"[n % 2], 0.0),
        "failed reading": lambda n: without(n, "failed reading"),
        "unusable gold": lambda n: without(n, "unusable gold", "no such column"),
        "unfinished": lambda n: without(n, "answered")}
    asked = [made[e](n) for n, e in enumerate(endings)]
    samples = [t for t, e in zip(asked, endings, strict=True) if e != "unfinished"]
    down = {t.id: "server down" for t, e in zip(asked, endings, strict=True) if e == "unfinished"}
    results = summarise(samples, asked, down)
    q, n = results.questions, {e: endings.count(e) for e in set(endings) | set(made)}
    assert q.asked == len(endings) == q.answered + n["failed reading"] + n["unusable gold"] + q.unfinished
    assert q.n == n["right"] + n["wrong"] + n["failed reading"]
    assert q.failed_reading == ({"no file": n["failed reading"]} if n["failed reading"] else {})
    assert q.unusable == ({"no such column": n["unusable gold"]} if n["unusable gold"] else {})
    assert results.complete == (n["unfinished"] == 0)
    if q.n:
        ex = results.benchmarks["spider"].metrics["ex"]
        assert (ex.n, ex.value) == (q.n, pytest.approx(n["right"] / q.n))
    assert Results.model_validate_json(results.model_dump_json()) == results


def test_a_benchmark_without_a_sample_is_still_in_the_results() -> None:
    results = summarise([], [without(1, "answered")], {"q1": "server down"})
    assert results.benchmarks["spider"].questions.unfinished == 1
    assert results.benchmarks["spider"].metrics == {}
    assert summarise([], []).benchmarks == {}


def test_a_tag_with_many_values_is_no_level() -> None:
    samples = [sample(i, "ab"[i % 2], 1.0, chain=str(i), level="x") for i in range(20)]
    assert list(summarise(samples, samples).benchmarks["spider"].subsets) == ["level=x"]


def test_the_same_questions_in_any_order_are_one_set() -> None:
    samples = [sample(i, "a", 1.0) for i in range(5)]
    assert summarise(samples, samples).question_set == summarise(samples[::-1], samples[::-1]).question_set
    assert summarise(samples, samples).question_set != summarise(samples[1:], samples[1:]).question_set


@pytest.mark.parametrize("text", ['{"benchmarks": {}, "status": {}}', "{", '{"version": 1}'])
def test_results_of_another_layout_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(UserError, match=r"another layout .* evaluate again"):
        read_results(tmp_path / "results.json")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), min_size=2, max_size=12), st.randoms(use_true_random=False))
def test_the_order_in_which_questions_ended_changes_no_digit(values: list[tuple[str, float]], rng: random.Random) -> None:
    samples = [sample(n, group, value) for n, (group, value) in enumerate(values)]
    shuffled = rng.sample(samples, len(samples))
    assert summarise(shuffled, samples).benchmarks["spider"].metrics == summarise(samples, samples).benchmarks["spider"].metrics
