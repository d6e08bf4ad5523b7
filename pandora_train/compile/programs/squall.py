"""SQUALL's SQL labels over WikiTQ tables become pandas code, through the SQL compiler.

A label is a list of ``[type, value, span]`` tokens over the table ``w``. Its columns are ``c1``, ``c2``, … by
position, with suffixes for other readings of a cell (``c3_number``, ``c2_year``). Source: the format's
description at https://github.com/tzshi/squall.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pandas as pd

from pandora_train.box.box import Box, BoxSet
from pandora_train.compile.sql.query import compile_sql
from pandora_train.compile.writer import Compiled, Unsupported

_COLUMN = re.compile(r"c(\d+)(?:_(\w+))?")


def compile_squall(label: str, boxes: BoxSet) -> Compiled:
    """``label``: the JSON list of tokens. Raises :class:`Unsupported` with a named reason."""
    if len(boxes.boxes) != 1:
        raise Unsupported("not a single table")
    return compile_sql(squall_sql(label, boxes.boxes[0]), boxes)


def squall_sql(label: str, box: Box) -> str:
    """The label as SQL over the BOX's own names."""
    try:
        tokens = json.loads(label)
        return " ".join(_token(str(kind), str(value), box) for kind, value, *_ in tokens)
    except (ValueError, TypeError) as e:
        raise Unsupported("not well-formed", str(e)) from None


def _token(kind: str, value: str, box: Box) -> str:
    match kind:
        case "Column":
            return _column(value, box)
        case "Literal.String":
            return "'" + value.strip("'\"").replace("'", "''") + "'"
        case "Literal.Number":
            return value
        case "Keyword" if value == "w":
            return _quoted(box.name)
        case "Keyword" if _COLUMN.fullmatch(value):
            return _column(value, box)
        case "Keyword" if value in ("id", "agg", "present_ref"):
            raise Unsupported("pseudo-column", value)
        case "Keyword":
            return value
        case _:
            raise Unsupported("not well-formed", kind)


def _column(value: str, box: Box) -> str:
    match = _COLUMN.fullmatch(value)
    if match is None:
        raise Unsupported("pseudo-column", value)
    number, suffix = int(match[1]), match[2]
    if not 1 <= number <= len(box.frame.columns):
        raise Unsupported("unknown column", value)
    column: Any = box.frame.columns[number - 1]
    name = _quoted(str(column))
    if suffix is None or (suffix == "number" and pd.api.types.is_numeric_dtype(box.frame[column])):
        return name
    if suffix == "number":
        return f"CAST(REPLACE({name}, ',', '') AS REAL)"
    raise Unsupported("column suffix", suffix)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
