"""SPARQL whose triple patterns form a tree to pandas, as a person would write it: filter, then follow.

The tree is walked from its leaves to the answer like an s-expression; superlatives (``ORDER BY … LIMIT``, a
``MAX`` subquery equal to the rest) are read off the rows in which answer and ranked value stand side by side.
Everything else is :class:`NotATree` and goes the general way (``frames.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rdflib.term import Literal, URIRef, Variable

from pandora_train.compile.graph.filters import FLIPPED, operand, plain, type_iris
from pandora_train.compile.graph.frames import aggregate_name
from pandora_train.compile.graph.sets import Condition, Const, NodeSet, Pick, SetWriter
from pandora_train.compile.writer import Compiled, Unsupported


class NotATree(Exception):
    """The query needs joined frames. Caught in ``sparql.py``: it is never a label's end."""


@dataclass(frozen=True)
class Edge:
    """One triple pattern."""

    subject: Any
    relation: str
    object: Any


@dataclass
class PatternTree:
    """Triple patterns and what restricts their variables."""

    edges: list[Edge] = field(default_factory=list)
    classes: dict[Any, list[str]] = field(default_factory=dict)
    compared: dict[Any, list[tuple[str, str]]] = field(default_factory=dict)
    """Variable to (operator, value)."""
    unequal: list[tuple[Any, Any]] = field(default_factory=list)
    bounds: dict[Any, list[tuple[str, str, str]]] = field(default_factory=dict)
    """Variable to (relation, operator, value): such a value, or none at all."""
    values: dict[Any, Any] = field(default_factory=dict)
    best: tuple[Any, bool] | None = None
    """Variable that must be largest (True) or smallest."""


def compile_tree(p: Any, sets: SetWriter) -> Compiled:
    """Compile rdflib's algebra of a SELECT query; raises :class:`NotATree` and :class:`Unsupported`."""
    return _TreeCompiler(sets).compile(p)


