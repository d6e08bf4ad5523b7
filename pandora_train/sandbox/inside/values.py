"""Help for an empty result: the filter values in the code, and the nearest values that exist."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

MOST_FILTERS = 6
MOST_VALUES = 3000
_OPERATORS = {ast.Eq: "==", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
_METHODS = {"eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "isin": "in", "contains": "contains",
            "startswith": "starts with", "endswith": "ends with", "match": "matches", "fullmatch": "matches"}


@dataclass(frozen=True)
class Filter:
    """``column operator value`` as the code has it; ``box`` is empty where the code doesn't say."""

    box: str
    column: str
    operator: str
    value: Any


def column_of(node: ast.expr) -> tuple[str, str] | None:
    """``(variable or '', column)`` of ``x['c']`` or ``x.c``, also below methods: ``x['c'].str.lower()``."""
    while True:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            name = node.value.id if isinstance(node.value, ast.Name) else ""
            return (name, node.slice.value) if isinstance(node.slice.value, str) else None
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name):
                return node.value.id, node.attr
            node = node.value
        else:
            return None


def _literals(node: ast.expr, names: dict[str, Any]) -> list[Any]:
    """The constants that ``node`` stands for, through variables that hold one."""
    if isinstance(node, ast.Name):
        value = names.get(node.id)
        return [value] if type(value) in (str, int, float) else []
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return []
    items = list(value) if isinstance(value, (list, tuple, set)) else [value]
    return [v for v in items if type(v) in (str, int, float)]


def filters(code: str, names: dict[str, Any]) -> Iterator[Filter]:
    """Comparisons of a column with constants, in the order of the code."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
            yield from _compared(node, names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr == "query" and isinstance(node.args[0], ast.Constant):
                yield from _queried(node.func.value, str(node.args[0].value), names)
            elif node.func.attr in _METHODS and (column := column_of(node.func.value)):
                for value in _literals(node.args[0], names):
                    yield Filter(*column, _METHODS[node.func.attr], value)


def _compared(node: ast.Compare, names: dict[str, Any]) -> Iterator[Filter]:
    operator = _OPERATORS[type(node.ops[0])]
    for side, other, spelled in ((node.left, node.comparators[0], operator),
                                 (node.comparators[0], node.left, _FLIPPED[operator])):
        column = column_of(side)
        if column and not (column[0] and isinstance(side, ast.Name)):
            for value in _literals(other, names):
                yield Filter(*column, spelled, value)


def _queried(frame: ast.expr, text: str, names: dict[str, Any]) -> Iterator[Filter]:
    box = frame.id if isinstance(frame, ast.Name) else ""
    for node in ast.walk(ast.parse(text.replace("@", "").replace("`", ""), mode="eval")):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.left, ast.Name):
            operator = _OPERATORS.get(type(node.ops[0]), "in")
            for value in _literals(node.comparators[0], names):
                yield Filter(box, node.left.id, operator, value)


def _series(found: Filter, names: dict[str, Any],
            frames: dict[str, pd.DataFrame]) -> tuple[str, pd.Series[Any]] | None:
    """The BOX column that a filter means, under its name."""
    candidates = {found.box: names.get(found.box), **frames}
    for name, frame in candidates.items():
        if isinstance(frame, pd.DataFrame) and found.column in frame.columns:
            series = frame[found.column]
            if isinstance(series, pd.Series):
                return f"{name}['{found.column}']", series
    return None


def nearest(text: str, known: list[str]) -> list[str]:
    """Up to three of ``known`` nearest to ``text``.

    In this order: equal but for case and space; containing it or contained in it; what it abbreviates or is
    abbreviated by; alike in spelling.
    """
    folded = text.strip().casefold()
    same = [k for k in known if k.strip().casefold() == folded]
    inside = [k for k in known
              if folded and (folded in k.casefold() or (len(k) > 2 and k.casefold() in folded))]
    short = [k for k in known if _abbreviates(folded, k.casefold()) or _abbreviates(k.casefold(), folded)]
    alike = difflib.get_close_matches(text, known[:MOST_VALUES], n=3, cutoff=0.5)
    return list(dict.fromkeys([*same, *sorted(inside, key=len)[:3], *short, *alike]))[:3]


def _abbreviates(short: str, long: str) -> bool:
    """Whether ``short`` is the initials of ``long``, give or take a last letter: USA, United States."""
    initials = "".join(word[0] for word in long.split())
    letters = short.replace(".", "")
    return 1 < len(initials) <= len(letters) <= len(initials) + 1 and letters.startswith(initials)


def _matches(series: pd.Series[Any], found: Filter) -> int:
    value = found.value
    match found.operator:
        case "==" | "in":
            return int((series == value).sum())
        case "<":
            return int((series < value).sum())
        case "<=":
            return int((series <= value).sum())
        case ">":
            return int((series > value).sum())
        case ">=":
            return int((series >= value).sum())
        case "starts with":
            return int(series.str.startswith(str(value)).fillna(False).sum())
        case "ends with":
            return int(series.str.endswith(str(value)).fillna(False).sum())
    return int(series.str.contains(str(value)).fillna(False).sum())


def _describe(name: str, series: pd.Series[Any], found: Filter) -> tuple[str, bool]:
    """``(what is known about the filter, whether any row passes it)``."""
    spelled = f"{name} {found.operator} {found.value!r}"
    is_text = pd.api.types.is_string_dtype(series.dtype) or series.dtype == object
    if isinstance(found.value, (int, float)) and is_text:
        return f"{spelled}: the column is text ({series.dtype}), compare with {str(found.value)!r}", False
    if isinstance(found.value, str) and pd.api.types.is_numeric_dtype(series.dtype):
        return f"{spelled}: the column is {series.dtype}, compare with a number", False
    rows = _matches(series, found)
    if rows:
        return f"{spelled}: {rows} rows", True
    known = series.dropna()
    if is_text and isinstance(found.value, str):
        near = nearest(found.value, [str(v) for v in known.unique()[:20_000]])
        word, shown = ("nearest", near) if near else ("values are", [str(v) for v in known.unique()[:3]])
        return f"{spelled}: no such value, {word} {', '.join(repr(v[:80]) for v in shown)}", False
    if len(known):
        return f"{spelled}: no row, values lie between {known.min()} and {known.max()}", False
    return f"{spelled}: the column is empty", False


def for_empty(code: str, names: dict[str, Any], frames: dict[str, pd.DataFrame]) -> str:
    """One line on the filters of ``code``, or an empty string."""
    told: dict[str, bool] = {}
    for found in filters(code, names):
        where = _series(found, names, frames)
        if where is None:
            continue
        with np.errstate(all="ignore"):
            text, passes = _describe(*where, found)
        told[text] = passes
        if len(told) == MOST_FILTERS:
            break
    if not told:
        return ""
    together = " (each value occurs, but no row meets all conditions)" if all(told.values()) else ""
    return f"filters: {'; '.join(told)}{together}"
