"""Graph queries to pandas: s-expressions (GrailQA; TC, NOW and date macros of WebQSP's forms) and paths."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from pandora_train.box.box import BoxSet
from pandora_train.box.store import Graph, open_graph
from pandora_train.records import GraphKnowledge
from pandora_train.teach.compile.graph_steps import GraphSteps, Pick, Set
from pandora_train.teach.compile.program import Compiled, Unsupported

Expression = str | list["Expression"]
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
NOW = "2015-08-10"
"""The day that ``NOW`` stands for in WebQSP's logical forms."""
ENDS = {"from": "to", "from_date": "to_date", "start_date": "end_date"}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"(?:\^\^\S+?|@\w+)?(?=[\s()]|$)|[()]|[^\s()]+')
_ID = re.compile(r"[mg]\.[0-9a-z_]+")
_NUMBER = re.compile(r"[-+]?\d[\d.]*([eE][-+]?\d+)?(-\d\d)*")


def compile_sexpr(program: str, boxes: BoxSet, knowledge: GraphKnowledge | Graph,
                  names: Mapping[str, str] | None = None) -> Compiled:
    """Compile an s-expression. ``names`` maps ids in it to node names, before the store's own.

    Raises :class:`Unsupported` with a named reason.
    """
    graph = knowledge if isinstance(knowledge, Graph) else open_graph(knowledge)
    return _Sexpr(GraphSteps(boxes, graph, names)).compile(parse_sexpr(program))


def compile_path(program: str, boxes: BoxSet, knowledge: GraphKnowledge | Graph,
                 topic: str = "") -> Compiled:
    """Compile a relation path ``relation -> relation`` walked from ``topic``, else from the only topic of the
    knowledge that has the first relation.

    A relation with a leading ``^`` is walked backwards.
    """
    relations = re.split(r"\s*->\s*", program.strip())
    if isinstance(knowledge, GraphKnowledge):
        graph = open_graph(knowledge)
        first = graph.ends(relations[0].lstrip("^"), subject=not relations[0].startswith("^"))
        starts = [t for t in knowledge.topics if np.isin(graph.start(t), first).any()]
        topic = topic or (starts[0] if len(starts) == 1 else "")
    else:
        graph = knowledge
    if not topic:
        raise Unsupported("path without one topic")
    steps = GraphSteps(boxes, graph)
    here: Set = steps.constant(topic)
    for relation in relations:
        here = steps.objects(relation.lstrip("^"), here, back=relation.startswith("^"))
    return steps.finish(here)


def compile_sparql(program: str, boxes: BoxSet, knowledge: GraphKnowledge | Graph,
                   names: Mapping[str, str] | None = None) -> Compiled:
    """Compile a SELECT query. ``names`` maps ids (an IRI's last part) to node names, before the store's own.

    Raises :class:`Unsupported` with a named reason, also for a query that doesn't parse.
    """
    from pandora_train.teach.compile.graph_sparql import compile_select

    graph = knowledge if isinstance(knowledge, Graph) else open_graph(knowledge)
    return compile_select(program, lambda: GraphSteps(boxes, graph, names))


def parse_sexpr(text: str) -> Expression:
    """Nested lists of tokens. Raises :class:`Unsupported` for unbalanced brackets."""
    stack: list[list[Expression]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) == 1:
                raise Unsupported("unbalanced brackets", text)
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    if len(stack) != 1 or len(stack[0]) != 1:
        raise Unsupported("unbalanced brackets", text)
    return stack[0][0]


