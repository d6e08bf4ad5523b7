"""What becomes of a question, whatever happens to it: the endings, and what ends a run."""

import sqlite3
import threading

import pytest

from pandora_train import answer as module
from pandora_train.answer import STREAK, Answerer, Notices, answer_all
from pandora_train.box import BoxSet
from pandora_train.errors import MachineryError, ReadingError, UserError
from pandora_train.prompt import PromptConfig
from pandora_train.records import (
    CodeError,
    DatabaseKnowledge,
    Example,
    Execution,
    Gold,
    Step,
    TableKnowledge,
)
from pandora_train.systems.protocol import Solution

ONE = Execution(outcome="result", rows=(("1",),), shape="rows")


class Says:
    """A system that gives one execution, or raises."""

    def __init__(self, outcome):
        self.outcome, self.tasks = outcome, []

    def solve(self, task):
        self.tasks.append(task)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return Solution((Step(reply="r", code="c", execution=self.outcome),))


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("a,b\n1,2\n")
    return example(TableKnowledge(path=str(file)))


ANSWER = Gold(answers=("1",))


def example(knowledge, gold=ANSWER, id="x", benchmark="files"):
    return Example(id=id, benchmark=benchmark, split="dev", question="q?", group="g", knowledge=knowledge, gold=gold)


def answered(example, outcome=ONE, ground=lambda e: e, **options):
    system = Says(outcome)
    return Answerer(system, None, PromptConfig(), ground)(example, **options), system


def test_an_answer_is_scored_whatever_it_is_worth(table):
    right, _ = answered(table)
    assert (right.trajectory.ending, right.trajectory.status, right.trajectory.scores) == ("answered", "ok", {"da": 1.0})
    assert right.right
    wrong, _ = answered(table, Execution(outcome="error", error=CodeError(type="KeyError", message="a")))
    assert (wrong.trajectory.ending, wrong.trajectory.status, wrong.trajectory.scores) == ("answered", "error", {"da": 0.0})


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0 no more", b"\xff\xfe\0"])
def test_data_that_cannot_be_read_is_scored_zero_before_a_call_is_paid_for(tmp_path, content):
    (tmp_path / "d.sqlite").write_bytes(content)
    gold = Gold(language="sql", program="SELECT 1")
    asked = example(DatabaseKnowledge(path=str(tmp_path / "d.sqlite"), db_id="d"), gold, benchmark="spider")
    result, system = answered(asked)
    assert result.trajectory.ending == "failed reading"
    assert result.trajectory.status is None
    assert result.trajectory.reason
    assert result.trajectory.scores == {"ex": 0.0, "ex_strict": 0.0}
    assert not system.tasks


def test_a_builder_that_stumbles_and_an_empty_box_set_are_failed_readings(table, monkeypatch):
    def stumble(knowledge):
        raise IndexError("list index out of range")

    monkeypatch.setattr(module, "boxes_for", stumble)
    result, system = answered(table)
    assert result.trajectory.ending == "failed reading"
    assert "IndexError" in result.trajectory.reason
    assert "test_answer.py" in result.trajectory.reason
    monkeypatch.setattr(module, "boxes_for", lambda knowledge: BoxSet((), notes=("topic is not in the graph",)))
    result, system = answered(table)
    assert result.trajectory.reason == "its BOXes hold no field; topic is not in the graph"
    assert not system.tasks


def test_gold_without_an_answer_is_outside_n(table, tmp_path):
    result, system = answered(table.model_copy(update={"gold": Gold()}))
    assert (result.trajectory.ending, result.trajectory.scores) == ("unusable gold", {})
    assert not system.tasks
    with sqlite3.connect(tmp_path / "d.sqlite") as database:
        database.execute("CREATE TABLE t (a)")
    gold = Gold(language="sql", program="SELECT nothing FROM nowhere")
    asked = example(DatabaseKnowledge(path=str(tmp_path / "d.sqlite"), db_id="d"), gold, benchmark="spider")
    assert answered(asked)[0].trajectory.ending == "unusable gold"


def test_without_scoring_no_gold_is_asked_for(table):
    result, _ = answered(table.model_copy(update={"gold": Gold()}), scored=False)
    assert (result.trajectory.ending, result.trajectory.rows, result.trajectory.scores) == ("answered", (("1",),), {})


@pytest.mark.parametrize("error", [MachineryError("server gone"), UserError("no key")])
def test_what_is_not_the_question_is_raised(table, error):
    with pytest.raises(type(error)):
        answered(table, error)
    with pytest.raises(type(error)):
        answered(table, ground=lambda e: (_ for _ in ()).throw(error))


def test_a_reading_error_of_grounding_is_the_questions_own(table):
    result, _ = answered(table, ground=lambda e: (_ for _ in ()).throw(ReadingError("no such topic")))
    assert (result.trajectory.ending, result.trajectory.reason) == ("failed reading", "no such topic")


def test_a_metric_that_fails_is_never_the_answers_fault(table, monkeypatch):
    monkeypatch.setattr(module, "score", lambda *a: 1 / 0)
    with pytest.raises(MachineryError, match=r"scoring failed.*ZeroDivisionError"):
        answered(table)


def many(count):
    return [example(TableKnowledge(path="-"), id=str(n)) for n in range(count)]


def test_one_question_never_ends_a_run():
    done, lock = [], threading.Lock()

    def one(example):
        if example.id == "3":
            raise MachineryError("no child\nsecond line")
        if example.id == "5":
            raise KeyError("a fault of ours")
        with lock:
            done.append(example.id)

    unfinished = answer_all(many(20), 4, "t", one)
    assert sorted(unfinished) == ["3", "5"]
    assert unfinished["3"] == "no child"
    assert "KeyError" in unfinished["5"]
    assert len(done) == 18


def test_what_concerns_all_questions_ends_it():
    def one(example):
        raise UserError("bad key")

    with pytest.raises(UserError, match="bad key"):
        answer_all(many(20), 4, "t", one)


def test_a_dead_server_is_not_asked_to_the_end():
    asked = []

    def one(example):
        asked.append(example.id)
        raise MachineryError("gone")

    unfinished = answer_all(many(500), 4, "t", one)
    assert len(unfinished) == 500
    assert STREAK <= len(asked) <= STREAK + 4


def test_what_is_to_be_said_is_said_once(table, tmp_path, capsys):
    notices = Notices()
    missing = table.model_copy(update={"id": "y", "knowledge": TableKnowledge(path=str(tmp_path / "none.csv"))})
    for asked in (table, missing, missing.model_copy(update={"id": "z"})):
        notices(answered(asked)[0].trajectory)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("y: failed reading: ")
    assert "none.csv" in lines[0]
