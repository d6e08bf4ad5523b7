"""One SQLite database as BOXes: a BOX per table, foreign keys as given with it or declared in it.

Values are what SQLite returns, since compiled labels and gold SQL are compared on them. SQLite types cells,
not columns, so a column is typed by what it holds:

- only integers: ``int64``, with NULLs ``Int64``; reals (or integers and reals): ``float64``;
- only text: ``str``; text that looks like numbers stays text;
- numbers and text mixed: ``object`` with the cells as they are, told in the notes;
- nothing but NULLs, or no rows: by the declared type.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd

from pandora_train.box.box import Box, BoxSet, ForeignKey, identifier
from pandora_train.box.table import column_names
from pandora_train.errors import ReadingError
from pandora_train.records import DatabaseKnowledge
from pandora_train.sources.reading import readable

PATIENCE = 5.0
"""Seconds to wait for another program's lock."""
_EXACT = 2**53  # integers beyond this are not exact as float64


def database_boxes(knowledge: DatabaseKnowledge) -> BoxSet:
    """Read all tables of a SQLite file, which is opened read-only.

    Raises :class:`ReadingError` when the file is missing, damaged or no database.
    """
    path = Path(knowledge.path)
    notes: list[str] = []
    with readable(knowledge.path), closing(connect(path)) as con:
        tables = _names(con, "table")
        boxes = _boxes(con, tables, notes)
        declared = [k for t in tables for k in _declared_keys(con, t)]
        views = _names(con, "view")
    if views:
        notes.append(f"views are left out: {', '.join(views)}")
    keys = declared if knowledge.foreign_keys is None else knowledge.foreign_keys
    resolved, absent = _resolve(keys, boxes)
    if absent:
        notes.append(f"{absent} foreign keys that name no column of these tables were left out")
    return BoxSet(tuple(boxes), tuple(resolved), tuple(notes))


def connect(path: Path) -> sqlite3.Connection:
    """A read-only connection. ``immutable`` also where the folder is not writable, so that no journal is."""
    if not path.is_file():
        raise ReadingError(f"no database file {path}")
    uri = path.absolute().as_uri()
    con = sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=PATIENCE)
    try:
        con.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()
    except sqlite3.Error as e:
        con.close()
        # Only a write-ahead log without its side files, in a read-only folder, may be read without locks, not
        # a file that another program holds locked: half of its transaction would be read.
        if getattr(e, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        con = sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True)
    return con


def _names(con: sqlite3.Connection, kind: str) -> list[str]:
    # A damaged catalogue may hold a name as a blob; SQLite itself still finds the table.
    query = "SELECT CAST(name AS TEXT) FROM sqlite_master WHERE type = ? AND name NOT NULL ORDER BY rowid"
    names = con.execute(query, (kind,))
    return [name for (name,) in names if not name.startswith("sqlite_")]


def _boxes(con: sqlite3.Connection, tables: list[str], notes: list[str]) -> list[Box]:
    taken: set[str] = set()
    boxes = []
    for table in tables:
        types = {name: kind for _, name, kind, *_ in con.execute(f"PRAGMA table_info({quoted(table)})")}
        header, rows = _read(con, table, notes)
        names, renamed = column_names(header)
        if renamed:
            invented = ", ".join(sorted(renamed))
            notes.append(f"{table}: repeated or empty column names were renamed: {invented}")
        cells: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(header)
        columns = {}
        for name, original, values in zip(names, header, cells, strict=True):
            columns[name], note = column(values, types.get(original, ""))
            if note:
                notes.append(f"{table}.{original}: {note}")
        frame = pd.DataFrame(columns, columns=names, index=pd.RangeIndex(len(rows)))
        fields = {n: o for n, o in zip(names, header, strict=True) if n != o}
        boxes.append(Box(identifier(table, taken), frame, table, fields))
        if boxes[-1].name != table:
            notes.append(f"table '{table}' is called {boxes[-1].name}")
    return boxes


def _read(con: sqlite3.Connection, table: str, notes: list[str]) -> tuple[list[str], list[tuple[Any, ...]]]:
    query = f"SELECT * FROM {quoted(table)}"
    try:
        cursor = con.execute(query)
        rows = cursor.fetchall()
    except sqlite3.OperationalError as e:
        if "decode" not in str(e).lower():
            raise
        notes.append(f"{table}: text that is not UTF-8 was decoded with replacement characters")
        con.text_factory = lambda data: data.decode("utf-8", "replace")
        cursor = con.execute(query)
        rows = cursor.fetchall()
        con.text_factory = str
    return [d[0] for d in cursor.description], rows


def column(values: Sequence[Any], declared: str) -> tuple[pd.Series, str]:
    """One SQLite column as a Series, and a note where the cells could not be kept in one type."""
    kinds = set(map(type, values))
    note = ""
    if bytes in kinds:
        values = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values]
        kinds = set(map(type, values))
        note = "blobs were decoded as text with replacement characters"
    missing = type(None) in kinds
    kinds.discard(type(None))
    if not kinds:
        return pd.Series(values, dtype=_declared_dtype(declared, bool(values))), note
    if kinds == {str}:
        return pd.Series(values, dtype="str"), note
    if kinds == {int}:
        return pd.Series(values, dtype="Int64" if missing else "int64"), note
    if kinds <= {int, float} and all(abs(v) <= _EXACT for v in values if type(v) is int):
        return pd.Series(values, dtype="float64"), note
    texts = sum(isinstance(v, str) for v in values)
    held = f"numbers with {texts} text cells" if texts else "reals with integers too large for them"
    note = "; ".join([*([note] if note else []), f"mixes {held}, kept as they are"])
    return pd.Series(values, dtype="object"), note


def _declared_dtype(declared: str, rows: bool) -> str:
    """SQLite's affinity rules, for columns that hold no value."""
    kind = declared.upper()
    if "INT" in kind:
        return "Int64" if rows else "int64"
    if any(word in kind for word in ("REAL", "FLOA", "DOUB", "NUM", "DEC")):
        return "float64"
    return "str"


# --- foreign keys: (table, column, table, column) in the source's spelling --------------------------------

NamedKey = tuple[str, str, str, str]


def _declared_keys(con: sqlite3.Connection, table: str) -> list[NamedKey]:
    keys = []
    for _, _, target, source, to, *_ in con.execute(f"PRAGMA foreign_key_list({quoted(table)})").fetchall():
        if to is None:  # refers to the primary key
            primary = [r[1] for r in con.execute(f"PRAGMA table_info({quoted(target)})") if r[5]]
            to = primary[0] if len(primary) == 1 else ""
        keys.append((table, source, target, to))
    return sorted(keys)


def _resolve(keys: Sequence[NamedKey], boxes: list[Box]) -> tuple[list[ForeignKey], int]:
    """Keys in the BOXes' spelling, and how many name absent fields; names compare without case, as in SQL."""
    where = {
        (b.original.lower(), b.original_fields.get(f, f).lower()): (b.name, f)
        for b in boxes
        for f in b.frame.columns
    }
    resolved: dict[ForeignKey, None] = {}
    absent = 0
    for table, source, target, to in keys:
        a, b = where.get((table.lower(), source.lower())), where.get((target.lower(), to.lower()))
        if a and b:
            resolved[ForeignKey(*a, *b)] = None
        else:
            absent += 1
    return list(resolved), absent


def quoted(name: str) -> str:
    """A name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
