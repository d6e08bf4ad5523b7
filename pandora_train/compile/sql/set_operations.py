"""UNION, INTERSECT and EXCEPT -> concat, membership and merges; NULL equals NULL here."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from pandora_train.compile.sql.joins import derived, settled
from pandora_train.compile.sql.scope import (
    Context,
    Frame,
    FrameColumn,
    QueryScope,
    Relation,
    ScopeTable,
    listed,
)
from pandora_train.compile.sql.select import finish, order_by
from pandora_train.compile.writer import Unsupported


def compile_set(context: Context, node: exp.SetOperation, outer: QueryScope | None) -> Relation:
    """Write both sides, then their combination; ORDER BY and LIMIT apply to the whole."""
    left = _table(context, context.query(context, node.this, outer))
    right = _table(context, context.query(context, node.expression, outer))
    if len(left.outputs) != len(right.outputs):
        raise Unsupported("set operation of different widths", node.sql())
    names = [c.name for c in left.outputs]
    if len(set(names)) != len(names) or len({c.name for c in right.outputs}) != len(names):
        raise Unsupported("set operation with repeated columns", node.sql())
    if isinstance(node, exp.Union):
        frame = _union(context, left, right)
    elif len(names) == 1 and not _needs_merge(left.outputs[0], right.outputs[0]):
        frame = _membership(context, left, right, isinstance(node, exp.Intersect))
    else:
        frame = _merge(context, left, right, isinstance(node, exp.Intersect))
    columns = tuple(_column(a, b, isinstance(node, exp.Union))
                    for a, b in zip(left.outputs, right.outputs, strict=True))
    table = ScopeTable("", frame.var, dict(zip(left.names, columns, strict=True)), frame.order() == names)
    frame = Frame(frame.var, (table,), True)
    distinct = bool(node.args.get("distinct")) or not isinstance(node, exp.Union)
    parts: list[exp.Expression] = [exp.column(n, quoted=True) for n in left.names]
    scope = QueryScope(context, frame, frame, outer=outer)
    return finish(scope, node, parts, order_by(node, parts), distinct)


def _table(context: Context, relation: Relation) -> Relation:
    """A side with columns to combine; a row of scalars becomes a frame, a LIMIT is applied."""
    if relation.scalars:
        frame = derived(context, relation, "row")
        return Relation(frame, tuple(frame.tables[0].columns.values()), tuple(frame.tables[0].columns))
    return settled(context, relation, "part") if relation.cut else relation


def _needs_merge(a: FrameColumn, b: FrameColumn) -> bool:
    """``isin`` does not find NULL among nullable integers."""
    return a.nullable and b.nullable and a.kind == "int"


def _column(a: FrameColumn, b: FrameColumn, union: bool) -> FrameColumn:
    kind = a.kind if a.kind == b.kind else "float" if {a.kind, b.kind} == {"int", "float"} else "mixed"
    nullable = a.nullable or (union and b.nullable)
    return FrameColumn(a.name, kind if union else a.kind, nullable, affinity=a.affinity)


def _words(relation: Relation) -> str:
    return f"the {listed([c.name for c in relation.outputs])} of {relation.frame.var}"


def _like_left(left: Relation, right: Relation) -> str:
    """The right side's columns under the left side's names."""
    plain = replace(right, distinct=False).code
    renamed = {b.name: a.name for a, b in zip(left.outputs, right.outputs, strict=True) if a.name != b.name}
    return f"{plain}.rename(columns={renamed!r})" if renamed else plain


def _union(context: Context, left: Relation, right: Relation) -> Frame:
    for a, b in zip(left.outputs, right.outputs, strict=True):
        if (a.kind == "text") != (b.kind == "text") and (a.nullable or b.nullable):
            raise Unsupported("set operation of text with numbers", f"{a.name}, {b.name}")
    var = context.writer.name("combined")
    first, second = replace(left, distinct=False).code, _like_left(left, right)
    context.writer.step(f"Put {_words(left)} and {_words(right)} together.",
                        f"{var} = pd.concat([{first}, {second}])")
    return Frame(var, (ScopeTable("", var, {c.name: c for c in left.outputs}, True),))


def _membership(context: Context, left: Relation, right: Relation, both: bool) -> Frame:
    var = context.writer.name("common" if both else "remaining")
    (a,), (b,) = left.outputs, right.outputs
    source = left.frame.var
    mask = f"{source}[{a.name!r}].isin({right.frame.var}[{b.name!r}])"
    context.writer.step(f"Keep the rows of {source} whose {a.name} is {'also' if both else 'not'} among "
                        f"{_words(right)}.", f"{var} = {source}[{mask if both else f'~{mask}'}]")
    return left.frame.named(var)


def _merge(context: Context, left: Relation, right: Relation, both: bool) -> Frame:
    for a, b in zip(left.outputs, right.outputs, strict=True):
        if (a.kind == "text") != (b.kind == "text") or "mixed" in (a.kind, b.kind):
            raise Unsupported("set operation of text with numbers", f"{a.name}, {b.name}")
    writer = context.writer
    first, second = replace(left, distinct=False).code, _like_left(left, right)
    columns = {c.name: c for c in left.outputs}
    if both:
        var = writer.name("common")
        writer.step(f"Keep {_words(left)} that are also {_words(right)}.", f"{var} = {first}.merge({second})")
        return Frame(var, (ScopeTable("", var, columns, True),))
    compared, var = writer.name("compared"), writer.name("remaining")
    writer.step(f"Keep {_words(left)} that are not {_words(right)}.",
                f"{compared} = {first}.merge({second}, how='left', indicator=True)",
                f"{var} = {compared}[{compared}['_merge'] == 'left_only']")
    return Frame(var, (ScopeTable("", var, columns),))
