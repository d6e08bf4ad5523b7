"""Test-suite accuracy: code that is right on one database by luck is found out on another."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from pandora_train.answer import Answerer
from pandora_train.box import BoxSet
from pandora_train.prompt import PromptConfig
from pandora_train.records import DatabaseKnowledge, Example, Execution, Gold, Step
from pandora_train.systems.protocol import Solution, Task

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


class Says:
    """A system whose answer is one piece of code."""

    def __init__(self, code: str) -> None:
        self.code = code

    def solve(self, task: Task) -> Solution:
        return Solution((Step(reply="", code=self.code, execution=Here().run(task.boxes, self.code)),))


def scores(example: Example, code: str) -> dict[str, float]:
    return Answerer(Says(code), Here(), PromptConfig(), lambda e: e)(example).trajectory.scores


def test_one_database_is_no_suite(example: Example) -> None:
    assert scores(example, HONEST) == {"ex": 1.0, "ex_strict": 1.0}


@pytest.mark.parametrize(("code", "ts"), [(HONEST, 1.0), (LUCKY, 0.0), ("result = [[pet['nme'][0]]]", 0.0)])
def test_the_code_must_hold_on_every_database(example: Example, tmp_path: Path, code: str, ts: float) -> None:
    database(tmp_path / "other.sqlite", ["tom", "ann"])
    assert scores(example, code)["ts"] == ts
