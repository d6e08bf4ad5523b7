"""Random small graphs and queries: pyoxigraph against the compiled pandas over the graph's BOXes.

S-expressions are put to pyoxigraph as SPARQL that says the same; random SPARQL goes to both as it is.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad, Store

from pandora_train.box.graph import boxes_of
from pandora_train.box.rdf import graph_of_terms
from pandora_train.compile import Compiled, Unsupported
from pandora_train.compile.graph.sexpr import compile_sexpr
from pandora_train.compile.graph.sparql import compile_sparql

EX = "http://example.org/"
XSD = "http://www.w3.org/2001/XMLSchema#"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
INVERSE = "http://www.w3.org/2002/07/owl#inverseOf"
PREFIXES = f"PREFIX : <{EX}> PREFIX xsd: <{XSD}>\n"
NODES = [f"n{i}" for i in range(6)]
LINKS = ["knows", "likes", "parent"]
DAYS = ["2001", "2001-02", "2001-02-03", "2003-01-01", "2004-05-06"]
OPERATORS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def iri(name: str) -> NamedNode:
    return NamedNode(EX + name)


def random_graph(random: Random) -> list[tuple[Any, NamedNode, Any]]:
    """Links, numbers, maybe types (one or two a node), maybe a declared inverse that has triples too."""
    triples: set[tuple[Any, NamedNode, Any]] = set()
    for _ in range(random.randint(1, 14)):
        triples.add((iri(random.choice(NODES)), iri(random.choice(LINKS)), iri(random.choice(NODES))))
    for node in NODES:
        for _ in range(random.choice([0, 1, 1, 2])):
            age = Literal(str(random.randint(1, 5)), datatype=NamedNode(XSD + "integer"))
            triples.add((iri(node), iri("age"), age))
    if kinds := random.choice([0, 1, 2]):
        for node in NODES:
            for kind in random.sample(["A", "B", "C"], random.randint(1, kinds)):
                triples.add((iri(node), NamedNode(RDF_TYPE), iri(kind)))
    if random.random() < 0.3:
        triples.add((iri("parent"), NamedNode(INVERSE), iri("child")))
        for s, p, o in list(triples):
            if p == iri("parent"):
                triples.add((o, iri("child"), s))
    return sorted(triples, key=str)


def run(program: Compiled, boxes: Any) -> list[tuple[str, ...]]:
    """Rows that the program gives, as text."""
    names: dict[str, Any] = {**boxes.frames(), "pd": pd}
    exec(program.code, names)
    return [tuple(str(cell) for cell in row) for row in names["result"]]


def expected(triples: list[tuple[Any, NamedNode, Any]], query: str) -> list[tuple[str, ...]]:
    store = Store()
    for s, p, o in triples:
        store.add(Quad(s, p, o))
    solutions = store.query(PREFIXES + query)
    return [tuple("" if cell is None else cell.value.removeprefix(EX) for cell in row)
            for row in solutions]  # type: ignore[union-attr]


class Forms:
    """Random s-expressions with the SPARQL pattern that says the same about a variable."""

    def __init__(self, random: Random, kinds: list[str]) -> None:
        self.random, self.kinds, self.count = random, kinds, 0

    def variable(self) -> str:
        self.count += 1
        return f"?v{self.count}"

    def nodes(self, x: str, depth: int) -> tuple[str, str]:
        """A set of nodes bound to ``x``."""
        choice = self.random.randint(0, 5 if depth else 1)
        link = self.random.choice(LINKS)
        if choice == 0:
            node = self.random.choice(NODES)
            return f"(JOIN {link} {node})", f"{x} :{link} :{node} ."
        if choice == 1:
            node = self.random.choice(NODES)
            return f"(JOIN (R {link}) {node})", f":{node} :{link} {x} ."
        if choice == 2:
            op, bound = self.random.choice(list(OPERATORS)), self.random.randint(1, 5)
            y = self.variable()
            return f"({op} age {bound}^^{XSD}integer)", f"{x} :age {y} . FILTER({y} {OPERATORS[op]} {bound})"
        if choice == 3:
            (a, left), (b, right) = self.nodes(x, depth - 1), self.nodes(x, depth - 1)
            return f"(AND {a} {b})", f"{left} {right}"
        y = self.variable()
        inner, pattern = self.nodes(y, depth - 1)
        if choice == 4:
            return f"(JOIN {link} {inner})", f"{x} :{link} {y} . {pattern}"
        return f"(JOIN (R {link}) {inner})", f"{y} :{link} {x} . {pattern}"

    def whole(self) -> tuple[str, str]:
        """A whole expression and its SPARQL query."""
        form, pattern = self.nodes("?x", 2)
        if self.kinds and self.random.random() < 0.3:
            kind = self.random.choice(self.kinds)
            form, pattern = f"(AND {kind} {form})", f"{pattern} ?x a :{kind} ."
        choice = self.random.randint(0, 5)
        if choice == 0:
            return f"(COUNT {form})", f"SELECT (COUNT(DISTINCT ?x) AS ?n) {{ {pattern} }}"
        if choice == 1:
            word, function = self.random.choice([("ARGMAX", "MAX"), ("ARGMIN", "MIN")])
            best = f"{{ SELECT ({function}(?a) AS ?m) {{ {pattern} ?x :age ?a }} }}"
            return f"({word} {form} age)", f"SELECT DISTINCT ?x {{ {pattern} ?x :age ?m . {best} }}"
        return form, f"SELECT DISTINCT ?x {{ {pattern} }}"


class Queries:
    """Random SPARQL in the manner of WebQSP and GrailQA, cycles included."""

    def __init__(self, random: Random, kinds: list[str]) -> None:
        self.random, self.kinds = random, kinds

    def term(self, variables: list[str]) -> str:
        return self.random.choice([*variables, *variables, f":{self.random.choice(NODES)}"])

    def pattern(self, variables: list[str]) -> str:
        """Connected triple patterns over ``variables``."""
        lines = []
        for before, after in pairwise(variables):
            pair = [before, after]
            self.random.shuffle(pair)
            lines.append(f"{pair[0]} :{self.random.choice(LINKS)} {pair[1]} .")
        for _ in range(self.random.randint(0 if lines else 1, 2)):
            ends = [self.random.choice(variables), self.term(variables)]
            self.random.shuffle(ends)
            lines.append(f"{ends[0]} :{self.random.choice(LINKS)} {ends[1]} .")
        if self.kinds and self.random.random() < 0.3:
            lines.append(f"{self.random.choice(variables)} a :{self.random.choice(self.kinds)} .")
        return " ".join(lines)

    def extra(self, variables: list[str]) -> str:
        v, w = self.random.choice(variables), self.random.choice(variables)
        link, node = self.random.choice(LINKS), self.random.choice(NODES)
        op, bound = self.random.choice(list(OPERATORS.values())), self.random.randint(1, 5)
        return self.random.choice([
            f"FILTER({v} != :{node})", f"{v} :age ?a . FILTER(?a {op} {bound})", f"FILTER({v} != {w})" * (v != w),
            f"OPTIONAL {{ {v} :{link} ?o }}", f"FILTER NOT EXISTS {{ {v} :{link} :{node} }}",
            f"FILTER EXISTS {{ {v} :{link} ?e }}", f"MINUS {{ {v} :{link} :{node} }}",
            f"{{ {v} :likes :{node} }} UNION {{ {v} :knows :{node} }}", f"VALUES {v} {{ :{node} :n0 }}",
            f"FILTER(NOT EXISTS {{ {v} :age ?b }} || EXISTS {{ {v} :age ?c . FILTER(?c {op} {bound}) }})", "",
        ])

    def whole(self) -> tuple[str, bool]:
        """A query, and whether its rows are compared in their number as well."""
        variables = ["?x", "?y", "?z"][: self.random.randint(1, 3)]
        body = f"{self.pattern(variables)} {self.extra(variables)} {self.extra(variables)}"
        form = self.random.randint(0, 5)
        if form == 0:
            return f"SELECT (COUNT(DISTINCT ?x) AS ?n) {{ {body} }}", True
        if form == 1:
            return f"SELECT {' '.join(variables)} {{ {body} }}", True
        if form == 2:
            order = self.random.choice(["?g", "DESC(?g)"])
            return f"SELECT DISTINCT ?x {{ {body} ?x :age ?g }} ORDER BY {order} ?x LIMIT 2", True
        return f"SELECT DISTINCT ?x {{ {body} }}", True


def kinds_of(triples: list[tuple[Any, NamedNode, Any]]) -> list[str]:
    return sorted({o.value.removeprefix(EX) for _, p, o in triples if p.value == RDF_TYPE})


def check(seed: int, counts: Counter[str]) -> None:
    """One graph, four s-expressions and four queries."""
    random = Random(seed)
    triples = random_graph(random)
    graph = graph_of_terms(triples)
    boxes = boxes_of(graph, [*NODES], 1)
    forms, queries = Forms(random, kinds_of(triples)), Queries(random, kinds_of(triples))
    for number in range(8):
        if number % 2:
            text, query = forms.whole()
            compiler = compile_sexpr
        else:
            query, _ = queries.whole()
            text, compiler = PREFIXES + query, compile_sparql
        try:
            program = compiler(text, boxes, graph)
        except Unsupported as e:
            counts[e.reason] += 1
            continue
        counts["compared"] += 1
        got, want = run(program, boxes), expected(triples, query)
        note = f"seed {seed}\n{text}\n{query}\n{program.code}\n{[tuple(map(str, t)) for t in triples]}"
        if number % 2 == 0 and "DISTINCT" not in query:
            cells = [tuple("nan" if c == "" else c for c in row) for row in want]
            assert Counter(got) == Counter(cells), note
        else:
            assert set(got) == set(want), note


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_compiled_graph_queries_answer_as_pyoxigraph_does(seed: int) -> None:
    check(seed, Counter())


@pytest.mark.slow
def test_most_random_graph_queries_are_covered() -> None:
    counts: Counter[str] = Counter()
    for seed in range(150):
        check(seed, counts)
    absent = counts["relation not in the BOXes"] + counts["class not in the BOXes"]
    assert counts["compared"] / (counts.total() - absent) > 0.9, counts
