"""Databases: cells as SQLite returns them, honest types, foreign keys, and nothing written."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pandora_train.box.box import BoxSet, ForeignKey
from pandora_train.box.database import column, database_boxes, quoted
from pandora_train.errors import MachineryError, ReadingError
from pandora_train.records import DatabaseKnowledge


def build(path: Path, script: str, rows: dict[str, Sequence[Sequence[Any]]] | None = None) -> BoxSet:
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as con:
        con.executescript(script)
        for table, values in (rows or {}).items():
            con.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(values[0]))})", values)
    con.close()
    return database_boxes(DatabaseKnowledge(path=str(path), db_id="d"))


@pytest.mark.parametrize(
    ("values", "declared", "dtype"),
    [
        ([1, 2], "INTEGER", "int64"), ([1, None], "INTEGER", "Int64"), ([1.5, None], "REAL", "float64"),
        ([1, 2.5], "NUMERIC", "float64"), (["1", "2"], "TEXT", "str"), (["a", None], "TEXT", "str"),
        ([None, None], "INT", "Int64"), ([None], "REAL", "float64"), ([None], "VARCHAR(3)", "str"),
        ([], "INTEGER", "int64"), ([], "", "str"), ([2**53 + 1, 0.5], "NUMERIC", "object"), ([1, ""], "INT", "object"),
    ],
)
def test_a_column_is_typed_by_what_it_holds(values: list[Any], declared: str, dtype: str) -> None:
    assert column(values, declared)[0].dtype == dtype


@settings(max_examples=60)
@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text())))
def test_every_cell_comes_back_as_sqlite_returns_it(values: list[Any]) -> None:
    con = sqlite3.connect(":memory:")
    con.execute("CREATE TABLE t (x)")
    con.executemany("INSERT INTO t VALUES (?)", [(v,) for v in values if "\0" not in str(v)])
    stored = [v for (v,) in con.execute("SELECT x FROM t ORDER BY rowid")]
    back = column(stored, "")[0].tolist()
    assert [None if b is None or b is pd.NA or b != b else b for b in back] == stored


def test_text_that_looks_like_numbers_stays_text(tmp_path: Path) -> None:
    box = build(tmp_path / "d.sqlite", "CREATE TABLE t (zip TEXT)", {"t": [("007",), ("10",)]}).boxes[0]
    assert box.frame["zip"].tolist() == ["007", "10"]


def test_mixed_columns_are_kept_as_they_are_and_told(tmp_path: Path) -> None:
    found = build(tmp_path / "d.sqlite", "CREATE TABLE t (age INTEGER)", {"t": [(3,), ("",), (None,), ("n/a",)]})
    assert found.boxes[0].frame["age"].tolist() == [3, "", None, "n/a"]
    assert found.notes == ("t.age: mixes numbers with 2 text cells, kept as they are",)


def test_blobs_and_broken_text_are_decoded_and_told(tmp_path: Path) -> None:
    found = build(tmp_path / "d.sqlite", "CREATE TABLE t (b BLOB)", {"t": [(b"ok",), (b"\xff!",)]})
    assert found.boxes[0].frame["b"].tolist() == ["ok", "\ufffd!"]
    assert "blobs were decoded" in found.notes[0]
    found = build(tmp_path / "e.sqlite", "CREATE TABLE t (x TEXT); INSERT INTO t VALUES (CAST(x'66FC' AS TEXT))")
    assert found.boxes[0].frame["x"].tolist() == ["f\ufffd"]
    assert found.notes == ("t: text that is not UTF-8 was decoded with replacement characters",)


def test_hostile_and_reserved_names(tmp_path: Path) -> None:
    script = (
        'CREATE TABLE "order by; --" ("select" INT, "a ""b""" TEXT, "two\nlines" INT); CREATE TABLE "class" (x INT);'
        ' CREATE TABLE "2 fast" (x INT); CREATE TABLE pd (x INT); CREATE TABLE "Class_" (x INT)'
    )
    found = build(tmp_path / "d.sqlite", script)
    assert [b.name for b in found] == ["order_by", "class_", "t_2_fast", "pd_", "Class"]
    assert list(found["order_by"].frame.columns) == ["select", 'a "b"', "two lines"]
    assert found["order_by"].original == "order by; --"
    assert found["order_by"].original_fields == {"two lines": "two\nlines"}
    assert all(name.isidentifier() for name in found.frames())


