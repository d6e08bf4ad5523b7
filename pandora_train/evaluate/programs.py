"""What a program uses: its BOXes, its fields and the kind of answer it computes.

Generated pandas code, gold SQL and gold graph queries (s-expressions, SPARQL, relation paths) are read into
one :class:`Profile`, so that the error analysis can lay them side by side. Names are compared without case
and punctuation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from pandora_train.records import Gold
from pandora_train.sources.freebase import MID

BoxFields = dict[str, tuple[str, ...]]
"""BOX name to its fields, as the prompt showed them."""

_FRAME = re.compile(r"^\w+ = pd\.DataFrame\(")
_RELATION = re.compile(r"(?<![\w./])(?:\w+\.)+\w+")
_COUNT = frozenset({"count", "size", "nunique", "len", "value_counts", "shape"})
_CALLS = {"sum": "sum", "mean": "mean", "max": "max", "min": "min", "idxmax": "max", "idxmin": "min",
          "nlargest": "max", "nsmallest": "min"} | dict.fromkeys(_COUNT, "count")


@dataclass(frozen=True)
class Profile:
    """What a program reads and what kind of answer it gives."""

    boxes: frozenset[str] = frozenset()
    """Normalised names of tables or BOXes."""
    fields: frozenset[str] = frozenset()
    """Normalised names of columns or relations, join keys apart."""
    aggregates: frozenset[str] = frozenset()
    """Of ``count sum mean max min``; a superlative (order and limit) is ``max`` or ``min``."""
    columns: int | None = None
    """Number of answer columns where the program says so."""


def normal(name: str) -> str:
    """A name without case and punctuation: ``Song_Name``, ``song name`` and ``song.name`` are equal."""
    return re.sub(r"[\W_]+", "_", name).strip("_").lower()


def read_schema(text: str) -> BoxFields:
    """BOX names and fields of the prompt's schema text (``name = pd.DataFrame({'field': [...], ...})``)."""
    schema: BoxFields = {}
    for line in text.splitlines():
        if not _FRAME.match(line):
            continue
        try:
            tree = ast.parse(line)
        except SyntaxError:
            continue  # a line that the token budget or a demonstration cut
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                fields = [k.value for d in ast.walk(node.value) if isinstance(d, ast.Dict) for k in d.keys
                          if isinstance(k, ast.Constant) and isinstance(k.value, str)]
                schema[node.targets[0].id] = tuple(fields)
    return schema


