"""SQL labels -> pandas programs with their reasoning, under SQLite's semantics (this folder's entry).

Works on sqlglot's tree. What it does not cover raises :class:`Unsupported` with a countable reason.
"""

from __future__ import annotations

from collections import Counter

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pandora_train.box.box import BoxSet
from pandora_train.compile.sql.conditions import condition
from pandora_train.compile.sql.joins import derived
from pandora_train.compile.sql.scope import Context, QueryScope, Relation, catalog, listed
from pandora_train.compile.sql.select import compile_select
from pandora_train.compile.sql.set_operations import compile_set
from pandora_train.compile.writer import Compiled, Unsupported, Writer
from pandora_train.errors import first_line


def compile_sql(sql: str, boxes: BoxSet) -> Compiled:
    """The program that computes ``sql`` over ``boxes``; raises :class:`Unsupported`.

    Table and column names are those of the BOXes or their originals, in any case.
    """
    try:
        tree = sqlglot.parse_one(sql.strip().rstrip(";"), read="sqlite")
    except SqlglotError as e:
        raise Unsupported("SQL that does not parse", first_line(e)) from None
    if not isinstance(tree, exp.Query):
        raise Unsupported("not a query", type(tree).__name__)
    tree = tree.transform(_without_filter)
    writer = Writer(boxes)
    context = Context(writer, catalog(boxes), _query, condition, mentions=_mentions(tree), used=_used(tree))
    relation = _query(context, tree, None)
    _result(writer, relation)
    return writer.compiled()


def _used(tree: exp.Expression) -> set[str]:
    used = {c.name.lower() for c in tree.find_all(exp.Column)}
    stars = [s for s in tree.find_all(exp.Star) if not isinstance(s.parent, exp.Count)]
    return used | ({"*"} if stars else set())


def _without_filter(node: exp.Expression) -> exp.Expression:
    """``agg(x) FILTER (WHERE c)`` is ``agg(CASE WHEN c THEN x END)``."""
    if not isinstance(node, exp.Filter):
        return node
    aggregate = node.this.copy()
    inner = exp.Literal.number(1) if isinstance(aggregate.this, exp.Star) else aggregate.this
    aggregate.set("this", exp.Case(ifs=[exp.If(this=node.expression.this, true=inner)]))
    return aggregate


def _mentions(tree: exp.Expression) -> Counter[tuple[str, str]]:
    return Counter((c.table.lower(), c.name.lower()) for c in tree.find_all(exp.Column))


def _query(context: Context, node: exp.Expression, outer: QueryScope | None) -> Relation:
    if isinstance(node, exp.Subquery):
        return _query(context, node.this, outer)
    for view in node.args["with_"].expressions if node.args.get("with_") else []:
        name = view.alias.lower()
        context.views[name] = derived(context, _query(context, view.this, None), name)
    if isinstance(node, exp.Select):
        return compile_select(context, node, outer)
    if isinstance(node, exp.SetOperation):
        return compile_set(context, node, outer)
    raise Unsupported("query", type(node).__name__)


def _result(writer: Writer, relation: Relation) -> None:
    if relation.scalars:
        cells = ", ".join(s.code for s in relation.scalars)
        rows = f"[[{cells}]]" + (f" if {relation.provided} else []" if relation.provided else "")
        words = listed([s.english for s in relation.scalars])
        writer.step(f"Return {words}{f', if {relation.provided}' if relation.provided else ''}.",
                    f"result = {rows}")
        return
    names = [c.name for c in relation.outputs]
    words = listed(names) if names != relation.frame.order() else "all columns"
    if relation.distinct:
        words = f"each distinct {listed(names, 'with')}{relation.cut_words}"
    writer.step(f"Return {words}.", f"result = {relation.code}.values.tolist()")
