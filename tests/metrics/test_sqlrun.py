"""SQL of strangers: read-only, contained, killed in time."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest

from pandora_train.errors import MachineryError, UserError
from pandora_train.metrics.sqlrun import WORKER, SqlPool

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


@pytest.fixture
def pool() -> SqlPool:
    return SqlPool()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "shop.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript("""
            CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL);
            INSERT INTO item VALUES (1, 'pen', 1.5), (2, NULL, 2.0), (3, 'ink', 1e300 * 1e300);
            CREATE INDEX by_name ON item (name);
            CREATE VIEW cheap AS SELECT * FROM item WHERE price < 2;
        """)
        connection.execute("INSERT INTO item VALUES (4, CAST(x'63616620e9' AS TEXT), x'00ff')")
    connection.close()
    return path


def test_cells_keep_their_types(pool: SqlPool, db: Path) -> None:
    result = pool.run(db, "SELECT * FROM item ORDER BY id")
    assert result.rows == [(1, "pen", 1.5), (2, None, 2.0), (3, "ink", float("inf")), (4, "caf ", b"\x00\xff")]
    assert [type(c) for c in result.rows[1]] == [int, type(None), float]
    assert result.columns == ("id", "name", "price")


@pytest.mark.parametrize("sql", [
    "INSERT INTO item VALUES (9, 'x', 1)",
    "UPDATE item SET price = 0",
    "DELETE FROM item",
    "DROP TABLE item",
    "CREATE TABLE t (a)",
    "CREATE TEMP TABLE t (a)",
    "CREATE TEMP VIEW v AS SELECT 1",
    "ATTACH ':memory:' AS m",
    "ATTACH '{folder}/new.sqlite' AS m",
    "VACUUM INTO '{folder}/copy.sqlite'",
    "PRAGMA table_info(item)",
    "PRAGMA writable_schema = 1",
    "SELECT * FROM pragma_table_info('item')",
    "SELECT load_extension('{folder}/evil.so')",
    "SELECT writefile('{folder}/out', 'x')",
    "SELECT readfile('/etc/hostname')",
    "SELECT fts3_tokenizer('simple')",
    "BEGIN",
    "SELECT 1; DELETE FROM item",
    "EXPLAIN DELETE FROM item",
    "REINDEX",
    "ANALYZE",
])
def test_everything_but_reading_is_denied(pool: SqlPool, db: Path, sql: str) -> None:
    before = (db.read_bytes(), set(db.parent.iterdir()))
    result = pool.run(db, sql.format(folder=db.parent))
    assert result.outcome == "error"
    assert (db.read_bytes(), set(db.parent.iterdir())) == before


def test_other_databases_cannot_be_reached(pool: SqlPool, db: Path) -> None:
    assert pool.run(db, "SELECT 1").rows == [(1,)]
    assert pool.run(db, "SELECT name FROM cheap").rows == [("pen",)]
    assert pool.run(db, "SELECT * FROM other.item").outcome == "error"


@pytest.mark.parametrize("sql", [ENDLESS, "SELECT length(hex(zeroblob(400000000))) || (" + ENDLESS + ")"])
def test_a_statement_without_end_costs_its_time_and_no_more(pool: SqlPool, db: Path, sql: str) -> None:
    assert pool.run(db, sql, timeout=0.5).outcome == "timeout"
    assert pool.run(db, "SELECT 1").rows == [(1,)]


def test_the_process_of_a_late_statement_is_gone(pool: SqlPool, db: Path) -> None:
    pool.run(db, "SELECT 1")
    pid = pool._idle[0].process.pid
    pool.run(db, ENDLESS, timeout=0.3)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert pool._idle == []


def test_too_much_output_or_memory_is_an_error_not_a_crash(pool: SqlPool, db: Path) -> None:
    many = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
    assert "output limit" in pool.run(db, many, max_rows=100).error
    assert "output limit" in pool.run(db, "SELECT hex(zeroblob(40000000)) FROM item", timeout=20).error
    assert pool.run(db, "SELECT zeroblob(3000000000)").outcome == "error"
    assert pool.run(db, "SELECT 1").rows == [(1,)]


def test_broken_sql_text_and_files(pool: SqlPool, db: Path, tmp_path: Path) -> None:
    for sql in ("", "SELEC 1", "SELECT nothing FROM item", "SELECT 'a\x00b'", "SELECT 1 -- \ud800", "🙂"):
        assert pool.run(db, sql).outcome in ("error", "result")
    (tmp_path / "no.sqlite").write_text("this is no database, but long enough to be looked at " * 40)
    assert pool.run(tmp_path / "no.sqlite", "SELECT * FROM sqlite_master").outcome == "error"
    with pytest.raises(UserError, match="no database"):
        pool.run(tmp_path / "missing.sqlite", "SELECT 1")
    assert not (tmp_path / "missing.sqlite").exists()


def test_a_worker_that_died_is_replaced(pool: SqlPool, db: Path) -> None:
    pool.run(db, "SELECT 1")
    pool._idle[0].process.kill()
    pool._idle[0].process.wait()
    assert pool.run(db, "SELECT 2").rows == [(2,)]


def test_a_statement_that_ends_its_process_is_an_error(db: Path, tmp_path: Path,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    script = WORKER.read_text(encoding="utf-8")
    fragile = script.replace("        try:\n            answer", "        if 'die' in line: os._exit(1)\n"
                                                                "        try:\n            answer")
    assert fragile != script
    (tmp_path / "fragile.py").write_text(fragile, encoding="utf-8")
    monkeypatch.setattr("pandora_train.metrics.sqlrun.WORKER", tmp_path / "fragile.py")
    fragile_pool = SqlPool()
    assert fragile_pool.run(db, "SELECT 'die'").error == "the statement ended its process"
    assert fragile_pool.run(db, "SELECT 1").rows == [(1,)]
    fragile_pool.close()


def test_our_own_failure_is_not_the_statements(pool: SqlPool, db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pandora_train.metrics.sqlrun.sys.executable", "/bin/true")
    with pytest.raises(MachineryError):
        pool.run(db, "SELECT 1")


def test_many_threads_get_their_own_answers(pool: SqlPool, db: Path) -> None:
    wrong: list[int] = []

    def ask(n: int) -> None:
        numbers = range(n * 100, n * 100 + 20)
        wrong.extend(k for k in numbers if pool.run(db, f"SELECT {k}").rows != [(k,)])

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(pool._idle) <= 4
    pool.close()


def test_a_seed_shuffles_the_rows_and_nothing_else(pool: SqlPool, db: Path) -> None:
    orders = {tuple(r[0] for r in pool.run(db, "SELECT id FROM item", seed=s).rows or ()) for s in range(8)}
    assert len(orders) > 2
    assert {tuple(sorted(order)) for order in orders} == {(1, 2, 3, 4)}
    assert pool.run(db, "SELECT * FROM item ORDER BY id", seed=1).rows == pool.run(
        db, "SELECT * FROM item ORDER BY id").rows
    assert pool.run(db, "SELECT name FROM cheap", seed=1).rows == [("pen",)]
    assert pool.run(db, "DELETE FROM item", seed=1).outcome == "error"