def code_profile(code: str, schema: BoxFields) -> Profile:
    """What pandas ``code`` uses of ``schema``; an empty profile when it does not parse."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # what ast raises on odd or deep text
        return Profile()
    fields = {normal(f) for names in schema.values() for f in names}
    nodes = list(ast.walk(tree))
    boxes = {n.id for n in nodes if isinstance(n, ast.Name) and n.id in schema}
    words = {normal(w) for n in nodes for w in _words(n)}
    joins = _join_keys(nodes)
    calls = {_CALLS[n] for n in _called(nodes) if n in _CALLS}
    return Profile(
        boxes=frozenset(normal(b) for b in boxes),
        fields=frozenset((words & fields) - joins) | (_elsewhere(nodes, fields) & joins),
        aggregates=frozenset(calls | _superlatives(nodes)),
    )


def parses(code: str) -> bool:
    """Whether ``code`` is Python."""
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _words(node: ast.AST) -> Iterable[str]:
    """Strings and attributes that may name a field; a query string gives each of its words."""
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) \
            and node.func.attr in ("query", "eval"):
        for argument in node.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield from re.findall(r"`([^`]+)`", argument.value)
                yield from re.findall(r"\w+", argument.value)


def _join_keys(nodes: list[ast.AST]) -> set[str]:
    """Normalised fields that stand in ``on``, ``left_on`` or ``right_on`` of a merge."""
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    values = [k.value for c in calls for k in c.keywords if k.arg in ("on", "left_on", "right_on")]
    strings = [s for v in values for s in ast.walk(v) if isinstance(s, ast.Constant)]
    return {normal(s.value) for s in strings if isinstance(s.value, str)}


def _elsewhere(nodes: list[ast.AST], fields: set[str]) -> frozenset[str]:
    """Fields that are used in a subscript or as an attribute, whether or not they are join keys too."""
    subscripts = [n.slice for n in nodes if isinstance(n, ast.Subscript)]
    strings = [s.value for n in subscripts for s in ast.walk(n)
               if isinstance(s, ast.Constant) and isinstance(s.value, str)]
    attributes = [n.attr for n in nodes if isinstance(n, ast.Attribute)]
    return frozenset({normal(s) for s in [*strings, *attributes]} & fields)


def _called(nodes: list[ast.AST]) -> Iterable[str]:
    for node in nodes:
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield node.func.attr
            elif isinstance(node.func, ast.Name):
                yield node.func.id
            for value in [*node.args, *[k.value for k in node.keywords]]:
                yield from _named_aggregates(value)
        elif isinstance(node, ast.Attribute) and node.attr in ("size", "shape"):
            yield node.attr


def _named_aggregates(value: ast.expr) -> Iterable[str]:
    """``agg('mean')``, ``agg({'x': 'max'})``, ``agg(n=('x', 'count'))``: the names of aggregates."""
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in _CALLS:
            yield node.value


def _superlatives(nodes: list[ast.AST]) -> set[str]:
    """``sort_values`` cut to its first or last row is a superlative."""
    source = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
    sorts = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
             and n.func.attr == "sort_values"]
    if not sorts or not source & {"head", "iloc", "tail"}:
        return set()
    down = any(k.arg == "ascending" and isinstance(k.value, ast.Constant) and k.value.value is False
               for s in sorts for k in s.keywords)
    return {"max" if down != ("tail" in source) else "min"}


def gold_profile(gold: Gold) -> Profile | None:
    """What the gold program uses; ``None`` without one, or when it cannot be read."""
    if not gold.program:
        return None
    if gold.language == "sql":
        return _sql_profile(gold.program)
    if gold.language == "path":
        return Profile(fields=frozenset(r.strip() for r in gold.program.split("->")))
    if gold.language in ("sexpr", "sparql"):
        return _graph_profile(gold.program)
    return None


def _sql_profile(sql: str) -> Profile | None:
    try:
        tree = sqlglot.parse_one(sql, dialect="sqlite")
    except sqlglot.errors.SqlglotError:
        return None
    pairs = [eq for join in tree.find_all(exp.Join) for eq in join.find_all(exp.EQ)]
    keys = {normal(side.name) for eq in pairs for side in (eq.this, eq.expression)
            if isinstance(eq.this, exp.Column) and isinstance(eq.expression, exp.Column)}
    columns = {normal(c.name) for c in tree.find_all(exp.Column) if not c.find_ancestor(exp.Join)}
    aliases = {normal(a.alias) for a in tree.find_all(exp.Alias)}
    grouped = {normal(c.name) for g in tree.find_all(exp.Group) for c in g.find_all(exp.Column)}
    return Profile(
        boxes=frozenset(normal(t.name) for t in tree.find_all(exp.Table)),
        fields=frozenset(columns - aliases - (keys & grouped) - {""}),
        aggregates=_sql_aggregates(tree),
        columns=_width(tree),
    )


def _sql_aggregates(tree: exp.Expression) -> frozenset[str]:
    kinds = {exp.Count: "count", exp.Sum: "sum", exp.Avg: "mean", exp.Max: "max", exp.Min: "min"}
    aggregates = {name for kind, name in kinds.items() if tree.find(kind)}
    for select in tree.find_all(exp.Select):
        order = select.args.get("order")
        if order and select.args.get("limit"):
            aggregates.add("max" if order.expressions[0].args.get("desc") else "min")
    return frozenset(aggregates)


def _width(tree: exp.Expression) -> int | None:
    select = tree.find(exp.Select)
    if select is None or any(isinstance(e, exp.Star) for e in select.expressions):
        return None
    return len(select.expressions)


def _graph_profile(program: str) -> Profile:
    """Relations are domain.type.property, types are shorter, ``m.`` and ``g.`` mark nodes."""
    text = re.sub(r"https?://[^\s>]*/|\^\^\S+", "", program)
    names = {n for n in _RELATION.findall(text) if not MID.fullmatch(n) and not n.replace(".", "").isdigit()}
    words = {w.upper() for w in re.findall(r"[A-Za-z]+", text)}
    aggregates = {"count"} & {w.lower() for w in words}
    if "ARGMAX" in words or re.search(r"ORDER BY DESC", text):
        aggregates.add("max")
    if "ARGMIN" in words or re.search(r"ORDER BY (?!DESC)\S+.*LIMIT", text, re.DOTALL):
        aggregates.add("min")
    return Profile(fields=frozenset(n for n in names if n.count(".") >= 2), aggregates=frozenset(aggregates))
