"""Spider: execution accuracy, after the official test-suite evaluator (``exec_eval``, since 2020-11).

Results compare as bags of rows under any permutation of columns; row order counts only when the gold SQL
contains ``order by`` anywhere, as the official script decides it.

Declared deviations from the official script:

* gold keeps its DISTINCT (``--keep_distinct``): pandas code could not be stripped of it;
* our answers are text, so each cell is read by the **gold cell's type**: a number matches a number that is
  equal within relative 1e-9 (two integers: exactly; ``True`` is 1, ``False`` is 0), text matches exactly,
  NULL matches only a missing cell, a blob its UTF-8 text. Typed rows (foreign SQL) are compared typed:
  ``1 == 1.0``, but ``'1' != 1``; the tolerance holds for them too;
* an answer row without cells is no row (``[[]]`` is empty);
* answers to gold whose result hangs on the stored row order are scored tie-aware (:mod:`ties`).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path

from pandora_train.metrics.sqlrun import Cell, Cells

TOLERANCE = 1e-9
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[-+]?[0-9]+)?|[-+]?inf(inity)?", re.IGNORECASE)
_WORDS = {"True": 1, "False": 0}
_Column = tuple[Cell, ...]
_Keys = tuple[Hashable, ...]


def is_ordered(sql: str) -> bool:
    """Whether row order counts: the official test, ``order by`` anywhere in the lower-cased gold SQL."""
    return "order by" in sql.lower()


def ex_match(gold: Cells, rows: Sequence[Sequence[Cell]], ordered: bool, typed: bool = False) -> bool:
    """Whether ``rows`` equal the gold rows under some permutation of columns.

    ``rows`` are text cells as our agent returns them (``None`` for missing), or SQLite's own cells when
    ``typed``. Polynomial unless many columns have equal content in different arrangements.
    """
    width = len(gold[0]) if gold else 0
    answer = shaped(rows, len(gold), width)
    if not answer:
        return answer is not None
    columns = [GoldColumn(column, typed) for column in zip(*gold, strict=True)]
    answers = list(zip(*answer, strict=True))
    candidates = [_candidates(column, answers, ordered) for column in columns]
    if not all(candidates):
        return False
    order = sorted(range(width), key=lambda i: len(candidates[i]))
    start = list(range(len(gold))) if ordered else [0] * len(gold)
    return _assign([columns[i].keys for i in order], [candidates[i] for i in order], 0, set(), start, start)


def shaped(rows: Sequence[Sequence[Cell]], count: int, width: int) -> list[Sequence[Cell]] | None:
    """The rows that hold cells, if they are ``count`` of ``width`` cells; ``None`` if they are not."""
    answer = [row for row in rows if len(row)]
    return answer if len(answer) == count and all(len(row) == width for row in answer) else None


def _candidates(gold: GoldColumn, answers: list[_Column], ordered: bool) -> dict[int, _Keys]:
    """Answer columns that hold what ``gold`` holds, as a bag or in order, each read by its types."""
    matching: dict[int, _Keys] = {}
    bag = Counter(gold.keys)
    for j, column in enumerate(answers):
        read = {cell: gold.read(cell) for cell in set(column)}
        if set(read.values()) != bag.keys():
            continue
        keys = tuple(read[cell] for cell in column)
        if keys == gold.keys or (not ordered and Counter(keys) == bag):
            matching[j] = keys
    return matching


def _assign(gold: list[_Keys], candidates: list[dict[int, _Keys]], i: int, used: set[int],
            left: list[int], right: list[int]) -> bool:
    """Give gold columns ``i``… distinct answer columns such that whole rows agree as bags.

    ``left`` and ``right`` number the partial rows assigned so far; equal partial rows have equal numbers,
    so a partial assignment whose bags differ is left at once.
    """
    if i == len(gold):
        return True
    tried: set[_Keys] = set()
    for j, keys in candidates[i].items():
        if j in used or keys in tried:
            continue
        tried.add(keys)
        numbers: dict[tuple[int, Hashable], int] = {}
        next_left = [numbers.setdefault(pair, len(numbers)) for pair in zip(left, gold[i], strict=True)]
        next_right = [numbers.setdefault(pair, len(numbers)) for pair in zip(right, keys, strict=True)]
        if Counter(next_left) == Counter(next_right) and _assign(gold, candidates, i + 1, used | {j},
                                                                next_left, next_right):
            return True
    return False


class GoldColumn:
    """One gold column: its cells as keys, and how an answer's cell is read beside it.

    Numbers within the tolerance of each other share a key. Where the same number stands in the column
    both as a number and as text, answers given as text can't tell them apart: they share the number's key.
    """

    def __init__(self, column: _Column, typed: bool) -> None:
        self.typed = typed
        self.numbers = sorted({c for c in column if isinstance(c, int | float)})
        self.group = _groups(self.numbers)
        self.keys: _Keys = tuple(self._key(c) for c in column)
        self.texts = {key[1] for key in self.keys if isinstance(key, tuple) and key[0] == "text"}

    def read(self, cell: Cell) -> Hashable:
        """The key of an answer's cell."""
        if self.typed or not isinstance(cell, str):
            return self._key(cell)
        return (None if cell in self.texts else self._number(cell)) or ("text", cell)

    def _key(self, cell: Cell) -> Hashable:
        if cell is None:
            return None
        if isinstance(cell, int | float):
            return self._nearest(cell) or ("other", cell)
        if isinstance(cell, bytes):
            cell = cell.decode("utf-8", "ignore") if not self.typed else repr(cell)
        return (None if self.typed else self._number(cell)) or ("text", cell)

    def _number(self, text: str) -> Hashable:
        value = parse_number(text) if self.numbers else None
        return None if value is None else self._nearest(value)

    def _nearest(self, value: int | float) -> Hashable:
        at = bisect_left(self.numbers, value)
        for i in (at, at - 1):
            if 0 <= i < len(self.numbers) and close(self.numbers[i], value):
                return ("number", self.group[i])
        return None