class _Sexpr:
    """Walks an expression from the inside out, writing steps on the way."""

    def __init__(self, steps: GraphSteps) -> None:
        self.steps = steps

    def compile(self, e: Expression) -> Compiled:
        if isinstance(e, list) and e and e[0] == "COUNT":
            return self.steps.finish(self._members(e[1]), count=True)
        return self.steps.finish(self._members(e))

    def _members(self, e: Expression) -> Set:
        found = self._set(e)
        return self._class(e) if found is None else found

    def _set(self, e: Expression) -> Set | None:
        """The set of ``e``; ``None`` for a class, whose members depend on what surrounds it."""
        if isinstance(e, str):
            return None if self._is_class(e) else self.steps.constant(_value(e))
        match e:
            case ["JOIN", relation, inner]:
                return self._join(relation, inner)
            case ["AND", left, right]:
                return self._and(left, right)
            case [("lt" | "le" | "gt" | "ge") as op, relation, value]:
                return self.steps.compare(_name(relation), COMPARISONS[str(op)], _value(_name(value)))
            case [("ARGMAX" | "ARGMIN") as op, inner, relation]:
                return self.steps.extreme(self._set(inner), _path(relation), op == "ARGMAX")
            case ["TC", inner, relation, when]:
                return self._during(self._members(inner), _name(relation), _value(_name(when)))
        raise Unsupported("operator", str(e[0]) if e else "()")

    def _join(self, relation: Expression, inner: Expression) -> Set:
        path = _path(relation)
        found = self._set(inner)
        if found is None and len(path) == 1:
            return self.steps.any_value(path[0][0], back=path[0][1])
        found = self._class(inner) if found is None else found
        for name, back in reversed(path):  # (JOIN r S): those with a value of r in S
            found = self.steps.objects(name, found, back=not back)
        return found

    def _and(self, left: Expression, right: Expression) -> Set | None:
        a, b = self._set(left), self._set(right)
        if a is None:
            return self.steps.of_class(b, _name(left)) if isinstance(left, str) else b
        if b is None:
            return self.steps.of_class(a, _name(right)) if isinstance(right, str) else a
        return self.steps.both(a, b)

    def _class(self, e: Expression) -> Pick:
        """All known members of a class."""
        return self.steps.members(_name(e))

    def _is_class(self, token: str) -> bool:
        if token.startswith('"') or "^^" in token or _ID.fullmatch(token) or _NUMBER.fullmatch(token):
            return False
        graph = self.steps.graph
        known = token in graph.domains or token in graph.ranges or token in graph.types
        return known or ("." in token and token not in graph.ids)

    def _during(self, base: Set, start: str, when: str) -> Set:
        """Time constraint: begun by then, not ended before; a missing date does not exclude."""
        prefix, _, last_name = start.rpartition(".")
        end = f"{prefix}.{ENDS.get(last_name, '')}"
        year = re.fullmatch(r"\d{4}", when) is not None
        last, first = (f"{when}-12-31", when) if year else (when, when)
        for relation, op, value in ((start, "<=", last), (end, ">=", first)):
            if self.steps.graph.locate(relation)[0] in self.steps.places:
                base = self._bound(base, relation, op, value)
        return base

    def _bound(self, base: Set, relation: str, op: str, value: str) -> Set:
        place, _ = self.steps.place(relation)
        if place.box.frame[place.column].dtype != "str":
            value = value[:4]
        limit = self.steps.compare(relation, op, value, missing=True)
        if isinstance(base, Pick) and isinstance(limit, Pick) and base.box is limit.box:
            return self.steps.both(base, limit)
        if place.box.frame.shape[1] == 2:
            raise Unsupported("time constraint on a relation in a BOX of its own", relation)
        return self.steps.both(limit, base)


def _path(e: Expression) -> list[tuple[str, bool]]:
    """A relation expression as (name, backwards) hops: ``r``, ``(R e)``, ``(JOIN e e)``."""
    match e:
        case str():
            return [(e, False)]
        case ["R", inner]:
            return [(name, not back) for name, back in reversed(_path(inner))]
        case ["JOIN", first, second]:
            return _path(first) + _path(second)
    raise Unsupported("relation expression", str(e))


def _name(e: Expression) -> str:
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


__all__ = ["compile_path", "compile_sexpr", "compile_sparql", "parse_sexpr"]
