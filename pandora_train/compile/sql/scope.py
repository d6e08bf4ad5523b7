"""What the SQL compiler knows while it writes: BOX columns, the frame at hand, values over it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from typing import Literal
from weakref import WeakKeyDictionary

import pandas as pd
from sqlglot import exp

from pandora_train.box.box import Box, BoxSet
from pandora_train.compile.writer import Unsupported, Writer


class Correlated(Unsupported):
    """A nested query uses a column of the query around it."""


Kind = Literal["int", "float", "text", "mixed"]


@dataclass(frozen=True)
class FrameColumn:
    """A column of a frame in the generated program; ``unique`` holds only in its own BOX."""

    name: str
    kind: Kind
    nullable: bool
    unique: bool = False
    affinity: bool = True
    """SQLite applies a stored column's type to what it is compared with, but not an expression's."""
    series: pd.Series | None = field(default=None, compare=False, repr=False)
    """The stored values, when it is a column of a BOX: some rules depend on what it holds."""


@dataclass(frozen=True)
class ScopeTable:
    """A table in scope under ``alias`` (lower case): column names in lower case to frame columns."""

    alias: str
    title: str
    columns: dict[str, FrameColumn]
    whole: bool = False
    """Whether these are all columns of the frame, in order."""


@dataclass(frozen=True)
class Frame:
    """The DataFrame variable at hand and what its columns mean."""

    var: str
    tables: tuple[ScopeTable, ...]
    may_be_empty: bool = False
    equal: tuple[tuple[str, str], ...] = ()
    """Pairs of columns that an inner join made equal."""
    computed: dict[str, FrameColumn] = field(default_factory=dict)
    """Signature of an SQL expression (an aggregate, a group key) to the column that holds it."""

    def named(self, var: str, may_be_empty: bool | None = None) -> Frame:
        """The same columns under another variable."""
        empty = self.may_be_empty if may_be_empty is None else may_be_empty
        return replace(self, var=var, may_be_empty=empty)

    def names(self) -> set[str]:
        """Names of all columns."""
        columns = {c.name for t in self.tables for c in t.columns.values()}
        return columns | {c.name for c in self.computed.values()}

    def order(self) -> list[str] | None:
        """All columns in order, where that is known: one table as it is stored."""
        if len(self.tables) != 1 or self.computed or not self.tables[0].whole:
            return None
        return list(dict.fromkeys(c.name for c in self.tables[0].columns.values()))

    def find(self, table: str, name: str) -> FrameColumn | None:
        """The column that ``table.name`` (lower case, ``table`` may be empty) means here."""
        for t in self.tables:
            if table in ("", t.alias) and name in t.columns:
                return t.columns[name]
        return None


@dataclass(frozen=True)
class SqlValue:
    """A pandas expression: a Series over the frame at hand, or one Python value (``scalar``)."""

    code: str
    kind: Kind
    english: str
    nullable: bool = False
    scalar: bool = False
    affinity: bool = False
    tight: bool = True
    """Whether the code can be an operand without parentheses."""
    array: str = ""
    """Code of an array with the same values, where that is shorter (to make a column of)."""
    column: FrameColumn | None = None
    """Set when the value is just a column of the frame."""
    literal: str | float | int | None = None
    """Set for a constant."""

    @property
    def operand(self) -> str:
        """The code, in parentheses where an operand needs them."""
        return self.code if self.tight else f"({self.code})"

    @property
    def numeric(self) -> bool:
        return self.kind in ("int", "float")


@dataclass(frozen=True)
class Mask:
    """A condition: code of a boolean Series, true where SQL's condition is true (not NULL, not false)."""

    code: str
    english: str
    tight: bool = False
    scalar: bool = False
    """One truth value for all rows, not a Series."""
    missing: bool = False
    """Whether pandas' mask may hold NA (nullable integers compared); selecting rows takes it as false."""

    @property
    def called(self) -> str:
        """The code, in parentheses where a method call needs them."""
        return self.code if self.tight and not self.code.startswith("~") else f"({self.code})"

    @property
    def filled(self) -> str:
        """The code with NA made false, where a plain boolean is needed."""
        return f"{self.called}.fillna(False)" if self.missing else self.code

    @property
    def number(self) -> str:
        """1 where the condition holds, else 0."""
        return f"{self.filled if self.missing else self.called}.astype(int)"

    @property
    def operand(self) -> str:
        """The code, in parentheses where ``&`` and ``|`` need them."""
        return self.code if self.tight else f"({self.code})"


@dataclass(frozen=True)
class Relation:
    """A compiled query: the columns ``outputs`` of ``frame``, or one row of ``scalars``."""

    frame: Frame
    outputs: tuple[FrameColumn, ...] = ()
    names: tuple[str, ...] = ()
    """Output names as an outer query sees them, in lower case."""
    scalars: tuple[SqlValue, ...] = ()
    distinct: bool = False
    """Duplicate rows of ``outputs`` are still to be dropped."""
    cut: str = ""
    """Code of a LIMIT still to be applied, after ``distinct``."""
    cut_words: str = ""
    single_row: bool = False
    """Whether there is at most one row."""
    provided: str = ""
    """Code of a condition without which the row of ``scalars`` is left out (HAVING without GROUP BY)."""

    @property
    def code(self) -> str:
        """The outputs as a DataFrame, everything applied."""
        names = [c.name for c in self.outputs]
        projection = "" if names == self.frame.order() else f"[{names!r}]"
        return f"{self.frame.var}{projection}{'.drop_duplicates()' if self.distinct else ''}{self.cut}"


