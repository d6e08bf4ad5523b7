"""WikiTableQuestions: denotation accuracy, after the official ``evaluator.py`` v1.0.2.

Both sides become sets of values (number, date or string); the sets must have equal size and each gold
value must match some predicted one. The match is not one-to-one, as in the official script.

Declared deviations: a missing cell of an answer gives no item, and numbers may not contain underscores
(the script was written for Python 2, where ``int("1_000")`` fails).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

TOLERANCE = 1e-6
_UNIFY = ((re.compile("[‘’´`]"), "'"), (re.compile("[“”]"), '"'), (re.compile("[‐‑‒–—−]"), "-"))
_STRIP = (
    (re.compile(r"((?<!^)\[[^\]]*\]|\[\d+\]|[•♦†‡*#+])*$"), ""),  # citations
    (re.compile(r"(?<!^)( \([^)]*\))*$"), ""),  # details in parentheses
    (re.compile(r'^"([^"]*)"$'), r"\1"),  # outer quotes
)


@dataclass(frozen=True)
class Value:
    """One answer item. Sets hold one of each ``key``; ``text`` is the normalised string."""

    text: str
    number: int | float | None = None
    date: tuple[int, int, int] | None = None
    """Year, month, day; -1 where unknown."""

    @property
    def key(self) -> tuple[str, object]:
        """What makes two values one in a set: the amount, the date, or the normalised string."""
        if self.number is not None:
            return ("number", self.number)
        return ("date", self.date) if self.date is not None else ("text", self.text)

    def matches(self, other: Value) -> bool:
        """Equal strings, numbers within 1e-6, or the same date."""
        if self.text == other.text:
            return True
        if self.number is not None:
            return other.number is not None and _near(self.number, other.number)
        return self.date is not None and self.date == other.date


def _near(a: int | float, b: int | float) -> bool:
    try:
        return abs(a - b) < TOLERANCE
    except OverflowError:  # a whole number past the range of floats beside a float
        return False


def normalize(text: str) -> str:
    """The official string normalisation; ``C#`` becomes ``c`` and ``[1]`` the empty string."""
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c) != "Mn")
    for pattern, to in _UNIFY:
        text = pattern.sub(to, text)
    before = None
    while text != before:
        before = text
        for pattern, to in _STRIP:
            text = pattern.sub(to, text.strip())
    if text.endswith("."):
        text = text[:-1]
    return re.sub(r"\s+", " ", text).lower().strip()


def to_value(text: str, canon: str = "") -> Value:
    """Type an item by ``canon`` (the tagged file's form) where there is one, else by its own text."""
    source = canon or text
    number = _number(source)
    if number is None:
        date = _date(source)
        if date is None:
            return Value(normalize(text))
        if date[1:] != (-1, -1):
            return Value(normalize(text), date=date)
        number = date[0]
    # The official script truncates what is nearly whole: 2.9999999 becomes 2, and 3 doesn't match it.
    amount = int(number) if abs(number - round(number)) < TOLERANCE else float(number)
    return Value(normalize(text) if text else str(amount), number=amount)


def _number(text: str) -> int | float | None:
    if "_" in text:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _date(text: str) -> tuple[int, int, int] | None:
    parts = text.lower().split("-")
    if len(parts) != 3 or "_" in text:
        return None
    try:
        year = -1 if parts[0] in ("xx", "xxxx") else int(parts[0])
        month = -1 if parts[1] == "xx" else int(parts[1])
        day = -1 if parts[2] == "xx" else int(parts[2])
    except ValueError:
        return None
    known = year != -1 or month != -1 or day != -1
    in_range = (month == -1 or 1 <= month <= 12) and (day == -1 or 1 <= day <= 31)
    return (year, month, day) if known and in_range else None


def denotation_match(gold: Sequence[str], predicted: Sequence[str], canon: Sequence[str] = ()) -> bool:
    """Whether the predicted items are the gold items; ``canon`` is the tagged form beside each gold item."""
    canons = canon if len(canon) == len(gold) else [""] * len(gold)
    wanted = _unique([to_value(text, form) for text, form in zip(gold, canons, strict=True)])
    answer = _unique([to_value(text) for text in predicted])
    return len(wanted) == len(answer) and all(any(w.matches(f) for f in answer) for w in wanted)


def _unique(values: list[Value]) -> list[Value]:
    unique: dict[tuple[str, object], Value] = {}
    for value in values:
        unique.setdefault(value.key, value)
    return list(unique.values())
