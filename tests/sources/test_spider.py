"""Spider in its official layout, whole and broken; its hardness classes."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pandora_train.errors import UserError
from pandora_train.records import DatabaseKnowledge
from pandora_train.sources import DataConfig, load, read
from pandora_train.sources.hardness import hardness

SCHEMA = {
    "db_id": "zoo",
    "table_names_original": ["animal"],
    "column_names_original": [[-1, "*"], [0, "name"], [0, "age"]],
    "foreign_keys": [],
}


def layout(root: Path, questions: list[dict[str, Any]], split_file: str = "dev.json") -> DataConfig:
    (root / "database" / "zoo").mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(root / "database" / "zoo" / "zoo.sqlite") as con:
        con.execute("CREATE TABLE IF NOT EXISTS animal (name TEXT, age INTEGER)")
    (root / "tables.json").write_text(json.dumps([SCHEMA]))
    (root / split_file).write_text(json.dumps(questions))
    return DataConfig(benchmark="spider", path=str(root), split="dev" if split_file == "dev.json" else "train")


def question(text: str = "How many?", db_id: str = "zoo", query: str = "SELECT count(*) FROM animal") -> dict[str, Any]:
    return {"question": text, "query": query, "db_id": db_id}


def test_a_question_becomes_an_example(tmp_path: Path) -> None:
    [example] = load(layout(tmp_path, [question(" How many? ")]))
    assert example.id.startswith("spider:dev:zoo:")
    assert len(example.id.rsplit(":", 1)[1]) == 8
    assert example.question == "How many?"
    assert (example.gold.language, example.gold.program) == ("sql", "SELECT count(*) FROM animal")
    assert example.gold.answers is None
    assert (example.group, example.tags) == ("zoo", {"hardness": "easy"})
    assert isinstance(example.knowledge, DatabaseKnowledge)
    assert Path(example.knowledge.path).is_file()


def test_ids_come_from_the_content_and_repeats_are_numbered(tmp_path: Path) -> None:
    ids = [e.id for e in load(layout(tmp_path, [question(), question("Who?"), question(), question()]))]
    assert ids[2:] == [f"{ids[0]}-2", f"{ids[0]}-3"]
    assert ids[:2] == [e.id for e in load(layout(tmp_path, [question(), question("Who?")]))]
    assert len(set(ids)) == 4


def test_train_others_is_part_of_train(tmp_path: Path) -> None:
    config = layout(tmp_path, [question()], "train_spider.json")
    (tmp_path / "train_others.json").write_text(json.dumps([question("Who?")]))
    assert [e.question for e in load(config)] == ["How many?", "Who?"]


def test_the_test_split_has_its_own_tables_and_databases(tmp_path: Path) -> None:
    layout(tmp_path, [])
    (tmp_path / "database").rename(tmp_path / "test_database")
    (tmp_path / "tables.json").unlink()
    schema = {**SCHEMA, "foreign_keys": [[1, 2]]}
    (tmp_path / "test_tables.json").write_text(json.dumps([schema]))
    (tmp_path / "test.json").write_text(json.dumps([question()]))
    [example] = load(DataConfig(benchmark="spider", path=str(tmp_path), split="test"))
    assert "test_database" in str(example.knowledge)
    assert isinstance(example.knowledge, DatabaseKnowledge)
    assert example.knowledge.foreign_keys == (("animal", "name", "animal", "age"),)


def test_questions_without_a_database_are_listed_not_dropped(tmp_path: Path) -> None:
    schemas = [SCHEMA, {**SCHEMA, "db_id": "farm"}]
    config = layout(tmp_path, [question(), question(db_id="farm"), question(db_id="moon")])
    (tmp_path / "tables.json").write_text(json.dumps(schemas))
    loaded = read(config)
    assert len(loaded.examples) == 1
    assert sorted(loaded.unusable.values()) == [
        "database 'moon' is not in tables.json",
        "no database file database/farm/farm.sqlite",
    ]


def test_nothing_usable_is_an_error_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no question of spider dev .* 1 questions: database 'moon'"):
        load(layout(tmp_path, [question(db_id="moon")]))


@pytest.mark.parametrize("db_id", ["../elsewhere", "/tmp"])
def test_a_database_name_cannot_leave_the_folder(tmp_path: Path, db_id: str) -> None:
    with pytest.raises(UserError, match="leaves the folder"):
        load(layout(tmp_path, [question(db_id=db_id)]))


def test_broken_files_name_the_entry(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"dev\.json, entry 2: no query"):
        load(layout(tmp_path, [question(), {"question": "?", "db_id": "zoo"}]))
    with pytest.raises(UserError, match=r"dev\.json, entry 1: question, query, db_id must be text"):
        load(layout(tmp_path, [{**question(), "query": None}]))
    config = layout(tmp_path, [question()])
    (tmp_path / "tables.json").write_text("[{}]")
    with pytest.raises(UserError, match=r"tables\.json, entry 1: no db_id"):
        load(config)
    (tmp_path / "tables.json").unlink()
    with pytest.raises(UserError, match=r"has no tables\.json"):
        load(config)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM a", "easy"),
        ("SELECT x FROM a WHERE y = 1", "easy"),
        ("SELECT x, y FROM a ORDER BY y", "medium"),
        ("SELECT x FROM a WHERE y = 1 ORDER BY z", "medium"),
        ("SELECT x FROM a WHERE y = 1 AND z = 2", "medium"),
        ("SELECT T1.x FROM a AS T1 JOIN b AS T2 ON T1.i = T2.i WHERE T2.y = 1", "medium"),
        ("SELECT g, count(*) FROM a GROUP BY g", "medium"),
        ("SELECT T1.x, T1.z FROM a AS T1 JOIN b AS T2 ON T1.i = T2.i WHERE T2.y = 1 ORDER BY T1.z", "hard"),
        ("SELECT x FROM a WHERE y > (SELECT avg(y) FROM a)", "hard"),
        ("SELECT x FROM a WHERE y = 1 INTERSECT SELECT x FROM a WHERE y = 2", "hard"),
        ("SELECT x, z FROM a WHERE i NOT IN (SELECT i FROM b)", "extra"),
        ("SELECT x FROM a WHERE y = 1 OR z LIKE '%q%' ORDER BY w LIMIT 1", "extra"),
        ("SELECT FROM WHERE", "unknown"),
    ],
)
def test_hardness_counts_as_the_official_script(sql: str, expected: str) -> None:
    assert hardness(sql) == expected
