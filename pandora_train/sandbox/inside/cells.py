"""``result`` as the official ``list[list[str]]``: rows of text cells, ``None`` for what is missing.

What is accepted beside it, and what becomes of it (``shape`` says which it was):

==========  =============================================================================================
``rows``    a list of lists: one row an inner list
``list``    a flat list: one row of one cell an item
``scalar``  one row of one cell
``series``  a Series: its values, one row each; the index is dropped (``reset_index()`` keeps it)
``frame``   a DataFrame: its rows; the index is dropped likewise
``other``   tuples, sets (sorted), dicts (one row an item: key, value), arrays, an Index, views, iterators;
            and rows in which a cell is a Series, list or array of one value, which is taken out
==========  =============================================================================================

A scalar ``None`` is a missing cell. A function, class or module is a TypeError: a call was forgotten.
"""

from __future__ import annotations

import datetime as dt
import decimal
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from pandas.core.groupby import GroupBy

TypedText = tuple[Any, str]
"""``(text or None, kind)``; a timestamp stays one until its whole column is known."""


NO_VALUES = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType, type)


MOST_COLUMNS = 5000


class TooMuch(Exception):
    """More rows or text than may leave the sandbox."""


def _missing(_: Any) -> TypedText:
    return None, "null"


def _number(value: float) -> TypedText:
    return (None, "null") if value != value else (repr(value), "float")


def _moment(value: Any) -> TypedText:
    return (None, "null") if value is pd.NaT else (value, "date")


EXACT: dict[type, Callable[[Any], TypedText]] = {
    str: lambda v: (v, "str"),
    int: lambda v: (str(v), "int"),
    float: _number,
    bool: lambda v: (str(v), "bool"),
    type(None): _missing,
    type(pd.NA): _missing,
    type(pd.NaT): _missing,
    pd.Timestamp: _moment,
    dt.datetime: _moment,
    dt.date: lambda v: (v.isoformat(), "date"),
    dt.time: lambda v: (v.isoformat(), "str"),
    decimal.Decimal: lambda v: (None, "null") if v.is_nan() else (str(v), "float"),
    bytes: lambda v: (v.decode("utf-8", "replace"), "str"),
}


def cell(value: Any) -> TypedText:
    """One cell. Numbers keep their own spelling: ``3`` for an int, ``6.0`` for a float."""
    known = EXACT.get(type(value))
    if known is not None:
        return known(value)
    if isinstance(value, np.datetime64):
        return cell(pd.Timestamp(value))
    if isinstance(value, np.timedelta64):
        return cell(pd.Timedelta(value))
    if isinstance(value, np.generic):
        # a float32 in its own digits: 0.1, not 0.10000000149011612
        wide = isinstance(value, np.floating) and value.dtype.itemsize != 8
        return cell(float(str(value)) if wide else value.item())
    if isinstance(value, NO_VALUES):
        name = getattr(value, "__name__", "")
        raise TypeError(f"result holds {type(value).__name__} '{name}', not a value")
    return str(value), "str"


def _single(value: Any) -> Any:
    """The only value of a Series, array, list or tuple of one; else ``value`` itself."""
    if not isinstance(value, (pd.Series, pd.Index, np.ndarray, list, tuple)) or len(value) != 1:
        return value
    return value.iloc[0] if isinstance(value, pd.Series) else value[0]


def _is_row(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, (list, tuple, pd.Series, pd.Index))


def _rows(items: Iterable[Any]) -> Iterator[Iterable[Any]]:
    for item in items:
        yield item if _is_row(item) else list(item.values()) if isinstance(item, dict) else (item,)


def _shaped(result: Any) -> tuple[str, Iterable[Iterable[Any]]]:
    """``(shape, rows of raw cells)``."""
    if isinstance(result, pd.DataFrame):
        columns = [result.iloc[:, at].tolist() for at in range(result.shape[1])]
        return "frame", zip(*columns, strict=True) if columns else ()
    if isinstance(result, pd.Series):
        return "series", ((v,) for v in result.tolist())
    if type(result) is list:
        if all(type(row) is list for row in result):
            return "rows", result
        return "other" if any(_is_row(v) or isinstance(v, dict) for v in result) else "list", _rows(result)
    if isinstance(result, dict):
        return "other", ((k, *v) if _is_row(v) else (k, v) for k, v in result.items())
    if isinstance(result, (set, frozenset)):
        return "other", _rows(sorted(result, key=lambda v: (type(v).__name__, str(v))))
    if isinstance(result, pd.Index) and not isinstance(result, pd.MultiIndex):
        return "other", ((v,) for v in result.tolist())
    if isinstance(result, np.ndarray) and result.ndim == 0:
        return "scalar", ((result[()],),)
    if isinstance(result, GroupBy):
        raise TypeError(f"result is a {type(result).__name__} without an aggregation")
    if isinstance(result, (list, tuple, np.ndarray, pd.MultiIndex, pd.api.extensions.ExtensionArray)) or (
            isinstance(result, Iterable) and not isinstance(result, (str, bytes))):
        return "other", _rows(result)
    return "scalar", ((result,),)


def rows(result: Any, max_rows: int, max_bytes: int) -> tuple[list[list[str | None]], list[str], str]:
    """``(rows, type of each column, shape)``. Raises :class:`TooMuch` past a limit."""
    shape, raw = _shaped(result)
    out: list[list[Any]] = []
    kinds: list[set[str]] = []
    size = 0
    for row in raw:
        if len(out) >= max_rows:
            raise TooMuch(f"result has more than {max_rows:,} rows")
        line = []
        for at, value in enumerate(row):
            if _is_row(value):
                value, shape = _single(value), "other" if shape == "rows" else shape
            text, kind = cell(value)
            if at >= len(kinds):
                if at == MOST_COLUMNS:
                    raise TooMuch(f"result has more than {MOST_COLUMNS:,} columns")
                kinds.append(set())
            kinds[at].add(kind)
            size += _bytes(text) + 3
            if size > max_bytes:
                raise TooMuch(f"result is longer than {max_bytes:,} bytes")
            line.append(text)
        out.append(line)
        size += 2
    for at, seen in enumerate(kinds):
        if "date" in seen:
            _spell_moments(out, at)
    return out, [_column_type(seen) for seen in kinds], shape


def _bytes(text: Any) -> int:
    if type(text) is not str:  # missing, or a timestamp
        return 24
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _spell_moments(out: list[list[Any]], at: int) -> None:
    """Timestamps in ISO 8601; a column that holds midnights alone is one of dates: ``2020-01-31``."""
    cells = [row[at] for row in out if at < len(row) and isinstance(row[at], dt.datetime)]
    dates = all(v.tzinfo is None and v.time() == dt.time() for v in cells)
    for row in out:
        if at < len(row) and isinstance(row[at], dt.datetime):
            row[at] = row[at].date().isoformat() if dates else row[at].isoformat()


def _column_type(seen: set[str]) -> str:
    seen = seen - {"null"}
    if len(seen) <= 1:
        return next(iter(seen), "null")
    return "float" if seen == {"int", "float"} else "mixed"