class _TreeCompiler:
    def __init__(self, sets: SetWriter) -> None:
        self.sets = sets
        self.types = type_iris(sets)

    def compile(self, p: Any) -> Compiled:
        """The query's modifiers, then its tree."""
        limit: int | None = None
        # rdflib nests modifiers from the outside in: Slice(Distinct(Project(OrderBy(Extend(pattern))))).
        if p.name == "Slice":
            if p.start or p.length is None:
                raise NotATree
            limit, p = p.length, p.p
        if p.name == "Distinct":
            p = p.p
        if p.name != "Project" or len(p.PV) != 1:
            raise NotATree
        answer, p = p.PV[0], p.p
        count = False
        order = p.expr if p.name == "OrderBy" else None
        p = p.p if p.name == "OrderBy" else p
        if p.name == "Extend":
            answer, count, p = self._renamed(p, answer)
        # A limit without an order takes any rows; an order without a limit is lost in a set of answers.
        if (limit is None) != (order is None):
            raise NotATree
        tree = PatternTree()
        self._read(p, tree)
        if order is not None:
            return self._ordered(tree, answer, order, limit or 0)
        if tree.best is not None:
            variable, largest = tree.best
            return self.sets.finish(self._superlative(tree, answer, variable, largest), count)
        return self.sets.finish(self._answer(tree, answer), count)

    def _renamed(self, p: Any, answer: Any) -> tuple[Any, bool, Any]:
        """``SELECT (?x AS ?value)`` and ``SELECT (COUNT(DISTINCT ?x) AS ?value)``."""
        if p.var != answer or not isinstance(p.expr, Variable):
            raise NotATree
        inner = p.p
        if inner.name != "AggregateJoin":
            return p.expr, False, inner
        aggregates = [a for a in inner.A if a.res == p.expr]
        grouped = inner.p
        if len(inner.A) != 1 or len(aggregates) != 1 or grouped.expr is not None:
            raise NotATree
        one = aggregates[0]
        # Only a count of distinct values is the size of a set; COUNT(?x) counts solutions.
        distinct = bool(one.distinct) or _distinct_inside(grouped.p, one.vars)
        if aggregate_name(one) != "Count" or not isinstance(one.vars, Variable) or not distinct:
            raise NotATree
        return one.vars, True, grouped.p

    # --- reading --------------------------------------------------------------------------------------

    def _read(self, p: Any, tree: PatternTree) -> None:
        if p.name == "BGP":
            for triple in p.triples:
                self._triple(triple, tree)
        elif p.name == "Join":
            self._read(p.p1, tree)
            self._read(p.p2, tree)
        elif p.name == "Filter":
            self._filter(p.expr, tree)
            self._read(p.p, tree)
        elif p.name == "ToMultiSet":
            self._nested(p.p, tree)
        else:
            raise NotATree

    def _nested(self, p: Any, tree: PatternTree) -> None:
        if isinstance(p, list):  # VALUES without a row
            raise NotATree
        if p.name == "values":
            if len(p.res) != 1:
                raise NotATree
            tree.values.update(p.res[0])
            return
        p = p.p if p.name == "Distinct" else p
        if p.name != "Project":
            raise NotATree
        if p.p.name == "Extend" and p.p.p.name == "AggregateJoin":
            # The subquery repeats the outer patterns under other names, so its tree is kept apart: read into
            # this one, its edges would double every pattern.
            tree.best = (p.p.var, self._best(p.p, tree))
            return
        self._read(p.p, tree)

    def _best(self, extend: Any, tree: PatternTree) -> bool:
        """A ``MAX``/``MIN`` subquery: True for MAX. That it repeats the outer pattern is checked later."""
        (one,), group = extend.p.A, extend.p.p
        if aggregate_name(one) not in ("Max", "Min") or group.expr is not None or tree.best:
            raise NotATree
        self.inner = PatternTree()
        self._read(group.p, self.inner)
        self.inner_value = one.vars
        return aggregate_name(one) == "Max"

    def _triple(self, triple: Any, tree: PatternTree) -> None:
        subject, predicate, obj = triple
        if not isinstance(predicate, URIRef):
            raise NotATree
        # A type that BOX names tell is no edge: no column holds it.
        if str(predicate) in self.types and isinstance(obj, URIRef) and isinstance(subject, Variable):
            tree.classes.setdefault(subject, []).append(operand(self.sets, obj).value)
        else:
            tree.edges.append(Edge(subject, operand(self.sets, predicate).value, obj))

    def _filter(self, e: Any, tree: PatternTree) -> None:
        name = getattr(e, "name", "")
        if name == "ConditionalAndExpression":
            for part in [e.expr, *e.other]:
                self._filter(part, tree)
        elif name == "RelationalExpression" and e.op == "!=":
            if not all(isinstance(term, (Variable, URIRef, Literal)) for term in (e.expr, e.other)):
                raise NotATree
            tree.unequal.append((e.expr, e.other))
        elif name == "RelationalExpression" and e.op in ("<", "<=", ">", ">="):
            left, right, op = plain(e.expr), plain(e.other), e.op
            if isinstance(right, Variable) and isinstance(left, Literal):
                left, right, op = right, left, FLIPPED[op]
            if not isinstance(left, Variable) or not isinstance(right, Literal):
                raise NotATree
            tree.compared.setdefault(left, []).append((op, operand(self.sets, right).value))
        elif name == "ConditionalOrExpression":
            self._alternative(e, tree)
        else:
            raise NotATree

    def _alternative(self, e: Any, tree: PatternTree) -> None:
        """Two disjunctions have a reading of their own: "English or no language", "that late or no date"."""
        parts = [e.expr, *e.other]
        names = {getattr(p, "name", "") for p in parts}
        if names <= {"UnaryNot", "RelationalExpression", "Builtin_LANGMATCHES"} and "UnaryNot" in names:
            return  # literals in other languages are not in the store
        if names != {"Builtin_NOTEXISTS", "Builtin_EXISTS"} or len(parts) != 2:
            raise NotATree
        absent, present = PatternTree(), PatternTree()
        for part in parts:
            self._read(part.graph, absent if part.name == "Builtin_NOTEXISTS" else present)
        (a,), (b,) = absent.edges, present.edges
        tests = present.compared.get(b.object, [])
        same = (a.subject, a.relation) == (b.subject, b.relation) and isinstance(a.object, Variable)
        if not same or len(tests) != 1 or absent.compared or present.unequal or present.bounds:
            raise NotATree
        tree.bounds.setdefault(b.subject, []).append((b.relation, *tests[0]))

    # --- writing --------------------------------------------------------------------------------------

    def _answer(self, tree: PatternTree, answer: Any) -> NodeSet:
        self._check(tree, answer)
        answers = self._solve(tree, answer)
        if answers is None:
            raise Unsupported("answer without a pattern")
        return answers

    def _check(self, tree: PatternTree, root: Any) -> None:
        """Every edge hangs on ``root``, none closes a cycle; inequalities need a constant side."""
        variables = {v for e in tree.edges for v in (e.subject, e.object) if self._open(tree, v)}
        links = [e for e in tree.edges if self._open(tree, e.subject) and self._open(tree, e.object)]
        # From the root outwards until nothing new is reached; n nodes with n - 1 links then have no cycle.
        reached, grown = {root}, True
        while grown:
            more = {v for e in links for v in (e.subject, e.object) if {e.subject, e.object} & reached}
            grown, reached = not more <= reached, reached | more
        stray = [e for e in tree.edges if not self._open(tree, e.subject) and not self._open(tree, e.object)]
        if stray or variables - reached or len(links) != len(reached) - 1:
            raise NotATree
        # Two variables that differ would have to stand in one row; the test is left out only where no node of
        # the graph can be both.
        for left, right in tree.unequal:
            if self._open(tree, left) and self._open(tree, right) and self._may_meet(tree, left, right):
                raise NotATree
        named = {*tree.classes, *tree.compared, *tree.bounds}
        if any(self._open(tree, v) and v not in reached for v in named):
            raise NotATree

    def _open(self, tree: PatternTree, term: Any) -> bool:
        return isinstance(term, Variable) and term not in tree.values

    def _may_meet(self, tree: PatternTree, left: Any, right: Any) -> bool:
        """Whether two terms could be the same node: some node of the graph stands where both stand."""
        graph, meeting = self.sets.graph, None
        for term in (left, right):
            if not self._open(tree, term):
                name = operand(self.sets, tree.values.get(term, term)).value
                node = np.array([graph.ids.get(name, -1)])
                meeting = node if meeting is None else np.intersect1d(meeting, node)
                continue
            for e in tree.edges:
                if term in (e.subject, e.object):
                    nodes = graph.ends(e.relation, subject=term == e.subject)
                    meeting = nodes if meeting is None else np.intersect1d(meeting, nodes)
        return meeting is None or len(meeting) > 0

    def _solve(self, tree: PatternTree, variable: Any, skip: tuple[Edge, ...] = ()) -> NodeSet | None:
        """The values of ``variable`` that its side of the tree allows; ``None``: any."""
        values: NodeSet | None = None
        edges = [e for e in tree.edges if e not in skip and variable in (e.subject, e.object)]
        known = [e for e in edges if not self._open(tree, self._other(e, variable))]
        # Constants first: their conditions pile up on one BOX's rows, which later patterns then only narrow.
        for e in [*known, *(e for e in edges if e not in known)]:
            part = self._edge(tree, e, variable)
            values = part if values is None else self.sets.both(values, part)
        for kind in tree.classes.get(variable, []):
            values = self.sets.of_class(values, kind)
        # A class alone restricts nothing on a branch (types are inferred from relations), but at the root its
        # members are the answer.
        if values is None and tree.classes.get(variable) and not skip:
            values = self.sets.members(tree.classes[variable][0])
        for relation, op, value in tree.bounds.get(variable, []):
            values = self._bound(values, relation, op, value)
        for constant in self._excluded(tree, variable):
            if values is None:  # "anything but" is no set to walk on from
                raise NotATree
            values = self.sets.without(values, constant)
        return values

    def _edge(self, tree: PatternTree, e: Edge, variable: Any) -> NodeSet:
        """What one triple pattern says about ``variable``."""
        other, back = self._other(e, variable), variable == e.subject
        if not self._open(tree, other):
            return self.sets.objects(e.relation, operand(self.sets, tree.values.get(other, other)), back)
        tests = tree.compared.get(other, [])
        inner = self._solve(tree, other, (e,))
        if not tests:
            if inner is None:
                return self.sets.any_value(e.relation, back=not back)
            return self.sets.objects(e.relation, inner, back)
        # A compared value is a cell: it can be tested in its row, not walked on from.
        if inner is not None or not back:
            raise NotATree
        subjects: NodeSet = self.sets.compare(e.relation, *tests[0])
        place, _ = self.sets.place(e.relation)
        for op, value in tests[1:]:
            if not isinstance(subjects, Pick):
                raise NotATree
            subjects = subjects.where(Condition(place.column, op, Const(value)))
        return subjects

    @staticmethod
    def _other(e: Edge, variable: Any) -> Any:
        return e.object if variable == e.subject else e.subject

    def _bound(self, base: NodeSet | None, relation: str, op: str, value: str) -> NodeSet | None:
        if self.sets.graph.locate(relation)[0] not in self.sets.places:
            return base  # no node here has such a date
        limit = self.sets.compare(relation, op, value, missing=True)
        # Only a subject of the BOX surely has a row there, in which the date may be missing.
        if isinstance(base, Pick) and isinstance(limit, Pick) and base.box is limit.box \
                and base.answer == limit.answer:
            return self.sets.both(base, limit)
        raise Unsupported("time constraint on a relation in a BOX of its own", relation)

    def _excluded(self, tree: PatternTree, variable: Any) -> list[Const]:
        """Constants that ``variable`` must differ from, less those that it differs from anyway: the constant
        never stands there in the graph, or is one step away by a relation that leads no node to itself."""
        constants: list[Const] = []
        for left, right in tree.unequal:
            for one, other in ((left, right), (right, left)):
                if one != variable or self._open(tree, other) or not self._may_meet(tree, one, other):
                    continue
                constant = operand(self.sets, tree.values.get(other, other))
                between = [e for e in tree.edges if {e.subject, e.object} == {one, other}]
                apart = any(not self.sets.graph.loops(e.relation) for e in between)
                if not apart and constant not in constants:
                    constants.append(constant)
        return constants

    def _rows(self, tree: PatternTree, answer: Any, value: Any) -> tuple[Pick, str, str]:
        """Rows where ``answer`` and ``value`` stand side by side, and their columns."""
        self._check(tree, answer)
        last = [e for e in tree.edges if value in (e.subject, e.object)]
        if len(last) != 1 or last[0].object != value:
            raise NotATree
        centre = last[0].subject
        # The ranked value hangs on ``centre``; the answer is the centre or hangs on it too, in the same BOX.
        place, back = self.sets.place(last[0].relation)
        link = [e for e in tree.edges if {e.subject, e.object} == {centre, answer}]
        if back or not self._open(tree, centre) or (answer != centre and len(link) != 1):
            raise NotATree
        column, rest = place.subject, None
        if answer != centre:
            here, turned = self.sets.place(link[0].relation)
            if here.box is not place.box or turned != (link[0].subject == answer):
                raise NotATree
            column, rest = here.column, self._solve(tree, answer, (link[0],))
        base = self._solve(tree, centre, (last[0], *link)) or Pick(place.box, place.subject)
        if not isinstance(base, Pick) or base.box is not place.box or base.answer != place.subject:
            base = self.sets.both(Pick(place.box, place.subject), base)
        assert isinstance(base, Pick)
        # A multi-valued column that a condition has cut down no longer shows all values beside each other.
        if {place.column, column} & base.used - {place.subject}:
            raise NotATree
        if rest is not None:
            narrowed = self.sets.both(Pick(place.box, column), rest)
            assert isinstance(narrowed, Pick)
            base = base.where(*narrowed.conditions) if narrowed.box is place.box else base
        elif column != place.subject:
            base = base.where(Condition(column, "notna"))
        for op, bound in tree.compared.get(value, []):
            base = base.where(Condition(place.column, op, Const(bound)))
        return base, column, place.column

    def _superlative(self, tree: PatternTree, answer: Any, value: Any, largest: bool) -> Pick:
        if not _same(tree, self.inner, value, self.inner_value):
            raise NotATree
        base, column, ranked = self._rows(tree, answer, value)
        return self.sets.best(base, column, ranked, largest)

    def _ordered(self, tree: PatternTree, answer: Any, order: Any, limit: int) -> Compiled:
        """``ORDER BY ?value LIMIT n``."""
        if len(order) != 1 or not isinstance(plain(order[0].expr), Variable):
            raise NotATree
        base, column, ranked = self._rows(tree, answer, plain(order[0].expr))
        return self.sets.first(base, column, ranked, order[0].order == "DESC", limit)


def _distinct_inside(p: Any, variable: Any) -> bool:
    """``COUNT(?x)`` over a ``SELECT DISTINCT ?x``."""
    return bool(p.name == "ToMultiSet" and p.p.name == "Distinct" and list(p.p.p.PV) == [variable])


def _same(outer: PatternTree, inner: PatternTree, value: Any, inner_value: Any) -> bool:
    """Whether the subquery has the patterns of the rest, under one renaming of its variables."""
    names: dict[Any, Any] = {inner_value: value}

    def shape(tree: PatternTree, rename: bool) -> tuple[Any, ...]:
        def term(t: Any) -> Any:
            t = tree.values.get(t, t)
            if rename and isinstance(t, Variable):
                return names.setdefault(t, Variable(f"x{str(t)[1:]}"))
            return t
        edges = {(term(e.subject), e.relation, term(e.object)) for e in tree.edges}
        kinds = {(term(v), k) for v, many in tree.classes.items() for k in many}
        tests = {(term(v), t) for v, many in tree.compared.items() for t in many}
        return edges, kinds, tests, {frozenset((term(a), term(b))) for a, b in tree.unequal}

    return shape(outer, False) == shape(inner, True)
