"""GROUP BY and aggregates -> groupby steps; columns beside them by SQLite's rules."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sqlglot import exp

from pandora_train.compile.sql.scope import (
    Frame,
    FrameColumn,
    QueryScope,
    ScopeTable,
    SqlValue,
    fresh_column,
    listed,
    named_argument,
    quoted,
    signature,
)
from pandora_train.compile.sql.values import (
    aggregate_english,
    aggregate_kind,
    aggregate_name,
    aggregate_parts,
    joined_text,
    value,
)
from pandora_train.compile.writer import Unsupported

WIDTH = 110
"""Longest generated line before it is broken up."""


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a grouped query and the column that will hold it."""

    signature: str
    method: str
    argument: SqlValue | None
    column: FrameColumn
    joined: str = ""
    """GROUP_CONCAT: the ``join`` of its separator."""


def own_nodes(root: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """Nodes of ``kind`` in ``root`` that do not belong to a query nested in it."""
    if isinstance(root, exp.Query):
        return []
    own = [root] if isinstance(root, kind) else []
    if own and kind is exp.AggFunc:
        return own
    return own + [n for child in root.iter_expressions() for n in own_nodes(child, kind)]


def group(scope: QueryScope, keys: list[exp.Expression], parts: list[exp.Expression]) -> QueryScope:
    """Write the grouping of the frame at hand by ``keys``, with every aggregate that ``parts`` need."""
    key_columns, scope = _key_columns(scope, keys)
    aggregates, scope = _aggregates(scope, parts, [c.name for c in key_columns.values()])
    by = list({c.name: c for c in key_columns.values()}.values())
    extra = _bare_columns(scope, parts, by, set(key_columns))
    determined = _determined(scope.frame, by)
    # A column that a key determines is grouped by as well: one value a group either way, and it stays usable.
    dependent = [c for c in extra if c.name in determined]
    loose = [c for c in extra if c not in dependent]
    by += dependent
    if loose and (extreme := _extreme(aggregates)):
        scope = _sorted_for(scope, extreme)
        if len(aggregates) == 1:  # the row itself holds the extreme: no groupby is needed
            return _extreme_rows(scope, by, loose, extreme, key_columns)
    elif loose and not aggregates:
        return _first_rows(scope, by, key_columns)
    var = _write(scope, by, aggregates, loose)
    return _grouped_scope(scope, var, by, loose, aggregates, key_columns)


def _key_columns(scope: QueryScope, keys: list[exp.Expression]) -> tuple[dict[str, FrameColumn], QueryScope]:
    """Signature of each key to its column; a key that is an expression becomes a column first."""
    columns: dict[str, FrameColumn] = {}
    for key in keys:
        base = key.name if isinstance(key, exp.Column) else "group"
        alias = scope.aliases.get(key.name.lower()) if isinstance(key, exp.Column) and not key.table else None
        if alias is not None and scope.frame.find("", key.name.lower()) is None:
            key = alias.unalias()
        part = value(scope, key)
        if part.scalar:  # a constant makes no groups
            continue
        if part.column is None:
            part, scope = assigned(scope, part, base, key)
        assert part.column is not None
        columns[signature(scope, key)] = part.column
    if not columns:
        raise Unsupported("grouping by a constant", "")
    return columns, scope


def assigned(scope: QueryScope, part: SqlValue, base: str,
             node: exp.Expression | None = None) -> tuple[SqlValue, QueryScope]:
    """Write ``part`` as a new column of the frame at hand; ``node`` will be found there from now on."""
    writer = scope.context.writer
    name = fresh_column(scope.frame, re.sub(r"\W+", "_", base).strip("_") or "value")
    # A BOX keeps its columns (later steps read it again); a frame of our own is extended in place.
    own = scope.frame.var in {t.title for t in scope.context.tables.values()}
    var = writer.name("table") if own else scope.frame.var
    new = named_argument(name, part.array or part.code)
    writer.step(f"Compute {part.english} as {name}.", f"{var} = {scope.frame.var}.assign({new})")
    column = FrameColumn(name, part.kind, part.nullable, affinity=part.affinity)
    tables = tuple(replace(t, whole=False) for t in scope.frame.tables)
    computed = scope.frame.computed | ({signature(scope, node): column} if node is not None else {})
    tables += (ScopeTable("", var, {"": column}),)
    frame = replace(scope.frame, var=var, tables=tables, computed=computed)
    held = replace(part, code=f"{var}[{name!r}]", tight=True, column=column, scalar=False, literal=None)
    return held, scope.over(frame)


def _aggregates(scope: QueryScope, parts: list[exp.Expression],
                taken: list[str]) -> tuple[list[Aggregate], QueryScope]:
    aggregates: list[Aggregate] = []
    for part in parts:
        for node in own_nodes(part, exp.AggFunc):
            assert isinstance(node, exp.AggFunc)
            name = signature(scope, node)
            method, argument = aggregate_parts(scope, node)
            if any(a.signature == name for a in aggregates):
                continue
            if argument is not None and argument.column is None:
                inner = _argument(node)  # text read as a number is not the column itself
                same_value = None if isinstance(inner, exp.Column) else inner
                argument, scope = assigned(scope, argument, "value", same_value)
            # The same aggregate under another spelling (COUNT(*) and COUNT(id)) shares one column.
            same = [a for a in aggregates if (a.method, a.argument) == (method, argument)]
            column = same[0].column if same else _aggregate_column(scope, method, argument, taken, aggregates)
            text = joined_text(node, argument) if method == "join" and argument else ""
            aggregates.append(Aggregate(name, method, argument, column, text))
    return aggregates, scope


def _argument(node: exp.AggFunc) -> exp.Expression:
    inner: exp.Expression = node.this
    return inner.expressions[0] if isinstance(inner, exp.Distinct) else inner


def _aggregate_column(scope: QueryScope, method: str, argument: SqlValue | None, taken: list[str],
                      earlier: list[Aggregate]) -> FrameColumn:
    name = aggregate_name(method, argument)
    names = {*taken, *(a.column.name for a in earlier)}
    base, n = name, 2
    while name in names:
        name, n = f"{base}_{n}", n + 1
    nullable = method not in ("size", "count", "nunique") and argument is not None and argument.nullable
    return FrameColumn(name, aggregate_kind(method, argument), nullable, affinity=False)


def _bare_columns(scope: QueryScope, parts: list[exp.Expression], by: list[FrameColumn],
                  keys: set[str]) -> list[FrameColumn]:
    """Columns used outside aggregates that are no group keys."""
    bare: dict[str, FrameColumn] = {}

    def walk(node: exp.Expression) -> None:
        if isinstance(node, (exp.AggFunc, exp.Query)) or signature(scope, node) in keys:
            return
        if isinstance(node, exp.Column):
            column = scope.base.find(node.table.lower(), node.name.lower())
            if column is not None and column.name not in [c.name for c in by]:
                bare[column.name] = column
        for child in node.iter_expressions():
            walk(child)

    for part in parts:
        walk(part)
    return list(bare.values())


def _determined(frame: Frame, by: list[FrameColumn]) -> set[str]:
    """Columns that the group keys determine: those of a BOX whose row a key identifies."""
    known = {c.name for c in by}
    while True:  # a key determines its row, whose foreign key, joined to another key, determines the next row
        grown = set(known)
        for table in frame.tables:
            columns = table.columns.values()
            if any(c.unique and c.name in known for c in columns):
                grown |= {c.name for c in columns}
        for a, b in frame.equal:
            grown |= {a, b} if {a, b} & grown else set()
        if grown == known:
            return known
        known = grown


# --- columns beside aggregates that no key determines: the row of the one MIN or MAX, else any row ----


def _extreme(aggregates: list[Aggregate]) -> Aggregate | None:
    """The only MIN or MAX: SQLite takes bare columns from its row."""
    extremes = [a for a in aggregates if a.method in ("min", "max")]
    return extremes[0] if len(extremes) == 1 else None


def _sorted_for(scope: QueryScope, extreme: Aggregate) -> QueryScope:
    """Sort so that the row of the extreme comes first in its group."""
    assert extreme.argument is not None
    assert extreme.argument.column is not None
    name, largest = extreme.argument.column.name, extreme.method == "max"
    # Rows that tie for the extreme may come in any order, in SQLite as here.
    var = scope.context.writer.name("ordered")
    sort = f".sort_values({name!r}{', ascending=False' if largest else ''})"
    scope.context.writer.step(f"Sort the rows by {name}, {'largest' if largest else 'smallest'} first.",
                              f"{var} = {scope.frame.var}{sort}")
    return scope.over(scope.frame.named(var))


def _extreme_rows(scope: QueryScope, by: list[FrameColumn], loose: list[FrameColumn], extreme: Aggregate,
                  keys: dict[str, FrameColumn]) -> QueryScope:
    """Keep the first row of each group: it has the extreme and the columns beside it."""
    assert extreme.argument is not None
    assert extreme.argument.column is not None
    # MIN(x) is now the cell x of that row; as an expression it has lost its column's affinity.
    held = replace(extreme, column=replace(extreme.argument.column, affinity=False))
    first = _first_rows(scope, by, keys)
    computed = first.frame.computed | {held.signature: held.column}
    return replace(first, frame=replace(first.frame, computed=computed))


def _first_rows(scope: QueryScope, by: list[FrameColumn], keys: dict[str, FrameColumn]) -> QueryScope:
    names = [c.name for c in by]
    var = scope.context.writer.name("groups")
    scope.context.writer.step(f"Keep the first row of each {listed(names)}.",
                              f"{var} = {scope.frame.var}.drop_duplicates({quoted(names)})")
    frame = replace(scope.frame, var=var, computed=dict(keys))
    return replace(scope, frame=frame, mode="groups")


def extreme_row(scope: QueryScope, node: exp.AggFunc) -> QueryScope:
    """For MIN or MAX beside bare columns without GROUP BY: the one row that has it, in row mode."""
    method, argument = aggregate_parts(scope, node)
    if method not in ("min", "max") or argument is None:
        raise Unsupported("bare column beside an aggregate", node.sql())
    if argument.column is None:
        argument, scope = assigned(scope, argument, "value")
    assert argument.column is not None
    column, largest = argument.column, method == "max"
    var = scope.context.writer.name("top")
    sort = f".sort_values({column.name!r}{', ascending=False' if largest else ''})"
    scope.context.writer.step(f"Take the row with {aggregate_english(method, argument)}.",
                              f"{var} = {scope.frame.var}{sort}.head(1)")
    frame = replace(scope.frame, var=var, computed={signature(scope, node): replace(column, affinity=False)})
    return replace(scope, frame=frame, mode="groups")


# --- writing the groupby ------------------------------------------------------------------------------


def _write(scope: QueryScope, by: list[FrameColumn], aggregates: list[Aggregate],
           loose: list[FrameColumn]) -> str:
    frame, writer = scope.frame, scope.context.writer
    var = writer.name("groups")
    names = [c.name for c in by]
    distinct = list({a.column.name: a for a in aggregates}.values())
    words = f"For each {listed(names)}"
    if not distinct and not loose:  # GROUP BY as DISTINCT; groupby without an aggregate would give nothing
        sentence = f"Take each distinct {listed(names)}."
        writer.step(sentence, f"{var} = {frame.var}[{names!r}].drop_duplicates()")
        return var
    # SQL makes NULL a group of its own, pandas drops it unless told.
    keys = quoted(names) + (", dropna=False" if any(c.nullable for c in by) else "")
    if [a.method for a in distinct] == ["size"] and not loose:
        name = distinct[0].column.name
        writer.step(f"{words}, count the rows.",
                    f"{var} = {frame.var}.groupby({keys}).size().reset_index(name={name!r})")
        return var
    doing = ["count the rows" if a.method == "size" else f"take {aggregate_english(a.method, a.argument)}"
             for a in distinct] + [f"take the first {c.name}" for c in loose]
    named = [_named(a, names[0]) for a in distinct] + [_first(c) for c in loose]
    head, tail = f"{var} = {frame.var}.groupby({keys}).agg(", ").reset_index()"
    line = head + ", ".join(named) + tail
    lines = [line] if len(line) <= WIDTH else [head, *(f"    {n}," for n in named), tail]
    writer.step(f"{words}, {listed(doing)}.", *lines)
    return var


def _named(aggregate: Aggregate, key: str) -> str:
    """One ``name=(column, method)`` of a named aggregation."""
    argument, name = aggregate.argument, aggregate.column.name
    if argument is None:
        return named_argument(name, f"({key!r}, 'size')")
    assert argument.column is not None
    how = repr(aggregate.method)
    if aggregate.method == "join":
        if argument.nullable:
            raise Unsupported("GROUP_CONCAT of NULLs", argument.english)
        how = aggregate.joined
    elif aggregate.method.endswith("_distinct"):
        how = f"lambda cells: cells.drop_duplicates().{aggregate.method.removesuffix('_distinct')}()"
        if argument.nullable:
            raise Unsupported("sum of distinct values with NULL", argument.english)
    elif aggregate.method == "sum" and argument.nullable:
        how = "lambda cells: cells.sum(min_count=1)"  # only NULLs add up to NULL
    return named_argument(name, f"({argument.column.name!r}, {how})")


def _first(column: FrameColumn) -> str:
    how = "lambda cells: cells.iloc[0]" if column.nullable else "'first'"  # 'first' skips NULLs
    return named_argument(column.name, f"({column.name!r}, {how})")


def _grouped_scope(scope: QueryScope, var: str, by: list[FrameColumn], loose: list[FrameColumn],
                   aggregates: list[Aggregate], keys: dict[str, FrameColumn]) -> QueryScope:
    names = {c.name for c in [*by, *loose]}
    tables = tuple(replace(t, columns={k: c for k, c in t.columns.items() if c.name in names})
                   for t in scope.frame.tables)
    computed = {a.signature: a.column for a in aggregates} | keys
    frame = Frame(var, tables, scope.frame.may_be_empty, computed=computed)
    return replace(scope, frame=frame, mode="groups")
