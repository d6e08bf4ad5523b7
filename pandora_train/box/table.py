"""One CSV or TSV file as one BOX.

Repairs are few and all recorded in ``BoxSet.notes``: repeated or empty headers get a unique name, short rows
are filled with missing cells, cells beyond the header get columns of their own. Cells stay text unless a
column reads back as it was written (see :func:`typed`).
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from pandora_train.box.box import Box, BoxSet, identifier
from pandora_train.errors import ReadingError
from pandora_train.records import TableKnowledge
from pandora_train.sources.tables import table_rows

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


def table_boxes(knowledge: TableKnowledge) -> BoxSet:
    """Read one table. Raises :class:`ReadingError` for a missing, empty or non-UTF-8 file, with the line."""
    lines = table_rows(knowledge)
    header = next(lines, None)
    if header is None:
        raise ReadingError(f"{knowledge.path} is empty: a table needs a header line")
    rows = list(lines)
    notes: list[str] = []
    width = max(len(header), *(_used(r) for r in rows)) if rows else len(header)
    if width > len(header):
        notes.append(f"{width - len(header)} columns beyond the header were named")
    names, renamed = column_names(header + [""] * (width - len(header)))
    if renamed:
        notes.append(f"repeated or empty headers were renamed: {', '.join(sorted(renamed))}")
    ragged = sum(len(r) != len(header) for r in rows)
    if ragged:
        notes.append(f"{ragged} rows differ in length from the header and were filled or widened")
    exact = knowledge.dialect != "csv"  # a benchmark's answers are cells as they stand
    columns = {}
    for i, name in enumerate(names):
        cells = [r[i] if i < len(r) else None for r in rows]
        columns[name] = typed(cells, exact)
        if columns[name].dtype == "float64" and typed(cells).dtype != "float64":
            notes.append(f"{name}: decimals of several lengths were read as numbers, so that 1.50 is 1.5")
    original = {n: h for n, h in zip(names, header, strict=False) if n != h}
    frame = pd.DataFrame(columns, columns=names, index=pd.RangeIndex(len(rows)))
    box = Box(identifier(knowledge.name), frame, knowledge.name, original)
    if knowledge.name and box.name != knowledge.name:
        notes.append(f"table '{knowledge.name}' is called {box.name}")
    return BoxSet((box,), notes=tuple(notes))


def column_names(header: list[str]) -> tuple[list[str], set[str]]:
    """Unique column names (white space squeezed), and those that had to be invented or numbered."""
    squeezed = [" ".join(h.split()) for h in header]
    own = set(squeezed)
    names: dict[str, None] = {}  # in order
    renamed: set[str] = set()
    counts: dict[str, int] = {}
    for position, base in enumerate(squeezed, 1):
        stem = base or f"column_{position}"
        name, n = stem, counts.get(stem, 2)
        while name in names or (name != base and name in own):
            name, n = f"{stem}_{n}", n + 1
        counts[stem] = n
        if name != base:
            renamed.add(name)
        names[name] = None
    return list(names), renamed


def typed(cells: list[str | None], exact: bool = True) -> pd.Series:
    """Column of ``int64``, ``Int64`` (cells missing), ``float64`` or ``str``; empty cells are missing.

    Numbers only where writing them back gives every cell as it was: ``007``, ``1,000`` or ``1.50`` keep their
    column text, and so does a column that mixes ``3`` with ``1.5``. Unless ``exact``, those with ``1.50`` or
    both ``3`` and ``1.5`` are decimals too, of up to 15 digits.
    """
    values = [c if c else None for c in cells]
    present = [v for v in values if v is not None]
    if present and all(_INTEGER.fullmatch(v) and v != "-0" and -(2**63) <= int(v) < 2**63 for v in present):
        numbers = [None if v is None else int(v) for v in values]
        return pd.Series(numbers, dtype="Int64" if None in numbers else "int64")
    if present and all(_decimal(v, exact) for v in present):
        return pd.Series([np.nan if v is None else float(v) for v in values], dtype="float64")
    return pd.Series(values, dtype="str")


def _decimal(cell: str, exact: bool) -> bool:
    if _DECIMAL.fullmatch(cell) and repr(float(cell)) == cell:
        return True
    return not exact and bool(_NUMBER.fullmatch(cell)) and sum(map(str.isdigit, cell)) <= 15


def _used(row: list[str]) -> int:
    """Length of a row without its empty tail."""
    return max((i for i, cell in enumerate(row, 1) if cell), default=0)
