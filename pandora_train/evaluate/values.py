"""Whether two answers hold the same values in another form. For the error analysis; scores never use it."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Sequence

AnswerRows = Sequence[Sequence[str | None]]
MOST = 2000
"""Tables with more cells are not compared column by column."""


def number(text: str) -> float | None:
    """The number that a cell writes, with its thousands separators, currency and per cent signs dropped."""
    plain = re.sub(r"[,\s$€£%]", "", text)
    try:
        value = float(plain)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def plain(text: str | None) -> str:
    """A cell without case, outer quotes, midnight times and number spelling."""
    if text is None:
        return ""
    value = number(text)
    if value is not None:
        return f"{value:.10g}"
    bare = re.sub(r"[T ]00:00:00(\.0+)?$", "", text.strip().strip("'\"").strip())
    return re.sub(r"\s+", " ", bare).lower().removesuffix(".")


def compare_values(gold: AnswerRows, answer: AnswerRows) -> str:
    """How ``answer`` holds gold's values in another form; empty when it does not.

    The first word names the form: ``spelling``, ``shape``, ``extra columns``, ``list as text``, ``rounded``,
    ``with a unit``; or ``repeated`` when only the multiplicity of rows differs.
    """
    if not gold or not answer or not any(c for row in gold for c in row):
        return ""
    wanted, given = _cells(gold), _cells(answer)
    if Counter(wanted) == Counter(given):
        if Counter(map(_row, gold)) == Counter(map(_row, answer)):
            return "spelling: the same cells, written differently"
        return "shape: the same cells in other rows and columns"
    if {_row(r) for r in gold} == {_row(r) for r in answer}:
        return f"repeated: {len(answer)} rows where gold has {len(gold)}"
    return _columns(gold, answer) or _listed(wanted, answer) or _single(wanted, given)


def _row(row: Sequence[str | None]) -> tuple[str, ...]:
    return tuple(sorted(plain(c) for c in row))


def _cells(table: AnswerRows) -> list[str]:
    return [plain(c) for row in table for c in row]


def _columns(gold: AnswerRows, answer: AnswerRows) -> str:
    """Gold's columns stand among more columns of the answer."""
    width = max(len(r) for r in answer)
    if not (len(gold) == len(answer) and len(gold[0]) < width) or len(answer) * width > MOST:
        return ""
    unmatched = [Counter(plain(r[i]) if i < len(r) else "" for r in answer) for i in range(width)]
    for i in range(len(gold[0])):
        column = Counter(plain(r[i]) if i < len(r) else "" for r in gold)
        if column not in unmatched:
            return ""
        unmatched.remove(column)
    return f"extra columns: {width} where gold has {len(gold[0])}"


def _listed(wanted: list[str], answer: AnswerRows) -> str:
    """One cell holds what gold has in several, as a printed list or joined by commas."""
    cells = [c for row in answer for c in row if c]
    if len(cells) != 1:
        return ""
    printed = re.search(r"\[.*\]", cells[0], re.DOTALL)  # arrays print with words around, or without commas
    text = re.sub(r"(?<=['\"])\s+(?=['\"])", ", ", printed[0]) if printed else cells[0]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    items = list(value) if isinstance(value, list | tuple | set) else cells[0].split(",")
    flat = [plain(str(i)) for item in items for i in (item if isinstance(item, list | tuple) else [item])]
    joined = len(flat) > 1 or isinstance(value, list | tuple | set)
    return "list as text: one cell holds all values" if joined and Counter(flat) == Counter(wanted) else ""


def _single(wanted: list[str], given: list[str]) -> str:
    """One value each: rounded, or with a unit or explanation around it."""
    if len(wanted) != 1 or len(given) != 1 or not wanted[0] or not given[0]:
        return ""
    gold, answer = wanted[0], given[0]
    a, b = number(gold), number(answer)
    if a is not None and b is not None:
        digits = len(answer.partition(".")[2])
        rounded = a != b and round(a, digits) == b and ("." in answer or abs(a) >= 10)
        return f"rounded: {answer} for {gold}" if rounded else ""
    for short, long in ((gold, answer), (answer, gold)):
        rest = re.sub(rf"(?<!\w){re.escape(short)}(?!\w)", "", long, count=1)
        if rest != long and not re.search(r"\d", rest) and len(rest.split()) <= 6:
            return f"with a unit: '{answer}' for '{gold}'"
    return ""