def test_foreign_keys_that_sqlite_declares(tmp_path: Path) -> None:
    script = """CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (a_id REFERENCES A(ID), other INT REFERENCES a);
    CREATE TABLE c (x INT REFERENCES gone(id))"""
    keys = build(tmp_path / "d.sqlite", script).foreign_keys
    assert set(keys) == {ForeignKey("b", "a_id", "a", "id"), ForeignKey("b", "other", "a", "id")}


def test_foreign_keys_that_come_with_it(tmp_path: Path) -> None:
    build(tmp_path / "d.sqlite", "CREATE TABLE Shop (Shop_ID INT); CREATE TABLE sale (shop_id INT REFERENCES Shop)")
    keys = (("sale", "SHOP_ID", "shop", "shop_id"),) * 2 + (("sale", "gone", "shop", "shop_id"),)
    knowledge = DatabaseKnowledge(path=str(tmp_path / "d.sqlite"), db_id="d", foreign_keys=keys)
    assert database_boxes(knowledge).foreign_keys == (ForeignKey("sale", "shop_id", "Shop", "Shop_ID"),)
    assert not database_boxes(knowledge.model_copy(update={"foreign_keys": ()})).foreign_keys


def test_views_are_left_out_and_told(tmp_path: Path) -> None:
    found = build(tmp_path / "d.sqlite", "CREATE TABLE t (x INT); CREATE VIEW v AS SELECT x FROM t")
    assert [b.name for b in found] == ["t"]
    assert found.notes == ("views are left out: v",)


def test_reading_writes_nothing_and_works_in_a_read_only_folder(tmp_path: Path) -> None:
    folder = tmp_path / "ro"
    folder.mkdir()
    path = folder / "d.sqlite"
    with sqlite3.connect(path) as con:
        con.execute("PRAGMA journal_mode=WAL")
        con.execute("CREATE TABLE t (x INT)")
    con.close()
    before = path.read_bytes()
    for side in folder.glob("d.sqlite-*"):
        side.unlink()
    folder.chmod(0o555)
    try:
        assert [b.name for b in database_boxes(DatabaseKnowledge(path=str(path), db_id="d"))] == ["t"]
    finally:
        folder.chmod(0o755)
    assert path.read_bytes() == before


def test_missing_and_foreign_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(ReadingError, match="no database file"):
        database_boxes(DatabaseKnowledge(path=str(tmp_path / "gone.sqlite"), db_id="d"))
    (tmp_path / "x.sqlite").write_text("this is not a database, but long enough to be looked at by SQLite" * 20)
    with pytest.raises(ReadingError, match=r"x\.sqlite cannot be read as a SQLite database: file is not a database"):
        database_boxes(DatabaseKnowledge(path=str(tmp_path / "x.sqlite"), db_id="d"))


@given(st.text())
def test_quoting_holds_any_name(name: str) -> None:
    if "\0" in name or not name:
        return
    con = sqlite3.connect(":memory:")
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    con.execute(f"CREATE TABLE t ({quoted(name)} INT)")
    assert con.execute("PRAGMA table_info(t)").fetchone()[1] == name


def test_new_names_and_keys_that_lead_nowhere_are_told(tmp_path: Path) -> None:
    found = build(tmp_path / "d.sqlite", 'CREATE TABLE "a b" (x INT, "" INT); CREATE TABLE list (y INT REFERENCES a_b);')
    assert [box.name for box in found] == ["a_b", "list_"]
    assert found.notes == (
        "a b: repeated or empty column names were renamed: column_2", "table 'a b' is called a_b",
        "table 'list' is called list_", "1 foreign keys that name no column of these tables were left out")


def test_a_database_that_another_program_holds_is_no_fault_of_its_data(tmp_path: Path,
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.sqlite"
    build(path, "CREATE TABLE t (x INT)", {"t": [(1,)]})
    monkeypatch.setattr("pandora_train.box.database.PATIENCE", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        other.execute("INSERT INTO t VALUES (2)")
        with pytest.raises(MachineryError, match="locked by another program"):
            database_boxes(DatabaseKnowledge(path=str(path), db_id="d"))
