"""Spider's hardness classes, by the counting rules of its official ``evaluation.py``, over sqlglot's tree.

Three counts decide: *clauses* (WHERE, GROUP BY, ORDER BY, LIMIT, each JOIN, OR, LIKE), *nested* queries (in
conditions, and set operations; a subquery in FROM is not counted) and *others* (more than one aggregate, more
than one selected column, WHERE condition or GROUP BY column). Of a set operation the left query is counted,
as the official parser nests the right one into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError


@cache
def hardness(sql: str) -> str:
    """``easy``, ``medium``, ``hard`` or ``extra``; ``unknown`` when the SQL cannot be parsed."""
    try:
        tree: Any = sqlglot.parse_one(sql, read="sqlite")
    except SqlglotError:
        return "unknown"
    nested = 0
    if isinstance(tree, exp.SetOperation):
        nested = 1
        while isinstance(tree, exp.SetOperation):
            tree = tree.this
    tree = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    if not isinstance(tree, exp.Select):
        return "unknown"
    conditions = list(_conditions(tree))
    nested += sum(_queries(c) for c in conditions)
    return _class(_clauses(tree, conditions), nested, _others(tree))


def _class(clauses: int, nested: int, others: int) -> str:
    if clauses <= 1 and others == 0 and nested == 0:
        return "easy"
    if nested == 0 and ((others <= 2 and clauses <= 1) or (others < 2 and clauses <= 2)):
        return "medium"
    if nested == 0 and ((others > 2 and clauses <= 2) or (others <= 2 and 2 < clauses <= 3)):
        return "hard"
    return "hard" if clauses <= 1 and others == 0 and nested <= 1 else "extra"


def _conditions(select: Any) -> Iterator[Any]:
    """The roots of this query's own conditions: join, WHERE, HAVING."""
    for join in select.args.get("joins") or []:
        if join.args.get("on") is not None:
            yield join.args["on"]
    for name in ("where", "having"):
        if select.args.get(name) is not None:
            yield select.args[name].this


def _clauses(select: Any, conditions: list[Any]) -> int:
    present = sum(select.args.get(name) is not None for name in ("where", "group", "order", "limit"))
    joins = len(select.args.get("joins") or [])
    words = sum(isinstance(n, exp.Or | exp.Like) for c in conditions for n in _own(c))
    return present + joins + words


def _queries(condition: Any) -> int:
    return sum(isinstance(n, exp.Select | exp.SetOperation) for n in _own(condition))


def _others(select: Any) -> int:
    columns = select.expressions
    where = select.args.get("where")
    group, order, having = (select.args.get(k) for k in ("group", "order", "having"))
    aggregates = sum(_aggregate(c) for c in columns)
    aggregates += sum(_aggregate(o.this) for o in (order.expressions if order else []))
    # the official count reads the AND/OR between HAVING conditions, and NOT, as aggregates; so do we
    for clause in (where, having):
        if clause is not None:
            aggregates += sum(isinstance(n, exp.Not) for n in _own(clause.this))
    if having is not None:
        aggregates += sum(isinstance(n, exp.And | exp.Or) for n in _own(having.this))
    wheres = 0 if where is None else 1 + sum(isinstance(n, exp.And | exp.Or) for n in _own(where.this))
    groups = len(group.expressions) if group else 0
    return (aggregates > 1) + (len(columns) > 1) + (wheres > 1) + (groups > 1)


def _aggregate(node: Any) -> bool:
    """An aggregate as the whole expression; ``max(a) - min(a)`` is none to the official parser."""
    return isinstance(node.unalias(), exp.AggFunc)


def _own(node: Any) -> Iterator[Any]:
    """Nodes of an expression, without going into subqueries (which are yielded themselves)."""
    yield node
    if isinstance(node, exp.Select | exp.SetOperation):
        return
    for child in node.iter_expressions():
        yield from _own(child)
