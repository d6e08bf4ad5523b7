"""Changed data: a database like the stored one, but with other rows, to tell right programs from lucky ones.

Rows are dropped, values of each column drawn anew from that column (numbers also moved a little). Kept as
they are: declared types, which columns hold NULLs, uniqueness of columns and primary keys, foreign keys.
Values that the label names (its literals) are drawn more often, so that its conditions still select rows.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import pandas as pd

from pandora_train.box.box import Box, BoxSet
from pandora_train.box.database import column, connect, quoted
from pandora_train.metrics.sqlrun import Cell, Cells
from pandora_train.sources.reading import Stamp, stamp

MAX_ROWS = 250
"""Rows kept of a table: enough to tell programs apart, quick to run."""
HIT_SHARE = 0.3
"""Share of a column's cells that get a value which the label names, where the column has one."""


@dataclass(frozen=True)
class StoredTable:
    """One table as stored; ``key`` holds the positions of its primary key."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    key: tuple[int, ...]
    rows: Cells


@dataclass(frozen=True)
class Changed:
    """A changed database: as a SQLite file for the label, as BOXes for the program."""

    path: Path
    boxes: BoxSet


def stored(path: str) -> dict[str, StoredTable]:
    """All tables of a SQLite file by lower-case name; read again when the file has changed."""
    return _stored(path, stamp(path))


@lru_cache(maxsize=4)
def _stored(path: str, _stamp: Stamp) -> dict[str, StoredTable]:
    return _read(Path(path))


def _read(path: Path) -> dict[str, StoredTable]:
    tables: dict[str, StoredTable] = {}
    with closing(connect(path)) as con:
        con.text_factory = lambda data: data.decode("utf-8", "ignore")  # as gold SQL is read
        names = con.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            if name.startswith("sqlite_"):
                continue
            info = con.execute(f"PRAGMA table_info({quoted(name)})").fetchall()
            rows = con.execute(f"SELECT * FROM {quoted(name)}").fetchall()
            key = tuple(i for i, c in enumerate(info) if c[5])
            tables[name.lower()] = StoredTable(name, tuple(c[1] for c in info), tuple(c[2] for c in info),
                                              key, rows)
    return tables


def changed(path: str, boxes: BoxSet, tables: Sequence[str], literals: Sequence[str], seed: int,
            folder: Path) -> Changed:
    """Write a changed copy of ``tables`` (lower-case original names) below ``folder``.

    Equal arguments give equal data. The BOXes carry the names of ``boxes``.
    """
    rng = random.Random(seed)
    originals = stored(path)
    links = _links(boxes)
    wanted = _parents_first([originals[t] for t in tables if t in originals], links)
    words = [x.lower() for x in literals if x]
    done: dict[str, StoredTable] = {}
    for table in wanted:
        done[table.name.lower()] = replace(table, rows=_change(table, links, done, words, rng))
    file = folder / f"changed_{seed}.sqlite"
    _write(file, list(done.values()))
    return Changed(file, _as_boxes(boxes, _read(file)))


# --- keys ---------------------------------------------------------------------------------------------

Link = tuple[str, str]
"""``(table, column)`` in lower case."""


def _links(boxes: BoxSet) -> dict[Link, Link]:
    """Foreign keys under the source's names: child column to parent column."""
    def source(name: str, field: str) -> Link:
        box = boxes[name]
        return (box.original or box.name).lower(), box.original_fields.get(field, field).lower()

    return {source(k.box, k.field): source(k.to_box, k.to_field) for k in boxes.foreign_keys}


def _parents_first(tables: list[StoredTable], links: dict[Link, Link]) -> list[StoredTable]:
    """Parents before children; within a circle of references, any order."""
    waiting, order = list(tables), []
    while waiting:
        names = {t.name.lower() for t in waiting}
        free = [t for t in waiting if not any(child[0] == t.name.lower() and parent[0] in names - {child[0]}
                                              for child, parent in links.items())]
        for table in free or waiting[:1]:
            order.append(table)
            waiting.remove(table)
    return order


