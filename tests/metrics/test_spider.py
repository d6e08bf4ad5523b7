"""Spider's rules, each by its smallest example; ties and the test suite."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from pandora_train.metrics import gold_rows, is_right, score
from pandora_train.metrics.spider import as_text, databases, ex_match, is_ordered, parse_number, prepare_sql
from pandora_train.metrics.sqlrun import POOL, Cells
from pandora_train.metrics.ties import cuts_equals, is_unstable, tie_match
from pandora_train.records import DatabaseKnowledge, Example, Gold, Row


def example(db: Path, sql: str) -> Example:
    return Example(id="q", benchmark="spider", split="dev", question="?", group="shop",
                   knowledge=DatabaseKnowledge(path=str(db), db_id="shop"), gold=Gold(language="sql", program=sql))


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "shop.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript("""
            CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, kind TEXT, price INTEGER);
            INSERT INTO item VALUES (1, 'pen', 'office', 2), (2, 'ink', 'office', 3), (3, 'cup', 'kitchen', 3),
                                    (4, 'pan', 'kitchen', 9), (5, 'pot', 'kitchen', 9);
        """)
    connection.close()
    return path


@pytest.mark.parametrize(("gold", "rows", "right"), [
    ([(1,)], [("1",)], True),
    ([(1,)], [("1.0",)], True),
    ([(1,)], [("True",)], True),
    ([(1,)], [("1.0000000001",)], True),
    ([(1,)], [("1.00000001",)], False),
    ([(1,)], [(" 1",)], False),
    ([(1,)], [("1,000",)], False),
    ([(10**15,)], [(str(10**15 + 1),)], False),  # whole numbers are exact
    ([("1",)], [("1",)], True),
    ([("1",)], [("1.0",)], False),
    ([("a",)], [("A",)], False),
    ([(None,)], [(None,)], True),
    ([(None,)], [("",)], False),
    ([("",)], [(None,)], False),
    ([(None,)], [("None",)], False),
    ([(0.1 + 0.2,)], [("0.3",)], True),
    ([(b"ab",)], [("ab",)], True),
    ([], [], True),
    ([], [()], True),  # [[]] is empty
    ([(None,)], [], False),
    ([(1,)], [("1",), ("1",)], False),
    ([(1, 2)], [("2", "1")], True),
    ([(1, 2), (3, 4)], [("2", "1"), ("3", "4")], False),  # one column order for all rows
    ([(1, 2)], [("1",)], False),
    ([(1,)], [("1", "2")], False),
    ([("1",), (1,)], [("1",), ("1",)], True),  # text can't tell them apart
])
def test_cell_and_bag_rules(gold: Cells, rows: list[Row], right: bool) -> None:
    assert ex_match(gold, rows, ordered=False) is right


def test_typed_rows_keep_number_and_text_apart() -> None:
    assert ex_match([(1,)], [(1.0,)], ordered=False, typed=True)
    assert not ex_match([(1,)], [("1",)], ordered=False, typed=True)
    assert not ex_match([("1",)], [(1,)], ordered=False, typed=True)


def test_order_counts_only_with_order_by() -> None:
    gold: Cells = [(1,), (2,)]
    assert ex_match(gold, [("2",), ("1",)], ordered=False)
    assert not ex_match(gold, [("2",), ("1",)], ordered=True)
    assert is_ordered("SELECT a FROM t Order By a")
    assert not is_ordered("SELECT a FROM t")


def test_wide_results_compare_fast() -> None:
    gold: Cells = [tuple((i * j) % 7 for j in range(40)) for i in range(500)]
    rows = [tuple(str(c) for c in reversed(row)) for row in gold]
    same: Cells = [(1,) * 30 for _ in range(200)]
    start = time.process_time()
    assert ex_match(gold, rows[::-1], ordered=False)
    assert not ex_match(gold, [*rows[1:], rows[1]], ordered=False)
    assert ex_match(same, as_text(same), ordered=False)
    assert time.process_time() - start < 5


def test_numbers_are_plainly_written() -> None:
    assert [parse_number(t) for t in ("1", "-2.50", "1e3", ".5", "5.", "+3", "inf")] == [
        1, -2.5, 1000.0, 0.5, 5.0, 3, float("inf")]
    assert [parse_number(t) for t in ("", "1_0", "1 ", "1,0", "0x1", "nan", "one", "٣", "1" * 500)] == [None] * 9


def test_the_official_clean_up() -> None:
    assert prepare_sql("SELECT a FROM t WHERE a > = YEAR ( CURDATE ( ) ) AND b ! = 1") == (
        "SELECT a FROM t WHERE a >= 2020AND b != 1")


def test_a_perfect_answer_is_right_and_its_metrics_are_named(db: Path) -> None:
    question = example(db, "SELECT name, price FROM item WHERE price > 2")
    gold = gold_rows(question)
    assert gold is not None
    assert score(question, as_text(gold)) == {"ex": 1.0, "ex_strict": 1.0}
    assert score(question, as_text(gold)[1:], gold) == {"ex": 0.0, "ex_strict": 0.0}
    assert score(question, None) == {"ex": 0.0, "ex_strict": 0.0}


@pytest.mark.parametrize(("sql", "unstable"), [
    ("SELECT name FROM item ORDER BY price DESC LIMIT 1", True),  # pan and pot
    ("SELECT name FROM item ORDER BY price", True),  # ink and cup
    ("SELECT name FROM item LIMIT 2", True),
    ("SELECT name, max(price), count(*) FROM item", True),  # a bare column
    ("SELECT name FROM item WHERE price = (SELECT price FROM item WHERE kind = 'kitchen' LIMIT 1)", True),
    ("SELECT name FROM item ORDER BY price LIMIT 1", False),
    ("SELECT kind, count(*) FROM item GROUP BY kind", False),
    ("SELECT name FROM item ORDER BY name", False),
])
def test_labels_that_hang_on_the_row_order_are_found(db: Path, sql: str, unstable: bool) -> None:
    gold = POOL.run(db, sql).rows
    assert gold is not None
    assert is_unstable(str(db), sql, gold) is unstable


@pytest.mark.parametrize(("sql", "rows", "right"), [
    ("SELECT name FROM item ORDER BY price DESC LIMIT 1", [("pot",)], True),
    ("SELECT name FROM item ORDER BY price DESC LIMIT 1", [("ink",)], False),
    ("SELECT name FROM item ORDER BY price", [("pen",), ("cup",), ("ink",), ("pot",), ("pan",)], True),
    ("SELECT name FROM item ORDER BY price", [("cup",), ("pen",), ("ink",), ("pot",), ("pan",)], False),
    ("SELECT name, price FROM item ORDER BY price DESC LIMIT 2 OFFSET 1", [("9", "pan"), ("3", "cup")], True),
    ("SELECT name, price FROM item ORDER BY price DESC LIMIT 2 OFFSET 1", [("9", "pan"), ("9", "pot")], False),
    ("SELECT name FROM item LIMIT 2", [("pot",), ("ink",)], True),
    ("SELECT name FROM item LIMIT 2", [("pot",), ("pot",)], False),
    ("SELECT DISTINCT kind FROM item ORDER BY length(kind) > 0 LIMIT 1", [("kitchen",)], True),
    ("SELECT name, max(price) FROM item", [("pot", "9")], True),
    ("SELECT name, max(price) FROM item", [("pen", "9")], False),
])
def test_ties_may_fall_either_way(db: Path, sql: str, rows: list[Row], right: bool) -> None:
    gold = POOL.run(db, sql).rows
    assert gold is not None
    assert (ex_match(gold, rows, is_ordered(sql)) or tie_match(str(db), sql, gold, rows)) is right


def test_tied_groups_at_a_limit_are_found_though_shuffling_never_shows_them(db: Path) -> None:
    sql = "SELECT price FROM item WHERE price > 2 GROUP BY price ORDER BY count(*) DESC LIMIT 1"
    gold = POOL.run(db, sql).rows
    assert gold is not None
    assert not is_unstable(str(db), sql, gold)
    assert cuts_equals(str(db), sql)
    assert tie_match(str(db), sql, gold, [("3",)])
    assert tie_match(str(db), sql, gold, [("9",)])
    assert not tie_match(str(db), sql, gold, [("2",)])
    assert not cuts_equals(str(db), "SELECT kind FROM item GROUP BY kind ORDER BY count(*) DESC LIMIT 1")


def test_many_ties_are_exact_not_sampled(tmp_path: Path) -> None:
    path = tmp_path / "many.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (name TEXT, score INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?, 5)", [(f"n{i}",) for i in range(200)])
        connection.execute("INSERT INTO t VALUES ('low', 1)")
    connection.close()
    sql = "SELECT name FROM t ORDER BY score DESC LIMIT 1"
    question = example(path, sql)
    assert all(score(question, ((f"n{i}",),))["ex"] == 1.0 for i in range(200))
    assert score(question, (("low",),))["ex"] == 0.0


def test_the_teacher_gets_no_leniency(db: Path) -> None:
    question = example(db, "SELECT name FROM item ORDER BY price DESC LIMIT 1")
    first = gold_rows(question)
    assert first is not None
    other = (("pot",),) if first == [("pan",)] else (("pan",),)
    assert is_right(question, as_text(first))
    assert not is_right(question, other)
    assert score(question, other) == {"ex": 1.0, "ex_strict": 0.0}


def test_all_databases_of_the_folder_are_the_test_suite(db: Path) -> None:
    (db.parent / "another.sqlite").write_bytes(db.read_bytes())
    assert databases(db) == [db, db.parent / "another.sqlite"]
