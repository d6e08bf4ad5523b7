"""One SELECT as a chain of steps: from, where, group, having, order, limit, projection."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from pandora_train.compile.sql.aggregates import WIDTH, assigned, extreme_row, group, own_nodes
from pandora_train.compile.sql.conditions import combine
from pandora_train.compile.sql.joins import conjuncts, from_clause
from pandora_train.compile.sql.scope import (
    Context,
    Frame,
    FrameColumn,
    QueryScope,
    Relation,
    SqlValue,
    quoted,
    signature,
)
from pandora_train.compile.sql.types import numbers_only
from pandora_train.compile.sql.values import value
from pandora_train.compile.writer import Unsupported

_NOTHING = Frame("", ())
"""What a SELECT without FROM looks at."""


def compile_select(context: Context, select: exp.Select, outer: QueryScope | None) -> Relation:
    """Write the steps of ``select``; the projection itself is left to the caller."""
    if not select.expressions:
        raise Unsupported("SELECT of nothing", select.sql())
    if not select.args.get("from_") and not select.args.get("where"):
        return _whole(QueryScope(context, _NOTHING, _NOTHING, outer=outer), select, list(select.expressions))
    joined = from_clause(context, select, outer)
    scope = QueryScope(context, joined.frame, joined.frame, outer=outer, aliases=_aliases(select))
    scope = _filter(scope, list(joined.conditions), "filtered")
    parts = _outputs(scope, select)
    order = order_by(select, parts)
    having = select.args.get("having")
    needed = [*parts, *([having.this] if having else []), *(o.this for o in order)]
    keys = select.args.get("group")
    if keys:
        by = [_position(k, parts) for k in keys.expressions]
        scope = group(scope, by, needed)
    elif any(own_nodes(p, exp.AggFunc) for p in needed):
        aggregates = [n for p in needed for n in own_nodes(p, exp.AggFunc)]
        extremes = [n for n in aggregates if isinstance(n, (exp.Min, exp.Max))]
        if not any(_bare(p) for p in needed) or not extremes:
            return _whole(scope, select, parts)
        if having or len({signature(scope, n) for n in aggregates}) != 1:
            raise Unsupported("bare column beside several aggregates", select.sql())
        scope = extreme_row(scope, extremes[0])
    if having:
        scope = _filter(scope, conjuncts(having.this), "kept")
    return finish(scope, select, parts, order, bool(select.args.get("distinct")))


def _aliases(select: exp.Select) -> dict[str, exp.Expression]:
    return {e.alias.lower(): e.this for e in select.expressions if isinstance(e, exp.Alias)}


def _outputs(scope: QueryScope, select: exp.Select) -> list[exp.Expression]:
    """The select list with stars written out."""
    outputs: list[exp.Expression] = []
    for node in select.expressions:
        if not node.is_star or isinstance(node, exp.Count):
            outputs.append(node)
            continue
        wanted = node.table.lower() if isinstance(node, exp.Column) else ""
        for table in scope.frame.tables:
            if wanted in ("", table.alias):
                seen: set[str] = set()
                for name, column in table.columns.items():
                    if column.name not in seen:
                        seen.add(column.name)
                        outputs.append(exp.column(name, table.alias, quoted=True))
    return outputs


def _position(key: exp.Expression, parts: list[exp.Expression]) -> exp.Expression:
    """GROUP BY 1 and ORDER BY 1 mean an output column."""
    if isinstance(key, exp.Literal) and not key.is_string and key.this.isdigit():
        index = int(key.this)
        if not 1 <= index <= len(parts):
            raise Unsupported("position out of range", key.sql())
        return parts[index - 1].unalias()
    return key


def order_by(query: exp.Query, parts: list[exp.Expression]) -> list[exp.Ordered]:
    """The ORDER BY terms; a number means an output column."""
    order = query.args.get("order")
    return [exp.Ordered(this=_position(o.this, parts).copy(), desc=o.args.get("desc"))
            for o in (order.expressions if order else [])]


# --- where and having ---------------------------------------------------------------------------------


def _filter(scope: QueryScope, conditions: list[exp.Expression], base: str) -> QueryScope:
    """Keep the rows where all ``conditions`` hold: in one line, or one line a condition when long."""
    if not conditions:
        return scope
    masks = [scope.context.condition(scope, c) for c in conditions]
    writer, frame = scope.context.writer, scope.frame
    var = writer.name(base)
    mask = combine(masks, True)
    line = f"{var} = {frame.var}[{mask.code}]"
    if mask.scalar:
        line = f"{var} = {frame.var} if {mask.code} else {frame.var}.head(0)"
    words = f"{_rows_of(scope)} where {mask.english}"
    if len(line) <= WIDTH or len(masks) == 1:
        writer.step(f"Keep {words}.", line)
    else:
        first, *rest = [m.operand for m in masks]
        lines = [f"    {first}", *(f"    & {m}" for m in rest)]
        writer.step(f"Keep {words}.", f"{var} = {frame.var}[", *lines, "]")
    return scope.over(frame.named(var, may_be_empty=True))


def _rows_of(scope: QueryScope) -> str:
    frame = scope.frame
    titles = [t.title for t in frame.tables if t.alias]
    if scope.mode == "groups":
        return "the groups"
    if titles == [frame.var]:
        return f"the rows of {frame.var}"
    return "the joined rows" if len(titles) > 1 else "the rows"


# --- one row over everything --------------------------------------------------------------------------


def _whole(scope: QueryScope, select: exp.Select, parts: list[exp.Expression]) -> Relation:
    """Aggregates without GROUP BY: one row. ORDER BY has nothing to sort and LIMIT nothing to cut."""
    if _count(select, "limit") == 0 or _count(select, "offset"):
        raise Unsupported("LIMIT on one row", select.sql())
    whole = replace(scope, mode="whole")
    scalars = tuple(value(whole, p) for p in parts)
    having = select.args.get("having")
    provided = scope.context.condition(whole, having.this).code if having else ""
    return Relation(scope.frame, names=_names(parts), scalars=scalars, single_row=True, provided=provided)


def _bare(node: exp.Expression) -> bool:
    """Whether a column occurs outside aggregates and nested queries."""
    if isinstance(node, (exp.AggFunc, exp.Query)):
        return False
    return isinstance(node, exp.Column) or any(_bare(child) for child in node.iter_expressions())


def _names(parts: list[exp.Expression]) -> tuple[str, ...]:
    return tuple((p.alias_or_name or p.sql()).lower() for p in parts)


# --- order, limit, projection -------------------------------------------------------------------------


@dataclass(frozen=True)
class SortKey:
    """One sort key."""

    column: FrameColumn
    english: str
    descending: bool
    missing_first: bool | None
    """Where missing cells go; ``None`` when there are none."""


def finish(scope: QueryScope, query: exp.Query, parts: list[exp.Expression], order: list[exp.Ordered],
           distinct: bool) -> Relation:
    """Write ORDER BY and LIMIT; the projection to ``parts`` and DISTINCT are left to the reader."""
    columns, scope = _columns(scope, parts)
    keys, scope = _sort_keys(scope, order)
    writer = scope.context.writer
    limit, offset = _count(query, "limit"), _count(query, "offset") or 0
    frame, names = scope.frame, _names(parts)
    sort = _sort_code(keys)
    cut = _cut_code(limit, offset)
    sentence = f"Sort {_rows_of(scope)} by {_sort_words(keys)}" if sort else f"Of {_rows_of(scope)}"
    words = _cut_words(limit, offset)
    if not sort:
        words = words.replace(", and take", ", take")
    if distinct:
        if sort:
            var = writer.name("ordered")
            writer.step(f"{sentence}.", f"{var} = {frame.var}{sort}")
            frame = frame.named(var)
        return Relation(frame, tuple(columns), names, (), True, cut, words, limit == 1)
    if sort or cut:
        var = writer.name("top" if cut and sort else "ordered" if sort else "first")
        writer.step(f"{sentence}{words}.", f"{var} = {frame.var}{sort}{cut}")
        frame = frame.named(var)
    return Relation(frame, tuple(columns), names, single_row=limit == 1)


def _sort_keys(scope: QueryScope, order: list[exp.Ordered]) -> tuple[list[SortKey], QueryScope]:
    keys: list[SortKey] = []
    for node in order:
        target = node.this
        if isinstance(target, exp.Column) and not target.table and target.name.lower() in scope.aliases:
            target = scope.aliases[target.name.lower()]
        part = value(scope, target)
        if part.scalar:
            continue
        if part.column is None:
            part, scope = assigned(scope, part, "sort_key", target)
        down = bool(node.args.get("desc"))
        missing_first = not down if part.nullable else None  # NULL is the smallest
        if part.kind == "mixed":
            if part.nullable:
                raise Unsupported("sorting text, numbers and NULLs", node.sql())
            part, scope = assigned(scope, numbers_only(part), f"{part.english}_number")
            missing_first = down  # text, missing here, is the largest
        assert part.column is not None
        if part.column.name not in [k.column.name for k in keys]:
            keys.append(SortKey(part.column, part.column.name, down, missing_first))
    return keys, scope


def _sort_code(keys: list[SortKey]) -> str:
    """``sort_values``; SQLite puts NULL before everything, pandas puts it last.

    Keys whose missing cells go to different ends need sorts of their own: the last keys first, then stably.
    """
    runs: list[list[SortKey]] = []
    for key in keys:
        places = {k.missing_first for k in (runs[-1] if runs else [])} | {key.missing_first}
        if runs and not {True, False} <= places:
            runs[-1].append(key)
        else:
            runs.append([key])
    return "".join(_sort_run(run, stable=i > 0) for i, run in enumerate(reversed(runs)))


def _sort_run(keys: list[SortKey], stable: bool) -> str:
    arguments = [quoted([k.column.name for k in keys])]
    down = [k.descending for k in keys]
    if any(down):
        arguments.append("ascending=False" if all(down) else f"ascending={[not d for d in down]}")
    if any(k.missing_first for k in keys):
        arguments.append("na_position='first'")
    if stable:
        arguments.append("kind='stable'")
    return f".sort_values({', '.join(arguments)})"


def _sort_words(keys: list[SortKey]) -> str:
    words = []
    for key in keys:
        if key.column.kind == "text":
            words.append(f"{key.english}{', in descending order' if key.descending else ''}")
        else:
            words.append(f"{key.english}, {'largest' if key.descending else 'smallest'} first")
    return ", then by ".join(words)


def _cut_code(limit: int | None, offset: int) -> str:
    if offset:
        return f".iloc[{offset}:{'' if limit is None else offset + limit}]"
    return "" if limit is None else f".head({limit})"


def _cut_words(limit: int | None, offset: int) -> str:
    if limit is None and not offset:
        return ""
    if offset:
        return f", skip {offset}" + (f" and take the next {limit}" if limit is not None else "")
    return ", and take the first" + (f" {limit}" if limit != 1 else "")


def _count(select: exp.Expression, name: str) -> int | None:
    node = select.args.get(name)
    if node is None:
        return None
    number = node.expression
    if isinstance(number, exp.Neg) and name == "limit":
        return None
    if not isinstance(number, exp.Literal) or not number.this.isdigit():
        raise Unsupported("LIMIT that is no number", node.sql())
    return int(number.this)


def _columns(scope: QueryScope, parts: list[exp.Expression]) -> tuple[list[FrameColumn], QueryScope]:
    """The output columns; an expression becomes a column of its own first."""
    columns: list[FrameColumn] = []
    for part in parts:
        output: SqlValue = value(scope, part)
        if output.column is None:
            output, scope = assigned(scope, output, part.alias or "value", part.unalias())
        assert output.column is not None
        columns.append(output.column)
    return columns, scope
