"""Agreement with labels: counts, kappa, and labels that belong to another answer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pandora_train.evaluate.agreement import (
    TASKS,
    HandLabel,
    agreement,
    answer_id,
    kappa,
    pick_failures,
    table,
)
from pandora_train.evaluate.error_kinds import KINDS, Diagnosis
from pandora_train.records import Execution, Step, Trajectory
from pandora_train.runs import read_jsonl

LABELS = Path(__file__).with_name("error_labels.jsonl")
kinds = st.sampled_from(list(KINDS))


def sample(id: str, benchmark: str = "spider", score: float = 0.0) -> Trajectory:
    metric = {"spider": "ex", "wikitq": "da"}.get(benchmark, "f1")
    return Trajectory(id=id, benchmark=benchmark, split="dev", group="g", question="?",  # type: ignore[arg-type]
                      status="ok", rows=((id,),), scores={metric: score},
                      steps=(Step(reply="", code=id, execution=Execution(outcome="result", rows=((id,),))),))


def test_kappa_of_a_known_table() -> None:
    pairs = Counter({("box", "box"): 20, ("box", "field"): 5, ("field", "box"): 10, ("field", "field"): 15})
    assert kappa(pairs) == pytest.approx(0.4)  # type: ignore[arg-type]


@given(st.lists(st.tuples(kinds, kinds), min_size=1))
def test_kappa_is_at_most_one_and_one_only_in_agreement(pairs: list[tuple[str, str]]) -> None:
    value = kappa(Counter(pairs))  # type: ignore[arg-type]
    assert -1 <= value <= 1
    assert (value > 1 - 1e-12) == all(a == b for a, b in pairs)


def test_failures_are_picked_by_task_once_an_answer_and_stably() -> None:
    samples = [sample(f"{b}{n}", b, float(n % 5 == 0)) for b in ("spider", "wikitq", "webqsp") for n in range(40)]
    picked = pick_failures({"a": samples, "b": samples[::-1]}, 20)
    assert Counter(TASKS[t.benchmark] for _, t in picked) == {"database": 20, "table": 20, "graph": 20}
    assert len({t.id for _, t in picked}) == 60
    assert picked == pick_failures({"b": samples[::-1], "a": samples}, 20)
    assert all(t.scores != {"ex": 1.0} for _, t in picked)


def test_labels_meet_only_the_answer_they_were_given_for() -> None:
    t, other = sample("q1"), sample("q2")
    labels = [HandLabel(run="a", id=t.id, benchmark="spider", answer=answer_id(t), kind="box"),
              HandLabel(run="a", id=other.id, benchmark="spider", answer="else", kind="box")]
    rules = {("a", i): Diagnosis(id=i, kind="box", rule="r") for i in ("q1", "q2")}
    found, stale = agreement(labels, rules, {("a", x.id): answer_id(x) for x in (t, other)})
    assert (found.row(), stale) == ((1, 1, 1, 1.0), 1)
    assert "| database | 1 | 1 | 1 | 100% | 100% | 1.00 |" in table(found)


def test_undecided_samples_are_counted_apart() -> None:
    t = sample("q1")
    label = HandLabel(run="a", id="q1", benchmark="spider", answer=answer_id(t), kind="logic")
    rules = {("a", "q1"): Diagnosis(id="q1", kind="unknown", rule="r")}
    found, _ = agreement([label], rules, {("a", "q1"): answer_id(t)})
    assert found.row("database")[:3] == (1, 0, 0)


@pytest.mark.skipif(not LABELS.exists(), reason="no failures of a real run are labelled yet")
def test_labels_are_well_formed_and_given_once() -> None:
    labels = list(read_jsonl(LABELS, HandLabel))
    assert len({(label.run, label.id) for label in labels}) == len(labels)
