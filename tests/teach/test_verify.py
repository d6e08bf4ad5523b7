"""Right for the right reason: what changed data finds, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlite_boxes import boxes_of, write

from pandora_train.compile.sql.query import compile_sql
from pandora_train.metrics import gold_rows
from pandora_train.records import DatabaseKnowledge, Example, Gold
from pandora_train.sandbox import Sandbox
from pandora_train.teach.verify import Verification, mentions, verify

COUNTRIES = ["Fiji", "Peru", "Fiji", "Chad", "Peru", "Fiji", "Oman", "Mali"]


@pytest.fixture(scope="module")
def runner() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def music(tmp_path_factory: pytest.TempPathFactory) -> Path:
    singers = ", ".join(f"({i}, 'singer {i}', '{c}', {20 + 7 * i})" for i, c in enumerate(COUNTRIES, 1))
    concerts = ", ".join(f"({i}, {1 + i * i % 8}, {2010 + i % 3})" for i in range(1, 15))
    return write(tmp_path_factory.mktemp("verify") / "music.sqlite",
                 "CREATE TABLE singer (id INTEGER PRIMARY KEY, name TEXT, country TEXT, age INTEGER)",
                 f"INSERT INTO singer VALUES {singers}",
                 "CREATE TABLE concert (id INTEGER PRIMARY KEY, singer_id INTEGER REFERENCES singer(id), year INTEGER)",
                 f"INSERT INTO concert VALUES {concerts}")


def judged(path: Path, sql: str, runner: Sandbox, code: str = "") -> Verification:
    boxes = boxes_of(path)
    example = Example(id=sql, benchmark="spider", split="train", question="?", group="music",
                      knowledge=DatabaseKnowledge(path=str(path), db_id="music"),
                      gold=Gold(language="sql", program=sql))
    code = code or compile_sql(sql, boxes).code
    return verify(example, boxes, code, runner.run(boxes, code), gold_rows(example), runner)


@pytest.mark.parametrize("sql", [
    "SELECT name FROM singer WHERE age > 40",
    "SELECT country, count(*) FROM singer GROUP BY country",
    "SELECT T1.name FROM singer AS T1 JOIN concert AS T2 ON T1.id = T2.singer_id WHERE T2.year = 2011",
])
def test_a_right_program_is_verified(music: Path, runner: Sandbox, sql: str) -> None:
    assert judged(music, sql, runner) == Verification("verified")


@pytest.mark.parametrize(("sql", "code"), [
    ("SELECT count(*) FROM singer WHERE country = 'Fiji'", "result = [[3]]"),
    ("SELECT max(age) FROM singer", "result = [[singer['age'].iloc[-1]]]"),
    ("SELECT name FROM singer WHERE id < 3", "result = singer[['name']].head(2).values.tolist()"),
])
def test_a_lucky_program_differs_on_changed_data(music: Path, runner: Sandbox, sql: str, code: str) -> None:
    assert judged(music, sql, runner, code).status == "differs_on_changed_data"


def test_a_wrong_and_a_failing_program(music: Path, runner: Sandbox) -> None:
    sql = "SELECT count(*) FROM singer"
    assert judged(music, sql, runner, "result = [[7]]") == Verification("wrong", "differs from gold")
    assert judged(music, sql, runner, "result = [[len(singers)]]") == Verification("failed", "NameError")


@pytest.mark.parametrize("sql", [
    "SELECT name FROM singer LIMIT 2",
    "SELECT name, country FROM singer GROUP BY country",
    "SELECT year FROM concert ORDER BY year LIMIT 1 OFFSET 3",
    "SELECT country FROM singer GROUP BY country ORDER BY count(*) LIMIT 1",
])
def test_labels_that_hang_on_row_order_are_told(music: Path, runner: Sandbox, sql: str) -> None:
    status = judged(music, sql, runner).status
    assert status == ("verified" if "OFFSET 3" in sql else "order_dependent")


def test_gold_without_values_is_never_training_data(music: Path, runner: Sandbox) -> None:
    assert judged(music, "SELECT name FROM singer WHERE age > 400", runner).status == "empty"
    assert judged(music, "SELECT max(age) FROM singer WHERE age > 400", runner).status == "empty"


def test_what_changed_data_cannot_tell_is_unchecked(music: Path, runner: Sandbox) -> None:
    verdict = judged(music, "SELECT 5 FROM singer WHERE id = 1", runner, "result = [[5]]")
    assert verdict == Verification("unchecked", "0 informative results on changed data")


def test_tables_and_constants_that_a_label_mentions(music: Path) -> None:
    sql = """SELECT name FROM Singer WHERE country LIKE '%ij%' AND age > 40 AND name != "x y" """
    assert mentions(sql, str(music)) == (["singer"], ["ij", "40", "x y"])