def _parent_values(parent: Link | None, done: dict[str, StoredTable], literals: list[str]) -> list[Cell]:
    """The values of the referenced column after the change, those of rows that the label names first."""
    table = done.get(parent[0]) if parent else None
    if table is None or parent is None:
        return []
    place = [c.lower() for c in table.columns].index(parent[1])
    rows = sorted(table.rows, key=lambda row: not any(_is_hit(c, literals) for c in row))
    return list(dict.fromkeys(row[place] for row in rows if row[place] is not None))


# --- rows ---------------------------------------------------------------------------------------------


def _change(table: StoredTable, links: dict[Link, Link], done: dict[str, StoredTable], literals: list[str],
            rng: random.Random) -> Cells:
    sample = _sampled(table.rows, literals, rng)
    fixed = _fixed(sample, literals, rng)
    columns: list[list[Cell]] = []
    for i, name in enumerate(table.columns):
        mine = [row[i] for row in sample]
        parents = _parent_values(links.get((table.name.lower(), name.lower())), done, literals)
        if _unique([row[i] for row in table.rows]):
            drawn = _permuted(mine, parents, fixed[i], rng)
        elif parents:
            drawn = _with_nulls(mine, rng.choices(parents, _skewed(len(parents)), k=len(mine)), rng)
        else:
            drawn = _with_nulls(mine, _redrawn(mine, literals, rng), rng)
            drawn = [a if j in fixed[i] else b for j, (a, b) in enumerate(zip(mine, drawn, strict=True))]
        columns.append(drawn)
    rows = list(zip(*columns, strict=False))  # a column may be cut to the parents there are
    rng.shuffle(rows)
    if table.key:  # a key drawn twice would be no key
        rows = list({tuple(row[i] for i in table.key): row for row in rows}.values())
    return rows


