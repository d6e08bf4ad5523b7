"""FROM and JOIN -> merges of BOXes, with the columns of every alias tracked through them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from pandora_train.compile.sql.scope import (
    Context,
    Frame,
    FrameColumn,
    QueryScope,
    Relation,
    ScopeTable,
    fresh_column,
    listed,
    named_argument,
    quoted,
)
from pandora_train.compile.writer import Unsupported


@dataclass(frozen=True)
class Source:
    """One entry of FROM: a frame with a single table, and how it is joined."""

    frame: Frame
    side: str
    on: tuple[exp.Expression, ...]
    natural: bool = False

    @property
    def table(self) -> ScopeTable:
        return self.frame.tables[0]


@dataclass(frozen=True)
class Joined:
    """The frame after FROM and the conditions of ON and WHERE that are still to be applied."""

    frame: Frame
    conditions: tuple[exp.Expression, ...]


def from_clause(context: Context, select: exp.Select, outer: QueryScope | None) -> Joined:
    """Write the merges of ``select``'s FROM; returns what is left of its ON and WHERE conditions."""
    first = select.args.get("from_")
    if first is None:
        raise Unsupported("SELECT without FROM", select.sql())
    sources = [_source(context, first.this, None, outer)]
    sources += [_source(context, j.this, j, outer) for j in select.args.get("joins") or []]
    aliases = [s.table.alias for s in sources]
    if len(set(aliases)) != len(aliases):
        raise Unsupported("one table twice without an alias", select.sql())
    where = select.args.get("where")
    conditions = conjuncts(where.this) if where else []
    if any(s.side for s in sources):
        return _in_order(context, sources, conditions)
    pool = [c for s in sources for c in s.on]
    return _inner(context, sources, pool, conditions)


def conjuncts(node: exp.Expression) -> list[exp.Expression]:
    """The parts of an AND, parentheses around it removed."""
    node = node.unnest()
    return [p for part in node.flatten() for p in conjuncts(part)] if isinstance(node, exp.And) else [node]


def _source(context: Context, node: exp.Expression, join: exp.Join | None,
            outer: QueryScope | None) -> Source:
    side, method = (str(join.args.get(a) or "") if join is not None else "" for a in ("side", "method"))
    if side not in ("", "LEFT", "RIGHT", "FULL") or method not in ("", "NATURAL"):
        raise Unsupported("join", f"{method} {side}")
    on = conjuncts(join.args["on"]) if join is not None and join.args.get("on") else []
    on = [c for c in on if c != exp.true()]  # the parser's way to say that there is no ON
    if isinstance(node, exp.Table):
        name, alias = node.name.lower(), (node.alias or node.name).lower()
        if name in context.views:
            view = context.views[name]
            frame = replace(view, tables=(replace(view.tables[0], alias=alias),))
        elif name in context.tables:
            table = context.tables[name]
            frame = Frame(table.title, (replace(table, alias=alias),))
        else:
            raise Unsupported("unknown table", node.name)
    elif isinstance(node, exp.Subquery):
        frame = derived(context, context.query(context, node.this, outer), node.alias.lower())
    else:
        raise Unsupported("FROM", node.sql())
    if join is not None and join.args.get("using"):
        alias = frame.tables[0].alias
        on += [exp.EQ(this=exp.column(u.name), expression=exp.column(u.name, alias))
               for u in join.args["using"]]
    return Source(frame, side, tuple(on), method == "NATURAL")


def derived(context: Context, relation: Relation, alias: str) -> Frame:
    """A subquery in FROM as a frame with one table."""
    if relation.scalars:
        names = [n or f"value_{i}" for i, n in enumerate(relation.names, 1)]
        var = context.writer.name(alias or "values")
        cells = ", ".join(f"{n!r}: [{v.code}]" for n, v in zip(names, relation.scalars, strict=True))
        context.writer.step(f"Put {listed([v.english for v in relation.scalars])} in one row.",
                            f"{var} = pd.DataFrame({{{cells}}})")
        columns = {n: FrameColumn(n, v.kind, v.nullable, affinity=False)
                   for n, v in zip(names, relation.scalars, strict=True)}
        return Frame(var, (ScopeTable(alias, var, columns),))
    frame = settled(context, relation, alias or "part").frame
    columns = dict(zip(relation.names, relation.outputs, strict=True))
    whole = frame.order() == [c.name for c in relation.outputs]
    return Frame(frame.var, (ScopeTable(alias, alias or frame.var, columns, whole),), frame.may_be_empty)