def _groups(numbers: list[int | float]) -> list[int]:
    """Group number of each of the sorted numbers; neighbours within the tolerance share theirs."""
    groups: list[int] = []
    for i, number in enumerate(numbers):
        same = i > 0 and close(numbers[i - 1], number)
        groups.append(groups[-1] + (0 if same else 1) if groups else 0)
    return groups


def close(a: int | float, b: int | float) -> bool:
    """Equal within relative 1e-9; two integers only when equal."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    try:
        return a == b or math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=0.0)
    except OverflowError:
        return False


def parse_number(text: str) -> int | float | None:
    """A plainly written number (no spaces, separators, underscores or signs of currency), else ``None``."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > 400 or not _NUMBER.fullmatch(text):
        return None
    try:
        return int(text)
    except ValueError:
        return float(text)


def databases(path: str | Path) -> list[Path]:
    """The SQLite files of the test suite: all in the database's folder, the original first."""
    original = Path(path)
    return [original, *sorted(p for p in original.parent.glob("*.sqlite") if p != original)]


def prepare_sql(sql: str) -> str:
    """The official clean-up of SQL text: split comparison signs joined, MySQL's current year as 2020."""
    for split, joined in (("> =", ">="), ("< =", "<="), ("! =", "!=")):
        sql = sql.replace(split, joined)
    return re.sub(r"YEAR\s*\(\s*CURDATE\s*\(\s*\)\s*\)\s*", "2020", sql, flags=re.IGNORECASE).strip()


def as_text(rows: Cells) -> tuple[tuple[str | None, ...], ...]:
    """Typed rows as an answer's text rows: what a perfect answer looks like."""
    return tuple(tuple(_text(cell) for cell in row) for row in rows)


def _text(cell: Cell) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell
    return cell.decode("utf-8", "ignore") if isinstance(cell, bytes) else repr(cell)
