"""Changed data keeps what a label may rely on: types, NULLs, keys; and changes the rest."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from sqlite_boxes import boxes_of, write

from pandora_train.teach.perturb import Changed, changed, stored

SEEDS = range(6)


@pytest.fixture(scope="module")
def school(tmp_path_factory: pytest.TempPathFactory) -> Path:
    students = ", ".join(f"({i}, 's{i}', {'NULL' if i % 5 == 0 else 15 + i % 4}, '{'MF'[i % 2]}')"
                         for i in range(1, 31))
    takes = ", ".join(f"({1 + i % 30}, {1 + (i * 7) % 11}, {i % 5})" for i in range(60))
    return write(tmp_path_factory.mktemp("perturb") / "school.sqlite",
                 "CREATE TABLE student (id INTEGER PRIMARY KEY, name TEXT, age INTEGER, sex TEXT)",
                 f"INSERT INTO student VALUES {students}",
                 "CREATE TABLE takes (student_id INTEGER REFERENCES student(id), course INTEGER, grade INTEGER,"
                 " PRIMARY KEY (student_id, course))",
                 f"INSERT OR IGNORE INTO takes VALUES {takes}")


def rows(data: Changed, table: str) -> list[tuple[object, ...]]:
    con = sqlite3.connect(data.path)
    found = con.execute(f"SELECT * FROM {table}").fetchall()
    con.close()
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_types_and_nulls_stay_valid(school: Path, tmp_path: Path, seed: int) -> None:
    data = changed(str(school), boxes_of(school), ["student", "takes"], [], seed, tmp_path)
    students, takes = rows(data, "student"), rows(data, "takes")
    ids = [s[0] for s in students]
    assert len(set(ids)) == len(ids) > 0
    assert {t[0] for t in takes} <= set(ids)
    assert len({t[:2] for t in takes}) == len(takes)
    assert any(s[2] is None for s in students)
    assert all(s[1] is not None and s[3] in "MF" for s in students)
    assert str(data.boxes["student"].frame["age"].dtype) == "Int64"
    assert str(data.boxes["takes"].frame["grade"].dtype) == "int64"


def test_rows_change_and_equal_seeds_agree(school: Path, tmp_path: Path) -> None:
    def student(seed: int, folder: str) -> list[tuple[object, ...]]:
        (tmp_path / folder).mkdir()
        return rows(changed(str(school), boxes_of(school), ["student"], [], seed, tmp_path / folder), "student")

    first = student(1, "a")
    assert first == student(1, "b")
    assert first != student(2, "c")
    con = sqlite3.connect(school)
    assert set(first) != set(con.execute("SELECT * FROM student"))
    con.close()


def test_values_that_the_label_names_are_still_found(school: Path, tmp_path: Path) -> None:
    for seed in SEEDS:
        data = changed(str(school), boxes_of(school), ["student"], ["s7", "M"], seed, tmp_path)
        assert any("s7" in str(s[1]) for s in rows(data, "student"))


def test_the_boxes_hold_what_the_file_holds(school: Path, tmp_path: Path) -> None:
    data = changed(str(school), boxes_of(school), ["takes"], [], 0, tmp_path)
    assert [tuple(r) for r in data.boxes["takes"].frame.values.tolist()] == rows(data, "takes")
    assert [b.name for b in data.boxes] == ["takes"]


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    file = write(tmp_path / "t.sqlite", "CREATE TABLE t (x INTEGER)", "INSERT INTO t VALUES (1)")
    assert stored(str(file))["t"].rows == [(1,)]
    write(file, "INSERT INTO t VALUES (2)")
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    assert stored(str(file))["t"].rows == [(1,), (2,)]