def settled(context: Context, relation: Relation, base: str) -> Relation:
    """The relation with its DISTINCT and LIMIT written out."""
    if not relation.distinct and not relation.cut:
        return relation
    var = context.writer.name(base)
    names = listed(list(dict.fromkeys(c.name for c in relation.outputs)), "with")
    rows = f"each distinct {names}" if relation.distinct else f"{names} of the rows"
    context.writer.step(f"Take {rows}{relation.cut_words}.", f"{var} = {relation.code}")
    return replace(relation, frame=relation.frame.named(var), distinct=False, cut="", cut_words="")


# --- inner joins: any order that finds keys -----------------------------------------------------------


def _inner(context: Context, sources: list[Source], pool: list[exp.Expression],
           where: list[exp.Expression]) -> Joined:
    frame, waiting = sources[0].frame, sources[1:]
    while waiting:
        source, keys, used = _next(frame, waiting, pool, where)
        waiting.remove(source)
        pool = [c for c in pool if not any(c is u for u in used)]
        where = [c for c in where if not any(c is u for u in used)]
        frame = _merge(context, frame, source, keys)
    return Joined(frame, tuple(pool + where))


JoinKeys = list[tuple[FrameColumn, FrameColumn]]


def _next(frame: Frame, waiting: list[Source], pool: list[exp.Expression],
          where: list[exp.Expression]) -> tuple[Source, JoinKeys, list[exp.Expression]]:
    """The next source with an equality to what is joined so far, else the next one (a cross join)."""
    for conditions in (pool, pool + where):
        for source in waiting:
            keys, used = _keys(frame, source, conditions)
            if keys:
                return source, keys, used
    return waiting[0], [], []


def _keys(frame: Frame, source: Source,
          conditions: list[exp.Expression]) -> tuple[JoinKeys, list[exp.Expression]]:
    keys: JoinKeys = []
    if source.natural:
        names = {n: c for t in reversed(frame.tables) for n, c in t.columns.items()}
        keys = [(names[n], c) for n, c in source.table.columns.items() if n in names]
    used: list[exp.Expression] = []
    for node in conditions:
        if not isinstance(node, exp.EQ):
            continue
        a, b = node.this.unnest(), node.expression.unnest()
        if not isinstance(a, exp.Column) or not isinstance(b, exp.Column):
            continue
        pair = _pair(frame, source, a, b) or _pair(frame, source, b, a)
        if pair is not None and pair[0].name not in [k[0].name for k in keys] \
                and pair[1].name not in [k[1].name for k in keys]:
            keys.append(pair)
            used.append(node)
    return keys, used


def _pair(frame: Frame, source: Source, a: exp.Column,
          b: exp.Column) -> tuple[FrameColumn, FrameColumn] | None:
    left = frame.find(a.table.lower(), a.name.lower())
    right = source.frame.find(b.table.lower(), b.name.lower())
    if not b.table and frame.find("", b.name.lower()) is not None:
        return None  # the name alone would be ambiguous
    return None if left is None or right is None else (left, right)


# --- left joins: in the order written -----------------------------------------------------------------


def _in_order(context: Context, sources: list[Source], where: list[exp.Expression]) -> Joined:
    frame, later = sources[0].frame, []
    for source in sources[1:]:
        conditions = list(source.on) if source.side else list(source.on) + where
        keys, used = _keys(frame, source, conditions)
        where = [c for c in where if not any(c is u for u in used)]
        rest = [c for c in source.on if not any(c is u for u in used)]
        if source.side and rest:
            source = _restricted(context, source, rest)
        elif not source.side:
            later += rest
        if source.side and not keys:
            raise Unsupported("outer join without an equality", " AND ".join(c.sql() for c in source.on))
        frame = _merge(context, frame, source, keys)
    return Joined(frame, tuple(later + where))


