"""BOX: named DataFrames with fields and foreign keys (paper, definition 1 and section 3)."""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd

_SITE = {"copyright", "credits", "exit", "help", "license", "quit"}  # in builtins only interactively
_NEEDED = {"pd", "np", "result"} | (set(dir(builtins)) - _SITE)


@dataclass(frozen=True)
class ForeignKey:
    """``box.field`` refers to ``to_box.to_field`` (variable and column names of the frames)."""

    box: str
    field: str
    to_box: str
    to_field: str


@dataclass(frozen=True, eq=False)
class Box:
    """One BOX ``(name, fields, values)``.

    ``name`` is a valid Python identifier, the variable that generated code uses; ``original`` the name in
    the source. The fields are the frame's columns: unique strings. Integer columns with missing values
    have dtype ``Int64``, without them ``int64``; text is pandas 3 ``str``.
    """

    name: str
    frame: pd.DataFrame
    original: str = ""
    original_fields: dict[str, str] = field(default_factory=dict)
    """Column to its name in the source, where the two differ."""


@dataclass(frozen=True, eq=False)
class BoxSet:
    """The BOXes that one question is asked over."""

    boxes: tuple[Box, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    notes: tuple[str, ...] = ()
    """What was shortened or renamed on the way, for reports; nothing is dropped in silence."""

    def __iter__(self) -> Iterator[Box]:
        return iter(self.boxes)

    def __getitem__(self, name: str) -> Box:
        return next(b for b in self.boxes if b.name == name)

    def frames(self) -> dict[str, pd.DataFrame]:
        """Variable name to frame, as the sandbox predefines them."""
        return {b.name: b.frame for b in self.boxes}


def identifier(text: str, taken: set[str] | None = None) -> str:
    """A valid, unused Python identifier near ``text``; adds it to ``taken``.

    Word characters of any script stay (in Python's own normal form, NFKC); names that generated code needs
    (``pd``, ``np``, ``result``, keywords, built-ins such as ``list``) get a trailing underscore, repeated
    names a number.
    """
    name = re.sub(r"\W+", "_", unicodedata.normalize("NFKC", text)).strip("_") or "Table"
    if name[0].isdigit() or not name.isidentifier():
        name = "t_" + re.sub(r"[^0-9A-Za-z_]+", "_", name)
    if keyword.iskeyword(name) or name in _NEEDED:
        name += "_"
    taken = set() if taken is None else taken
    base, n = name, 2
    while name in taken:
        name, n = f"{base}_{n}", n + 1
    taken.add(name)
    return name