def _sampled(rows: Cells, literals: list[str], rng: random.Random) -> Cells:
    """Some of the rows, preferably those with a value that the label names."""
    if len(rows) < 2:
        return list(rows)
    size = min(max(1, int(len(rows) * rng.uniform(0.5, 0.95))), MAX_ROWS)
    named = {i: words for i, row in enumerate(rows) if (words := _words_in(row, literals))}
    often = Counter(x for words in named.values() for x in words)
    most = min(len(named), max(1, size // 2))
    hits = sorted(rng.sample(list(named), len(named)), key=lambda i: -sum(1 / often[x] for x in named[i]))
    chosen = hits[:rng.randint((most + 1) // 2, most)]  # rare ones first
    others = list(set(range(len(rows))) - set(chosen))
    chosen += rng.sample(others, min(len(others), size - len(chosen)))
    return [rows[i] for i in chosen]


def _fixed(rows: Cells, literals: list[str], rng: random.Random) -> dict[int, set[int]]:
    """Column to rows whose cell stays: where a row has several values that the label names together."""
    fixed: dict[int, set[int]] = defaultdict(set)
    for j, row in enumerate(rows):
        hits = [i for i, cell in enumerate(row) if _is_hit(cell, literals)]
        if len(hits) > 1 and rng.random() < 0.7:
            for i in hits:
                fixed[i].add(j)
    return fixed


def _words_in(row: tuple[Cell, ...], literals: list[str]) -> set[str]:
    return {x for x in literals if any(_is_hit(cell, [x]) for cell in row)}


def _is_hit(cell: Cell, literals: list[str]) -> bool:
    if cell is None or isinstance(cell, bytes):
        return False
    text = str(cell).lower()
    return any(text == x or (len(x) > 2 and x in text) for x in literals)


def _unique(values: list[Cell]) -> bool:
    return len(values) > 1 and None not in values and len(set(values)) == len(values)


def _permuted(mine: list[Cell], parents: list[Cell], fixed: set[int], rng: random.Random) -> list[Cell]:
    """A unique column keeps its values, or takes distinct ones of its parents, in another order."""
    if parents:
        return rng.sample(parents, min(len(parents), len(mine)))
    free = [cell for j, cell in enumerate(mine) if j not in fixed]
    rng.shuffle(free)
    others = iter(free)
    return [cell if j in fixed else next(others) for j, cell in enumerate(mine)]


def _skewed(size: int) -> list[float]:
    """Weights that give some parents many children and others none."""
    return [1.0 / (1 + i) ** 0.7 for i in range(size)]


def _redrawn(mine: list[Cell], literals: list[str], rng: random.Random) -> list[Cell]:
    """Cells drawn anew from the column's own values; numbers of some columns move a little."""
    values = [v for v in mine if v is not None]
    if not values:
        return list(mine)
    hits = sorted({v for v in values if _is_hit(v, literals)}, key=str)
    different = sorted(set(values), key=str)
    if rng.random() < 0.5 and len(different) > 1:  # leave some values out altogether
        chosen = set(rng.sample(different, rng.randint((len(different) + 1) // 2, len(different) - 1)))
        values = [v for v in values if v in chosen]
    drawn: list[Cell] = rng.choices(values, k=len(mine))
    if rng.random() < 0.5 and not hits:
        drawn = [_moved(v, values, rng) for v in drawn]
    return [rng.choice(hits) if hits and rng.random() < HIT_SHARE else v for v in drawn]


def _moved(cell: Cell, values: Sequence[Cell], rng: random.Random) -> Cell:
    """A number near ``cell``, on the same side of zero and of one; codes of few values stay."""
    if not isinstance(cell, (int, float)) or len(set(values)) < 6:
        return cell
    if isinstance(cell, int):
        return cell + rng.randint(0, 3) if cell > 0 else cell
    return round(cell * rng.uniform(1, 1.2), 2) or cell


def _with_nulls(mine: list[Cell], drawn: list[Cell], rng: random.Random) -> list[Cell]:
    """Put as many NULLs as there were into other places."""
    missing = set(rng.sample(range(len(mine)), sum(v is None for v in mine)))
    return [None if i in missing else v for i, v in enumerate(drawn)]


# --- out ----------------------------------------------------------------------------------------------


def _write(file: Path, tables: list[StoredTable]) -> None:
    """A SQLite file with the declared types, which decide how SQLite compares; no keys or indexes."""
    with closing(sqlite3.connect(file)) as con:
        con.execute("PRAGMA journal_mode = OFF")
        con.execute("PRAGMA synchronous = OFF")
        for table in tables:
            declared = ", ".join(f"{quoted(c)} {t}" for c, t in zip(table.columns, table.types, strict=True))
            con.execute(f"CREATE TABLE {quoted(table.name)} ({declared})")
            marks = ", ".join("?" * len(table.columns))
            con.executemany(f"INSERT INTO {quoted(table.name)} VALUES ({marks})", table.rows)
        con.commit()


def _as_boxes(boxes: BoxSet, tables: dict[str, StoredTable]) -> BoxSet:
    """The changed tables under the names of ``boxes``; cells become columns as in the database BOX."""
    rebuilt = []
    for box in boxes:
        table = tables.get((box.original or box.name).lower())
        if table is None:
            continue
        cells = list(zip(*table.rows, strict=True)) if table.rows else [()] * len(table.columns)
        names = {box.original_fields.get(name, name): name for name in box.frame.columns}
        data = {names[c]: column(v, t)[0]
                for c, t, v in zip(table.columns, table.types, cells, strict=True) if c in names}
        rebuilt.append(Box(box.name, pd.DataFrame(data, index=pd.RangeIndex(len(table.rows))), box.original,
                         box.original_fields))
    return BoxSet(tuple(rebuilt))