def _restricted(context: Context, source: Source, conditions: list[exp.Expression]) -> Source:
    """Conditions of a left join's ON that concern the right side alone select its rows first."""
    for column in (c for condition in conditions for c in condition.find_all(exp.Column)):
        if source.frame.find(column.table.lower(), column.name.lower()) is None or source.side != "LEFT":
            raise Unsupported("outer join with other conditions", column.sql())
    scope = QueryScope(context, source.frame, source.frame)
    masks = [context.condition(scope, c) for c in conditions]
    var = context.writer.name("filtered")
    code = masks[0].code if len(masks) == 1 else " & ".join(m.operand for m in masks)
    words = " and ".join(m.english for m in masks)
    context.writer.step(f"Keep the rows of {source.frame.var} where {words}.",
                        f"{var} = {source.frame.var}[{code}]")
    return replace(source, frame=source.frame.named(var, may_be_empty=True))


# --- one merge ----------------------------------------------------------------------------------------


def _merge(context: Context, frame: Frame, source: Source, keys: JoinKeys) -> Frame:
    frame, source, keys = _numbers_on_both_sides(context, frame, source, keys)
    source, keys = _separate_keys(context, source, keys)
    writer, right = context.writer, source.frame
    code_left, code_right = _sides(frame, source, keys)
    left_names, right_names = [k[0].name for k in keys], [k[1].name for k in keys]
    if not keys:
        how = ["how='cross'"]
    elif left_names == right_names:
        how = [f"on={quoted(left_names)}"]
    else:
        how = [f"left_on={quoted(left_names)}", f"right_on={quoted(right_names)}"]
    if source.side:
        how.append(f"how={'outer' if source.side == 'FULL' else source.side.lower()!r}")
    shared = {name for name, other in zip(left_names, right_names, strict=True) if name == other}
    suffixes = _suffixes(context, frame, source, shared)
    if suffixes is not None:
        how.append(f"suffixes={suffixes!r}")
    var = frame.var if frame.var == "joined" or frame.var.startswith("joined_") else writer.name("joined")
    writer.step(_sentence(frame, source, keys), f"{var} = {code_left}.merge({code_right}, {', '.join(how)})")
    empty = frame.may_be_empty if source.side else frame.may_be_empty or right.may_be_empty or bool(keys)
    tables, equal = _tables(frame, source, keys, shared, suffixes or ("_x", "_y"))
    return Frame(var, tables, empty, frame.equal + source.frame.equal + equal)


def _numbers_on_both_sides(context: Context, frame: Frame, source: Source,
                           keys: JoinKeys) -> tuple[Frame, Source, JoinKeys]:
    """Where text meets numbers in a key, a new column holds the text read as numbers."""
    pairs: JoinKeys = []
    for left, right in keys:
        if (left.kind == "text") == (right.kind == "text") and "mixed" not in (left.kind, right.kind):
            pairs.append((left, right))
        elif left.kind in ("text", "mixed"):
            frame, left = _number_column(context, frame, left)
            pairs.append((left, right))
        else:
            changed, right = _number_column(context, source.frame, right)
            source = replace(source, frame=changed)
            pairs.append((left, right))
    return frame, source, pairs


def _number_column(context: Context, frame: Frame, column: FrameColumn) -> tuple[Frame, FrameColumn]:
    name = fresh_column(frame, f"{column.name}_number")
    var = frame.var if frame.var.startswith("joined") else context.writer.name(frame.tables[0].title)
    code = f"pd.to_numeric({frame.var}[{column.name!r}], errors='coerce')"
    context.writer.step(f"Read {column.name} of {frame.tables[0].title} as a number, {name}.",
                        f"{var} = {frame.var}.assign({named_argument(name, code)})")
    added = FrameColumn(name, "float", True, column.unique)
    (*others, last) = frame.tables
    table = replace(last, columns=last.columns | {name.lower(): added}, whole=False)
    return replace(frame, var=var, tables=(*others, table)), added