@dataclass
class Context:
    """The program being written, and what every part of the compiler needs."""

    writer: Writer
    tables: dict[str, ScopeTable]
    query: Callable[[Context, exp.Expression, QueryScope | None], Relation]
    """Compiles a nested query (set by the entry, so that files import one way)."""
    condition: Callable[[QueryScope, exp.Expression], Mask]
    """Turns a condition into a mask (set by the entry likewise)."""
    views: dict[str, Frame] = field(default_factory=dict)
    """Frames of WITH, by lower-case name."""
    mentions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often ``(alias, column)`` occurs in the query, in lower case."""
    used: set[str] = field(default_factory=set)
    """Lower-case column names that occur anywhere in the query; ``*`` when a star does."""


@dataclass(frozen=True)
class QueryScope:
    """Where names are looked up: the frame, what it was before grouping, the enclosing query."""

    context: Context
    frame: Frame
    base: Frame
    mode: Literal["rows", "groups", "whole"] = "rows"
    """What an aggregate is here: wrong, a column of the grouped frame, or one value over all rows."""
    outer: QueryScope | None = None
    row: str = ""
    """Inside a loop over the rows of the frame: the variable of one row."""
    aliases: dict[str, exp.Expression] = field(default_factory=dict)
    """Output aliases of the select list, in lower case."""

    def over(self, frame: Frame) -> QueryScope:
        """The same scope after a step that keeps the columns."""
        return replace(self, frame=frame, base=frame if self.mode == "rows" else self.base)


_CATALOGS: WeakKeyDictionary[BoxSet, dict[str, ScopeTable]] = WeakKeyDictionary()


def catalog(boxes: BoxSet) -> dict[str, ScopeTable]:
    """Table name (lower case; variable name and original name) to its columns. Computed once a set."""
    if boxes not in _CATALOGS:
        tables: dict[str, ScopeTable] = {}
        for box in boxes:
            table = _table(box)
            tables.setdefault((box.original or box.name).lower(), table)
            tables.setdefault(box.name.lower(), table)
        _CATALOGS[boxes] = tables
    return _CATALOGS[boxes]


def _table(box: Box) -> ScopeTable:
    columns: dict[str, FrameColumn] = {}
    for name in box.frame.columns:
        series = box.frame[name]
        kind = _kind(series)
        nullable = bool(series.isna().any())
        column = FrameColumn(name, kind, nullable, bool(not nullable and series.is_unique), True, series)
        columns.setdefault(box.original_fields.get(name, name).lower(), column)
        columns.setdefault(name.lower(), column)
    return ScopeTable("", box.name, columns, whole=True)


def _kind(series: pd.Series) -> Kind:
    if pd.api.types.is_integer_dtype(series) or pd.api.types.is_bool_dtype(series):
        return "int"
    if pd.api.types.is_float_dtype(series):
        return "float"
    if isinstance(series.dtype, pd.StringDtype):
        return "text"
    return "text" if series.dropna().map(lambda v: isinstance(v, str)).all() else "mixed"


def column_value(frame: Frame, column: FrameColumn) -> SqlValue:
    """The column as a Series."""
    return SqlValue(f"{frame.var}[{column.name!r}]", column.kind, column.name, column.nullable,
                    affinity=column.affinity, column=column)


def resolve(scope: QueryScope, node: exp.Column) -> SqlValue:
    """The column that ``node`` names: a Series here, or one row's cell inside a loop over an outer query.

    Raises :class:`Correlated` when it belongs to an outer query outside a loop, else :class:`Unsupported`.
    """
    table, name = node.table.lower(), node.name.lower()
    column = scope.frame.find(table, name)
    if column is not None:
        return column_value(scope.frame, column)
    outer = scope.outer
    while outer is not None:
        column = outer.frame.find(table, name)
        if column is not None and outer.row:
            return SqlValue(f"{outer.row}[{column.name!r}]", column.kind, f"its {column.name}",
                            column.nullable, scalar=True, affinity=column.affinity)
        if column is not None:
            raise Correlated("correlated subquery", node.sql())
        outer = outer.outer
    raise Unsupported("unknown column", node.sql())


def is_text_literal(scope: QueryScope, node: exp.Expression) -> bool:
    """SQLite reads a double-quoted name that is no column as a string."""
    if not isinstance(node, exp.Column) or node.table or not node.this.args.get("quoted"):
        return False
    seen: QueryScope | None = scope
    while seen is not None:
        if seen.frame.find("", node.name.lower()) or seen.base.find("", node.name.lower()):
            return False
        if node.name.lower() in seen.aliases:
            return False
        seen = seen.outer
    return True


def signature(scope: QueryScope, node: exp.Expression) -> str:
    """Text equal for equal expressions over the same columns, whatever aliases they use."""
    def canonical(part: exp.Expression) -> exp.Expression:
        if isinstance(part, exp.Column) and not isinstance(part.this, exp.Star):
            column = scope.base.find(part.table.lower(), part.name.lower())
            if column is not None:
                return exp.column(column.name, quoted=True)
        return part
    text: str = node.transform(canonical).sql(dialect="sqlite")
    return text


def fresh_column(frame: Frame, base: str, taken: set[str] | None = None) -> str:
    """A column name that the frame does not have yet."""
    names = frame.names() | (taken or set())
    name, n = base, 2
    while name in names:
        name, n = f"{base}_{n}", n + 1
    return name


def named_argument(name: str, code: str) -> str:
    """``name=code``, also for a name that Python's syntax doesn't allow there (``2024``, ``class``)."""
    plain = name.isidentifier() and not iskeyword(name)
    return f"{name}={code}" if plain else f"**{{{name!r}: {code}}}"


def quoted(names: list[str]) -> str:
    """A column or a list of columns as code: ``'a'`` or ``['a', 'b']``."""
    return repr(names[0]) if len(names) == 1 else repr(names)


def listed(parts: list[str], word: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"
