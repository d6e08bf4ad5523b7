"""Test-suite accuracy: code that is right on one database by luck is found out on another."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from pandora_train.box.box import BoxSet
from pandora_train.evaluate.suite import suite_score
from pandora_train.records import DatabaseKnowledge, Example, Execution, Gold, Step, Trajectory

HONEST = "result = pet[['name']].values.tolist()"
LUCKY = "result = [['rex']]"


class Here:
    """Runs code in this process: the tests' own, trusted code."""

    def run(self, boxes: BoxSet, code: str, wall: float | None = None) -> Execution:
        names: dict[str, object] = dict(boxes.frames())
        try:
            exec(code, names)
        except KeyError:
            return Execution(outcome="error")
        rows = names["result"]
        assert isinstance(rows, list)
        return Execution(outcome="result", rows=tuple(tuple(row) for row in rows))

    def close(self) -> None:
        """Nothing to end."""


def database(path: Path, names: list[str]) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE pet (name TEXT)")
        connection.executemany("INSERT INTO pet VALUES (?)", [(n,) for n in names])
    connection.close()


@pytest.fixture
def example(tmp_path: Path) -> Example:
    database(tmp_path / "pets.sqlite", ["rex"])
    knowledge = DatabaseKnowledge(path=str(tmp_path / "pets.sqlite"), db_id="pets")
    return Example(id="q", benchmark="spider", split="dev", question="?", knowledge=knowledge, group="pets",
                   gold=Gold(language="sql", program="SELECT name FROM pet"))


def answered(code: str) -> Trajectory:
    return Trajectory(id="q", benchmark="spider", split="dev", group="pets", question="?", status="ok",
                      steps=(Step(reply="", code=code),), rows=(("rex",),))


def test_one_database_is_no_suite(example: Example) -> None:
    assert suite_score(example, answered(HONEST), Here()) == {}


@pytest.mark.parametrize(("code", "ts"), [(HONEST, 1.0), (LUCKY, 0.0), ("result = [[pet['nme'][0]]]", 0.0)])
def test_the_code_must_hold_on_every_database(example: Example, tmp_path: Path, code: str, ts: float) -> None:
    database(tmp_path / "other.sqlite", ["tom", "ann"])
    assert suite_score(example, answered(code), Here()) == {"ts": ts}


def test_no_answer_is_a_zero(example: Example, tmp_path: Path) -> None:
    database(tmp_path / "other.sqlite", ["tom"])
    assert suite_score(example, answered(HONEST).model_copy(update={"rows": None}), Here()) == {"ts": 0.0}
