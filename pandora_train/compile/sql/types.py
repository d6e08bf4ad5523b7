"""SQLite's rules on text and numbers: what arithmetic reads in text, what a comparison converts."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Literal

import pandas as pd

from pandora_train.compile.sql.scope import Kind, SqlValue
from pandora_train.compile.writer import Unsupported

_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_PREFIX = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
LEADING = r"^\s*([-+]?\d+\.?\d*)"
"""The number that text starts with, as generated code extracts it."""


def text(content: str) -> SqlValue:
    """A string constant."""
    return SqlValue(repr(content), "text", repr(content), scalar=True, literal=content)


def number(digits: str) -> SqlValue:
    """A numeric constant as written."""
    if re.fullmatch(r"-?\d+", digits):
        whole = int(digits)
        return SqlValue(str(whole), "int", str(whole), scalar=True, literal=whole)
    try:
        real = float(digits)
    except ValueError:  # the parser takes ``1e9.`` for a number
        raise Unsupported("number", digits) from None
    if math.isinf(real):  # no literal of Python
        raise Unsupported("number", digits)
    return SqlValue(repr(real), "float", repr(real), scalar=True, literal=real)


def is_number(content: str) -> bool:
    """Whether SQLite's numeric affinity turns this text into a number."""
    return _NUMBER.fullmatch(content) is not None


def shape(series: pd.Series | None) -> Literal["whole", "numbers", "words", "leading"]:
    """What a text column holds: integers, numbers, words (or full numbers), words that start as numbers."""
    if series is None:
        return "leading"
    cells = {v for v in series.dropna().unique() if isinstance(v, str)}
    if cells and all(re.fullmatch(r"\s*[-+]?\d+\s*", c) for c in cells):
        return "whole"
    if cells and all(map(is_number, cells)):
        return "numbers"
    return "leading" if any(_PREFIX.match(c) and not is_number(c) for c in cells) else "words"


def as_number(part: SqlValue) -> SqlValue:
    """SQLite's reading of an operand of arithmetic, SUM or AVG: the number that text starts with, else 0."""
    if part.numeric:
        return part
    if isinstance(part.literal, str):
        digits = _PREFIX.match(part.literal)
        return number(digits.group().strip().lstrip("+")) if digits else number("0")
    if part.scalar:
        raise Unsupported("arithmetic on text", part.english)
    series = part.column.series if part.column else None
    held = shape(series) if part.kind == "text" else "words"
    if held in ("whole", "numbers"):
        kind: Kind = "int" if held == "whole" else "float"
        return replace(part, code=f"pd.to_numeric({part.code})", kind=kind, tight=True, column=None)
    if held == "words":
        code = f"pd.to_numeric({part.code}, errors='coerce').fillna(0)"
    else:
        code = f"{part.operand}.str.extract(r'{LEADING}')[0].astype(float).fillna(0)"
    if part.nullable:
        code += f".where({part.operand}.notna())"
    return replace(part, code=code, kind="float", tight=True, column=None)


def as_text(part: SqlValue) -> SqlValue:
    """A value where text is wanted: numbers are written out."""
    if part.kind == "text":
        return part
    if part.literal is not None:
        return text(str(part.literal))
    if part.kind == "mixed" and part.nullable:
        raise Unsupported("text of a mixed column", part.english)
    code = f"str({part.code})" if part.scalar else f"{part.operand}.astype(str)"
    return replace(part, code=code, kind="text", affinity=False, tight=True, column=None)


def numbers_only(part: SqlValue) -> SqlValue:
    """Text read as numbers where it is one, missing where it is not (then it equals no number)."""
    if part.numeric:
        return part
    if isinstance(part.literal, str):
        return number(part.literal.strip()) if is_number(part.literal) else part
    return replace(part, code=f"pd.to_numeric({part.code}, errors='coerce')", kind="float", nullable=True,
                   english=f"{part.english} as a number", tight=True, column=None)


def same_type(left: SqlValue, right: SqlValue, symbol: str) -> tuple[SqlValue, SqlValue]:
    """Apply SQLite's column affinity before ``left symbol right``: text meets text, numbers meet numbers.

    A mixed column stays as it is for ``==`` and ``!=``; its numbers alone are compared otherwise.
    """
    if "mixed" in (left.kind, right.kind):
        return _mixed(left, right, symbol)
    if left.kind == right.kind or (left.numeric and right.numeric):
        return left, right
    if left.kind == "text":
        converted = _text_with_number(left, right)
    else:
        b, a = _text_with_number(right, left)
        converted = (a, b)
    if (converted[0].kind == "text") == (converted[1].kind == "text"):
        return converted
    if symbol in ("==", "!=") and not (left.scalar and right.scalar):
        return left, right  # text that is no number equals no number, in pandas too
    raise Unsupported("text compared with numbers", f"{left.code} {symbol} {right.code}")


def _text_with_number(words: SqlValue, figure: SqlValue) -> tuple[SqlValue, SqlValue]:
    if figure.affinity:  # numeric affinity wins
        return numbers_only(words), figure
    if words.affinity:
        if figure.literal is not None:
            return words, replace(text(str(figure.literal)), english=figure.english)
        if figure.scalar:
            return words, replace(figure, code=f"str({figure.code})", kind="text", tight=True)
        return words, replace(figure, code=f"{figure.operand}.astype(str)", kind="text", tight=True)
    return words, figure


def _mixed(left: SqlValue, right: SqlValue, symbol: str) -> tuple[SqlValue, SqlValue]:
    def literal(part: SqlValue) -> SqlValue:
        return numbers_only(part) if isinstance(part.literal, str) else part

    left, right = literal(left), literal(right)
    if symbol in ("==", "!="):
        return left, right
    if "text" in (left.kind, right.kind):
        raise Unsupported("text compared with numbers", f"{left.code} {symbol} {right.code}")
    return numbers_only(left), numbers_only(right)