def _separate_keys(context: Context, source: Source, keys: JoinKeys) -> tuple[Source, JoinKeys]:
    """In an outer join, a right key of the left key's name is renamed where the query looks at it."""
    table = source.table
    same = [b for a, b in keys if a.name == b.name]
    looked_at = {n for n, c in table.columns.items() if c in same
                 and ("*" in context.used or context.mentions[table.alias, n] > 1 or source.side != "LEFT")}
    if not source.side or not looked_at:
        return source, keys
    new = {table.columns[n].name: f"{table.columns[n].name}_{table.title}" for n in looked_at}
    var = context.writer.name(table.title)
    context.writer.step(f"Rename {listed(list(new))} of {table.title} to {listed(list(new.values()))}.",
                        f"{var} = {source.frame.var}.rename(columns={new!r})")

    def renamed(column: FrameColumn) -> FrameColumn:
        return replace(column, name=new.get(column.name, column.name))

    columns = {n: renamed(c) for n, c in table.columns.items()}
    frame = replace(source.frame, var=var, tables=(replace(table, columns=columns),))
    return replace(source, frame=frame), [(a, renamed(b)) for a, b in keys]


def _sides(frame: Frame, source: Source, keys: JoinKeys) -> tuple[str, str]:
    """Both sides' code: without NULL keys where both have them (pandas would match those)."""
    left, right = frame.var, source.frame.var
    drop = [(a.name, b.name) for a, b in keys if a.nullable and b.nullable]
    if drop and source.side == "FULL":
        raise Unsupported("full join on keys with NULL", f"{left}, {right}")
    if drop and source.side == "RIGHT":
        return f"{left}.dropna(subset={[a for a, _ in drop]!r})", right
    return left, right + (f".dropna(subset={[b for _, b in drop]!r})" if drop else "")


def _suffixes(context: Context, frame: Frame, source: Source, shared: set[str]) -> tuple[str, str] | None:
    """Suffixes for columns of the same name, where the query uses one (or pandas' own would clash)."""
    mine, theirs = frame.names(), source.frame.names()
    both = (mine & theirs) - shared
    clash = any(f"{n}{end}" in mine | theirs for n in both for end in ("_x", "_y"))
    if not both or not (clash or "*" in context.used or any(n.lower() in context.used for n in both)):
        return None
    titles = [t.title for t in frame.tables]
    end, n = f"_{source.table.title}" if source.table.title not in titles else "_2", 2
    while any(f"{name}{end}" in mine | theirs for name in both):
        n += 1
        end = f"_{n}"
    return "", end


def _tables(frame: Frame, source: Source, keys: JoinKeys, shared: set[str],
            suffixes: tuple[str, str]) -> tuple[tuple[ScopeTable, ...], tuple[tuple[str, str], ...]]:
    """The tables after the merge, and the pairs of key columns that are now equal."""
    both = (frame.names() & source.frame.names()) - shared
    left_keys, right_keys = {k[0].name for k in keys}, {k[1].name for k in keys}

    def moved(column: FrameColumn, suffix: str, keyed: set[str], optional: bool) -> FrameColumn:
        name = column.name + suffix if column.name in both else column.name
        nullable = optional or (column.nullable and (column.name not in keyed or bool(source.side)))
        return replace(column, name=name, nullable=nullable)

    optional = source.side in ("RIGHT", "FULL"), source.side in ("LEFT", "FULL")
    left = [replace(t, whole=False, columns={k: moved(c, suffixes[0], left_keys, optional[0])
                                             for k, c in t.columns.items()}) for t in frame.tables]
    right = [replace(t, whole=False, columns={k: moved(c, suffixes[1], right_keys, optional[1])
                                 for k, c in t.columns.items()}) for t in source.frame.tables]
    equal = () if source.side else tuple(
        (moved(a, suffixes[0], left_keys, False).name, moved(b, suffixes[1], right_keys, False).name)
        for a, b in keys if a.name != b.name)
    return (*left, *right), equal


def _sentence(frame: Frame, source: Source, keys: JoinKeys) -> str:
    left, right = frame.tables[0].title if len(frame.tables) == 1 else "that", source.table.title
    if len(frame.tables) == 1 and source.table.title == left:
        right = f"{right} itself"
    if not keys:
        return f"Pair every row of {left} with every row of {right}."
    rows = {"LEFT": f"the rows of {left}", "RIGHT": f"the rows of {right}", "FULL": "the rows of both"}
    unmatched = f", keeping {rows[source.side]} without a match" if source.side else ""
    parts = [a.name if a.name == b.name else f"{a.name} = {b.name}" for a, b in keys]
    return f"Join {left} with {right} on {listed(parts)}{unmatched}."
