"""The neutral form of frames on their way in: a marshalled description and one block of plain buffers.

No pickle and no type of pyarrow crosses, so a host with pyarrow and one without send the same bytes.
Marshal is read only in this direction (host to sandbox); what comes back is JSON.
"""

from __future__ import annotations

import marshal
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

REQUEST = struct.Struct("<QQQ")
"""Bytes of code (UTF-8), of the description, of the block."""
RECEIVED = b"R"
"""Sent back when a request has arrived whole: from here on a failure is the code's."""
FAILED = b"F"
"""Sent, with a reason, by a child that could not take its request."""

WireColumn = tuple[Any, ...]
"""``(kind, …)``: see :func:`_column`. Offsets count from the block's start and are multiples of 8."""

TEXT = pd.StringDtype("python", na_value=np.nan)


def frames(description: bytes, block: bytearray) -> dict[str, pd.DataFrame]:
    """The frames of a request; their buffers are views of ``block``, which belongs to this execution."""
    found = {}
    for name, rows, index, labels, columns in marshal.loads(description):
        arrays = {label: _column(column, block) for label, column in zip(labels, columns, strict=True)}
        row_index = pd.RangeIndex(rows) if index is None else pd.Index(_column(index, block))
        found[name] = pd.DataFrame(arrays, index=row_index, copy=False)
        found[name].columns = pd.Index(labels, dtype=TEXT if labels else None)
    return found


def _column(column: WireColumn, block: bytearray) -> Any:
    kind, *parts = column
    if kind == "plain":  # numbers, bools, datetimes without zone: dtype, rows, offset
        dtype, rows, offset = parts
        return np.frombuffer(block, np.dtype(dtype), rows, offset)
    if kind == "masked":  # nullable numbers and bools: name, values, mask
        name, values, mask = parts
        nullable: Any = pd.api.types.pandas_dtype(name)
        return nullable.construct_array_type()(_column(values, block), _column(mask, block))
    if kind == "text":  # distinct texts, row -> number of its text (-1: missing)
        texts, codes = parts
        cells = np.array([*texts, np.nan], dtype=object)[_column(codes, block)]
        return TEXT.construct_array_type()(cells, dtype=TEXT)  # type: ignore[call-arg]
    if kind == "zoned":  # zone name, datetimes in UTC
        zone, values = parts
        return pd.DatetimeIndex(_column(values, block)).tz_localize("UTC").tz_convert(zone).array
    if kind == "category":  # categories, codes, ordered
        categories, codes, ordered = parts
        return pd.Categorical.from_codes(
            _column(codes, block), pd.Index(_column(categories, block)), ordered)
    cells = np.empty(len(parts[0]), dtype=object)  # "objects": (type, value) a cell
    for row, (name, value) in enumerate(parts[0]):
        cells[row] = OBJECTS[name](value) if name else value
    return cells


def _decimal(text: str) -> Any:
    from decimal import Decimal
    return Decimal(text)


def _date(text: str) -> Any:
    from datetime import date
    return date.fromisoformat(text)


def _time(text: str) -> Any:
    from datetime import time
    return time.fromisoformat(text)


OBJECTS: dict[str, Callable[[Any], Any]] = {
    "Decimal": _decimal, "date": _date, "time": _time, "Timestamp": pd.Timestamp,
    "datetime": lambda text: pd.Timestamp(text).to_pydatetime(),
    "Timedelta": pd.Timedelta, "NaT": lambda _: pd.NaT, "NA": lambda _: pd.NA,
}
"""How a cell of an object column is remade; an empty name: marshal's own value (text, number, None)."""
