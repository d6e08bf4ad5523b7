"""The process that runs SQL for :mod:`sqlrun`: standard library only, started with ``python -I``.

Reads one JSON request a line (the arguments of :func:`run`), writes one JSON answer a line. It may be killed
at any moment: it owns nothing. With a ``seed`` the statement runs on a copy in memory whose tables lie in
another row order, without keys and indexes, which would restore it.

What a statement can't do here: write (the file is opened read-only, every action but reading is denied),
ATTACH, PRAGMA, load extensions, create anything (temporary tables too), or run a second statement.
What is left to the parent: time. Memory is capped at 2 GiB of address space.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
FORBIDDEN_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "writefile_sar"}
MEMORY = 2 << 30
MAX_CHARS = 64 << 20


def authorize(action: int, first: str | None, second: str | None, database: str | None,
              trigger: str | None) -> int:
    """SQLite's authorizer: reading only."""
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY


def decode(raw: bytes) -> str:
    """Text that isn't UTF-8 loses its bad bytes, as in the official evaluator."""
    return raw.decode("utf-8", "ignore")


def read_only(db: str) -> str:
    """The file as a URI that can't be written through."""
    return f"{Path(db).absolute().as_uri()}?mode=ro"


def connect(db: str) -> sqlite3.Connection:
    """A read-only connection under the authorizer."""
    connection = sqlite3.connect(read_only(db), uri=True)
    connection.text_factory = decode
    connection.execute("PRAGMA temp_store = MEMORY")  # a big sort must not fill the disk
    connection.set_authorizer(authorize)
    return connection


def quoted(name: str) -> str:
    """An identifier as SQL text."""
    return '"' + name.replace('"', '""') + '"'


@lru_cache(maxsize=12)
def shuffled(db: str, _stamp: str, seed: int) -> sqlite3.Connection:
    """A copy in memory, rows of every table in the order that ``seed`` draws; views kept.

    ``_stamp`` tells what file it is: one that changed is copied again.
    """
    draw = random.Random(seed).random
    copy = sqlite3.connect(":memory:", uri=True)
    copy.text_factory = decode
    copy.create_function("draw", 0, draw)
    copy.execute("ATTACH ? AS original", (read_only(db),))
    objects = copy.execute("SELECT type, name, sql FROM original.sqlite_master "
                           "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' "
                           "ORDER BY type, name")
    for kind, name, sql in objects.fetchall():
        if kind == "view":
            copy.execute(sql)
            continue
        columns = copy.execute(f"PRAGMA original.table_info({quoted(name)})").fetchall()
        declared = ", ".join(f"{quoted(column[1])} {column[2]}" for column in columns)
        copy.execute(f"CREATE TABLE main.{quoted(name)} ({declared})")
        copy.execute(f"INSERT INTO main.{quoted(name)} SELECT * FROM original.{quoted(name)} ORDER BY draw()")
    copy.commit()
    copy.execute("DETACH original")
    copy.set_authorizer(authorize)
    return copy


def cell(value: Any) -> Any:
    """JSON keeps int, float, str and None apart; blobs travel as ``{"blob": hex}``."""
    return {"blob": value.hex()} if isinstance(value, bytes) else value


def run(db: str, sql: str, max_rows: int, seed: int | None = None, stamp: str = "") -> dict[str, Any]:
    """Rows of one statement, or ``{"error": message}``."""
    connection: sqlite3.Connection | None = None
    try:
        connection = connect(db) if seed is None else shuffled(db, stamp, seed)
        return fetch(connection, sql, max_rows)
    except (sqlite3.Error, sqlite3.Warning, MemoryError, ValueError, OverflowError) as e:
        return {"error": f"{type(e).__name__}: {e}"}
    finally:
        if connection is not None and seed is None:
            connection.close()


def fetch(connection: sqlite3.Connection, sql: str, max_rows: int) -> dict[str, Any]:
    """Rows of one statement within the output limits."""
    cursor = connection.execute(sql)
    rows: list[list[Any]] = []
    chars = 0
    for row in cursor:
        rows.append([cell(value) for value in row])
        chars += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(rows) > max_rows or chars > MAX_CHARS:
            return {"error": f"output limit: more than {max_rows} rows or {MAX_CHARS >> 20} MiB of text"}
    return {"rows": rows, "columns": [c[0] for c in cursor.description or ()]}


def limit_memory() -> None:
    """Cap the address space where the platform can (not on Windows)."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    limit_memory()
    for line in sys.stdin:
        try:
            answer = json.dumps(run(**json.loads(line)))
        except MemoryError:
            answer = json.dumps({"error": "MemoryError"})
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
