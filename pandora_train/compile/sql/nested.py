"""Queries nested in expressions: one value, a set, EXISTS; correlated ones by grouping or row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from pandora_train.compile.sql.scope import (
    Correlated,
    FrameColumn,
    Kind,
    Mask,
    QueryScope,
    Relation,
    SqlValue,
    column_value,
)
from pandora_train.compile.writer import Unsupported


def scalar(scope: QueryScope, query: exp.Expression) -> SqlValue:
    """A query that stands for one value; a named variable holds it."""
    try:
        relation = _attempt(scope, query)
    except Correlated:
        return _correlated_aggregate(scope, query) or _scalar_per_row(scope, query)
    if len(relation.scalars or relation.outputs) != 1:
        raise Unsupported("subquery of several columns", query.sql())
    if relation.provided:
        raise Unsupported("HAVING without GROUP BY in a subquery", query.sql())
    if relation.scalars:
        return hold(scope, relation.scalars[0])
    writer, column = scope.context.writer, relation.outputs[0]
    name = writer.name(column.name)
    writer.step(f"Take its {column.name} as {name}.", f"{name} = {_first(relation)}")
    nullable = column.nullable or relation.frame.may_be_empty
    return SqlValue(name, column.kind, name, nullable, scalar=True, affinity=column.affinity)


def hold(scope: QueryScope, part: SqlValue) -> SqlValue:
    """Write a value over all rows into a named variable."""
    writer = scope.context.writer
    name = writer.name(_variable(part))
    writer.step(f"Find {part.english}, {name}.", f"{name} = {part.code}")
    return replace(part, code=name, english=name, tight=True, column=None)


def _variable(part: SqlValue) -> str:
    words = {"average": "average", "largest": "max", "smallest": "min", "total": "total"}
    parts = part.english.split()
    if parts[:1] == ["the"] and len(parts) == 3 and parts[1] in words:
        return f"{words[parts[1]]}_{parts[2]}"
    return "count" if "number" in parts else "value"


def _first(relation: Relation) -> str:
    """The first row's cell; NaN when there may be no row."""
    series = f"{relation.frame.var}[{relation.outputs[0].name!r}]{relation.cut}"
    return f"{series}.head(1).max()" if relation.frame.may_be_empty else f"{series}.iloc[0]"


def in_set(scope: QueryScope, subject: SqlValue, query: exp.Expression,
           positive: bool) -> tuple[Relation | None, Mask]:
    """The relation to be in, or, for a correlated query, the finished mask."""
    try:
        return _attempt(scope, query), Mask("", "")
    except Correlated:
        pass
    if subject.column is None:
        raise Unsupported("correlated IN over an expression", query.sql())
    row_column = subject.column

    def cell(row: str, relation: Relation) -> str:
        if relation.scalars or len(relation.outputs) != 1:
            raise Unsupported("correlated IN over an aggregate", query.sql())
        values = f"{relation.frame.var}[{relation.outputs[0].name!r}]{relation.cut}"
        inside = f"{row}[{row_column.name!r}] in {values}.tolist()"
        if relation.outputs[0].nullable or row_column.nullable:
            raise Unsupported("correlated IN with NULL", query.sql())
        return inside if positive else inside.replace(" in ", " not in ", 1)

    code = _per_row(scope, query, cell)
    return None, Mask(code, f"the {row_column.name} is {'' if positive else 'not '}among these")


def exists(scope: QueryScope, query: exp.Expression, positive: bool) -> Mask:
    """EXISTS: a semi-join on the one equality that correlates it, else row by row."""
    semi_join = _exists_by_key(scope, query, positive)
    if semi_join is not None:
        return semi_join

    def cell(row: str, relation: Relation) -> str:
        if relation.scalars:
            raise Unsupported("EXISTS over an aggregate", query.sql())
        return f"len({relation.frame.var}) {'>' if positive else '=='} 0"

    try:
        relation = _attempt(scope, query)
    except Correlated:
        code = _per_row(scope, query, cell)
        return Mask(code, f"there are {'' if positive else 'no '}such rows", tight=True)
    raise Unsupported("EXISTS that is not correlated", relation.frame.var)


# --- correlated by one equality: group or semi-join ---------------------------------------------------


def _equality(scope: QueryScope, query: exp.Expression) -> tuple[exp.Select, exp.Column, FrameColumn] | None:
    """Split ``inner = outer`` off a query's WHERE, if that is all that correlates it.

    Returns the rest of the query, the inner column and the outer frame's column.
    """
    select = query.unnest()
    if not isinstance(select, exp.Select) or not select.args.get("where") or select.args.get("limit"):
        return None
    where = select.args["where"].this
    parts = list(where.flatten()) if isinstance(where, exp.And) else [where]
    tables = {t.alias_or_name.lower() for t in select.find_all(exp.Table)}
    for part in parts:
        if not isinstance(part, exp.EQ):
            continue
        for inner, outer in ((part.this, part.expression), (part.expression, part.this)):
            if not isinstance(inner, exp.Column) or not isinstance(outer, exp.Column) or not outer.table:
                continue
            column = scope.frame.find(outer.table.lower(), outer.name.lower())
            if outer.table.lower() in tables or column is None or inner.table.lower() not in {"", *tables}:
                continue
            rest = select.copy()
            others = [p.copy() for p in parts if p is not part]
            rest.set("where", exp.Where(this=exp.and_(*others)) if others else None)
            return rest, inner, column
    return None


