"""S-expressions to pandas: GrailQA's operators; TC, NOW and date macros of WebQSP's forms."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pandora_train.box.box import BoxSet
from pandora_train.box.store import open_graph
from pandora_train.box.triples import Graph
from pandora_train.compile.graph.sets import NodeSet, Pick, SetWriter
from pandora_train.compile.writer import Compiled, Unsupported
from pandora_train.records import GraphKnowledge
from pandora_train.sexpr import SExpression, parse_sexpr
from pandora_train.sources.freebase import MID

COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
NOW = "2015-08-10"
"""The day that ``NOW`` stands for in WebQSP's logical forms."""
ENDS = {"from": "to", "from_date": "to_date", "start_date": "end_date"}
_NUMBER = re.compile(r"[-+]?\d[\d.]*([eE][-+]?\d+)?(-\d\d)*")


def compile_sexpr(form: str, boxes: BoxSet, knowledge: GraphKnowledge | Graph,
                  names: Mapping[str, str] | None = None) -> Compiled:
    """Compile an s-expression. ``names`` maps ids in it to node names, before the store's own.

    Raises :class:`Unsupported` with a named reason.
    """
    graph = knowledge if isinstance(knowledge, Graph) else open_graph(knowledge)
    try:
        expression = parse_sexpr(form)
    except ValueError:
        raise Unsupported("unbalanced brackets", form) from None
    return _Sexpr(SetWriter(boxes, graph, names)).compile(expression)


class _Sexpr:
    """Walks an expression from the inside out, writing its sets on the way."""

    def __init__(self, sets: SetWriter) -> None:
        self.sets = sets

    def compile(self, e: SExpression) -> Compiled:
        match e:
            case ["COUNT", inner]:
                return self.sets.finish(self._members(inner), count=True)
        return self.sets.finish(self._members(e))

    def _members(self, e: SExpression) -> NodeSet:
        members = self._set(e)
        return self._class(e) if members is None else members

    def _set(self, e: SExpression) -> NodeSet | None:
        """The set of ``e``; ``None`` for a class that is only inferred: its surroundings say who is in it."""
        if isinstance(e, str):
            return self.sets.of_class(None, e) if self._is_class(e) else self.sets.constant(_value(e))
        match e:
            case ["JOIN", relation, inner]:
                return self._join(relation, inner)
            case ["AND", left, right]:
                return self._and(left, right)
            case [("lt" | "le" | "gt" | "ge") as op, relation, value]:
                return self.sets.compare(_name(relation), COMPARISONS[str(op)], _value(_name(value)))
            case [("ARGMAX" | "ARGMIN") as op, inner, relation]:
                return self.sets.extreme(self._set(inner), _path(relation), op == "ARGMAX")
            case ["TC", inner, relation, when]:
                return self._during(self._members(inner), _name(relation), _value(_name(when)))
        raise Unsupported("operator", str(e[0]) if e else "()")

    def _join(self, relation: SExpression, inner: SExpression) -> NodeSet:
        path = _path(relation)
        reached = self._set(inner)
        if reached is None and len(path) == 1:
            return self.sets.any_value(path[0][0], back=path[0][1])
        reached = self._class(inner) if reached is None else reached
        for name, back in reversed(path):  # (JOIN r S): those with a value of r in S
            reached = self.sets.objects(name, reached, back=not back)
        return reached

    def _and(self, left: SExpression, right: SExpression) -> NodeSet | None:
        a, b = self._set(left), self._set(right)
        if a is None or b is None:
            return b if a is None else a
        return self.sets.both(a, b)

    def _class(self, e: SExpression) -> Pick:
        """All known members of a class."""
        return self.sets.members(_name(e))

    def _is_class(self, token: str) -> bool:
        if token.startswith('"') or "^^" in token or MID.fullmatch(token) or _NUMBER.fullmatch(token):
            return False
        graph = self.sets.graph
        known = token in graph.domains or token in graph.ranges or token in graph.types
        return known or ("." in token and token not in graph.ids)

    def _during(self, base: NodeSet, start: str, when: str) -> NodeSet:
        """Time constraint: begun by then, not ended before; a missing date does not exclude."""
        prefix, _, last_name = start.rpartition(".")
        end = f"{prefix}.{ENDS.get(last_name, '')}"
        year = re.fullmatch(r"\d{4}", when) is not None
        last, first = (f"{when}-12-31", when) if year else (when, when)
        for relation, op, value in ((start, "<=", last), (end, ">=", first)):
            if self.sets.graph.locate(relation)[0] in self.sets.places:
                base = self._bound(base, relation, op, value)
        return base

    def _bound(self, base: NodeSet, relation: str, op: str, value: str) -> NodeSet:
        place, _ = self.sets.place(relation)
        if place.box.frame[place.column].dtype != "str":
            value = value[:4]
        limit = self.sets.compare(relation, op, value, missing=True)
        if isinstance(base, Pick) and isinstance(limit, Pick) and base.box is limit.box:
            return self.sets.both(base, limit)
        if place.box.frame.shape[1] == 2:
            raise Unsupported("time constraint on a relation in a BOX of its own", relation)
        return self.sets.both(limit, base)


def _path(e: SExpression) -> list[tuple[str, bool]]:
    """A relation expression as (name, backwards) hops: ``r``, ``(R e)``, ``(JOIN e e)``."""
    match e:
        case str():
            return [(e, False)]
        case ["R", inner]:
            return [(name, not back) for name, back in reversed(_path(inner))]
        case ["JOIN", first, second]:
            return _path(first) + _path(second)
    raise Unsupported("relation expression", str(e))


def _name(e: SExpression) -> str:
    if not isinstance(e, str):
        raise Unsupported("nested expression where a name belongs", str(e[0]) if e else "()")
    return e


def _value(token: str) -> str:
    """A literal without its datatype; ``NOW`` as its day; names and ids as they are."""
    if token == "NOW":
        return NOW
    if token.startswith('"'):
        text = token[1:].rpartition('"')[0]
        return re.sub(r"\\(.)", r"\1", text)
    return token.partition("^^")[0]