def _exists_by_key(scope: QueryScope, query: exp.Expression, positive: bool) -> Mask | None:
    split = _equality(scope, query)
    if split is None or split[0].args.get("group") or split[0].args.get("having"):
        return None
    rest, inner, outer = split
    rest.set("expressions", [inner.copy()])
    before = scope.context.writer.mark()
    try:
        relation = _attempt(scope, rest)
    except Correlated:
        return None
    column = relation.outputs[0]
    if (column.kind == "text") != (outer.kind == "text"):
        scope.context.writer.take_back(before)
        return None
    values = f"{relation.frame.var}[{column.name!r}]"
    if column.nullable and outer.nullable:
        values += ".dropna()"
    subject = column_value(scope.frame, outer)
    code = f"{'' if positive else '~'}{subject.code}.isin({values})"
    return Mask(code, f"{outer.name} is {'' if positive else 'not '}among the {column.name} of "
                f"{relation.frame.var}", tight=True)


def _correlated_aggregate(scope: QueryScope, query: exp.Expression) -> SqlValue | None:
    """``(SELECT avg(x) FROM t WHERE t.key = outer.key)``: group once, then look each row's key up."""
    split = _equality(scope, query)
    if split is None:
        return None
    rest, inner, outer = split
    target = rest.expressions[0].unalias() if len(rest.expressions) == 1 else None
    if not isinstance(target, exp.AggFunc) or rest.args.get("group") or rest.args.get("order"):
        return None
    rest.set("expressions", [inner.copy(), target.copy()])
    rest.set("group", exp.Group(expressions=[inner.copy()]))
    before = scope.context.writer.mark()
    try:
        relation = _attempt(scope, rest)
    except Correlated:
        return None
    key, aggregate = relation.outputs
    if (key.kind == "text") != (outer.kind == "text") or (key.nullable and outer.nullable):
        scope.context.writer.take_back(before)
        return None
    subject = column_value(scope.frame, outer)
    code = f"{subject.code}.map({relation.frame.var}.set_index({key.name!r})[{aggregate.name!r}])"
    counts = isinstance(target, exp.Count)
    code += ".fillna(0)" if counts else ""
    return SqlValue(code, aggregate.kind, f"the {aggregate.name} of its {outer.name}", not counts)


# --- correlated in any other way: row by row ----------------------------------------------------------


def _scalar_per_row(scope: QueryScope, query: exp.Expression) -> SqlValue:
    kinds: list[tuple[Kind, bool]] = []

    def cell(row: str, relation: Relation) -> str:
        if len(relation.scalars or relation.outputs) != 1:
            raise Unsupported("subquery of several columns", query.sql())
        if relation.scalars:
            kinds.append((relation.scalars[0].kind, False))
            return relation.scalars[0].code
        kinds.append((relation.outputs[0].kind, relation.outputs[0].affinity))
        return _first(replace(relation, frame=relation.frame.named(relation.frame.var, True)))

    code = _per_row(scope, query, cell)
    kind, affinity = kinds[0]
    if kind in ("int", "float"):  # one kind of missing value, whatever the loop collects
        code = code.removesuffix(")") + ", dtype='Float64')"
    return SqlValue(code, kind, "that value", True, affinity=affinity)


def _per_row(scope: QueryScope, query: exp.Expression, cell: Callable[[str, Relation], str]) -> str:
    """Write a loop over the rows at hand that collects ``cell`` of the nested query; returns a Series."""
    writer = scope.context.writer
    row, collected = writer.name("row"), writer.name("found")
    start = len(writer.lines)
    writer.step(f"For each row of {scope.frame.var}:")
    relation = scope.context.query(scope.context, query, replace(scope, row=row))
    inner = [*writer.lines[start:], f"{collected}.append({cell(row, relation)})"]
    del writer.lines[start:]
    writer.step("", f"{collected} = []", f"for _, {row} in {scope.frame.var}.iterrows():",
                *(f"    {line}" for line in inner))
    return f"pd.Series({collected}, index={scope.frame.var}.index)"


def _attempt(scope: QueryScope, query: exp.Expression) -> Relation:
    """Compile as if it were not correlated; when it is, what was written is taken back."""
    before = scope.context.writer.mark()
    try:
        return scope.context.query(scope.context, query.unnest(), scope)
    except Correlated:
        scope.context.writer.take_back(before)
        raise
