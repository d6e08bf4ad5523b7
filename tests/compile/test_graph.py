"""Graph queries as pandas: what each operator gives, and how the code and its reasoning read."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from pandora_train.box.graph import boxes_of
from pandora_train.box.triples import Graph, Ontology, build
from pandora_train.compile import Compiled, Unsupported
from pandora_train.compile.graph.path import compile_path
from pandora_train.compile.graph.sexpr import compile_sexpr
from pandora_train.compile.graph.sparql import compile_sparql

HELD, POLITICIAN = "government.government_position_held", "government.politician.government_positions_held"
TRIPLES = [
    ("m.1", f"{HELD}.office_holder", "Ada"), ("m.1", f"{HELD}.basic_title", "Mayor"),
    ("m.1", f"{HELD}.from", "2001-02-03"), ("m.1", f"{HELD}.to", "2005"), ("m.1", f"{HELD}.place", "Kiel"),
    ("m.2", f"{HELD}.office_holder", "Ada"), ("m.2", f"{HELD}.basic_title", "Senator"),
    ("m.2", f"{HELD}.from", "2005-06-01"), ("m.2", f"{HELD}.place", "Ulm"),
    ("m.3", f"{HELD}.office_holder", "Bo"), ("m.3", f"{HELD}.basic_title", "Mayor"),
    ("m.3", f"{HELD}.from", "1999"), ("m.3", f"{HELD}.to", "2001-01-01"), ("m.3", f"{HELD}.place", "Ulm"),
    ("Kiel", "location.city.population", "246000"), ("Ulm", "location.city.population", "128000"),
    ("Ada", "people.person.mentor", "Bo"), ("Bo", "people.person.mentor", "Ada"),
]
NAMES = {"m.0ada": "Ada", "m.0mayor": "Mayor", "m.0kiel": "Kiel", "m.0ulm": "Ulm"}
FREEBASE = "PREFIX ns: <http://rdf.freebase.com/ns/>\n"


def graph() -> Graph:
    heads, relations, tails = zip(*TRIPLES, strict=True)
    ranges = {"location.city.population": "type.int", f"{HELD}.from": "type.datetime",
              f"{HELD}.to": "type.datetime"}
    inverse = {f"{HELD}.office_holder": POLITICIAN, POLITICIAN: f"{HELD}.office_holder"}
    return build(heads, relations, tails, Ontology(range=ranges, reverse=inverse), NAMES)


def run(program: Compiled, store: Graph) -> set[str]:
    names: dict[str, Any] = {**boxes_of(store, ["Ada"], 3).frames(), "pd": pd}
    exec(program.code, names)
    assert all(isinstance(row, list) for row in names["result"])
    return {str(row[0]) for row in names["result"]}


def sexpr(text: str) -> Compiled:
    return compile_sexpr(text, boxes_of(graph(), ["Ada"], 3), graph())


@pytest.mark.parametrize(("text", "answers"), [
    (f"(JOIN (R {HELD}.basic_title) (JOIN (R {POLITICIAN}) m.0ada))", {"Mayor", "Senator"}),
    (f"(JOIN {HELD}.basic_title m.0mayor)", {"m.1", "m.3"}),
    (f"(JOIN {POLITICIAN} (JOIN {HELD}.place m.0ulm))", {"Ada", "Bo"}),
    (f"(AND government.politician (JOIN {POLITICIAN} (JOIN {HELD}.basic_title m.0mayor)))", {"Ada", "Bo"}),
    (f"(AND (JOIN {POLITICIAN} (JOIN {HELD}.place m.0ulm)) (JOIN people.person.mentor m.0ada))", {"Bo"}),
    (f"(COUNT (JOIN (R {POLITICIAN}) m.0ada))", {"2"}),
    (f"(ARGMAX (JOIN (R {POLITICIAN}) m.0ada) {HELD}.from)", {"m.2"}),
    (f"(ARGMIN {HELD} {HELD}.from)", {"m.3"}),
    ("(ARGMAX location.city location.city.population)", {"Kiel"}),
    (f"(ARGMAX (JOIN (R {HELD}.place) (JOIN (R {POLITICIAN}) m.0ada)) (JOIN (R {HELD}.place) {HELD}.from))",
     {"Ulm"}),
    ("(AND location.city (gt location.city.population 200000^^http://www.w3.org/2001/XMLSchema#integer))",
     {"Kiel"}),
    (f"(lt {HELD}.from 2001-02-03^^http://www.w3.org/2001/XMLSchema#date)", {"m.3"}),
    (f"(ge {HELD}.from 1999-01-01^^http://www.w3.org/2001/XMLSchema#date)", {"m.1", "m.2", "m.3"}),
    (f"(JOIN (R {HELD}.place) (TC (JOIN (R {POLITICIAN}) m.0ada) {HELD}.from 2003))", {"Kiel"}),
    (f"(JOIN (R {HELD}.place) (TC (JOIN (R {POLITICIAN}) m.0ada) {HELD}.from NOW))", {"Ulm"}),
    (f"(JOIN (R {HELD}.place) (TC (JOIN (R {POLITICIAN}) m.0ada) {HELD}.from 2005))", {"Kiel", "Ulm"}),
    (f"(JOIN {HELD}.to 2005^^http://www.w3.org/2001/XMLSchema#gYear)", {"m.1"}),
])
def test_each_operator(text: str, answers: set[str]) -> None:
    assert run(sexpr(text), graph()) == answers


def test_conditions_on_one_mediator_are_filters_on_its_rows() -> None:
    program = sexpr(f"(JOIN (R {HELD}.place) (AND (JOIN (R {POLITICIAN}) m.0ada) "
                    f"(JOIN {HELD}.basic_title m.0mayor)))")
    assert program.code.splitlines() == [
        "held_rows = government_position_held[government_position_held['office_holder'] == 'Ada']",
        "held_rows = held_rows[held_rows['basic_title'] == 'Mayor']",
        "answers = held_rows['place'].dropna().unique()",
        "result = [[value] for value in answers]",
    ]
    assert program.reasoning.splitlines() == [
        "1. Keep the government_position_held rows whose office_holder is 'Ada'.",
        "2. Of these, keep the rows whose basic_title is 'Mayor'.",
        "3. Take the distinct place values of these rows.",
        "4. Return one row per value.",
    ]


def test_names_from_outside_the_store_come_first() -> None:
    boxes = boxes_of(graph(), ["Ada"], 3)
    text = f"(JOIN (R {POLITICIAN}) m.0nobody)"
    assert run(compile_sexpr(text, boxes, graph(), {"m.0nobody": "Bo"}), graph()) == {"m.3"}
    assert run(compile_sexpr(text, boxes, graph()), graph()) == set()


@pytest.mark.parametrize(("text", "reason"), [
    ("(JOIN no.such.relation m.0ada)", "relation not in the BOXes"),
    ("(FOO a b)", "operator"), ("(COUNT)", "operator"), ("(JOIN a", "unbalanced brackets"), ("a) (", "unbalanced brackets"),
    ("no.such.class", "class not in the BOXes"),
    ("(gt location.city.population big)", "text compared with numbers"),
])
def test_what_is_not_covered_has_a_named_reason(text: str, reason: str) -> None:
    with pytest.raises(Unsupported) as caught:
        sexpr(text)
    assert caught.value.reason == reason


def test_two_values_of_one_relation_stand_in_different_rows() -> None:
    store = build(["a", "a", "b"], ["likes"] * 3, ["x", "y", "x"], Ontology())
    boxes = boxes_of(store, ["a", "b"], 1)
    names: dict[str, Any] = dict(boxes.frames())
    exec(compile_sexpr("(AND (JOIN likes x) (JOIN likes y))", boxes, store).code, names)
    assert names["result"] == [["a"]]


def test_paths() -> None:
    store = build(["a", "b", "c"], ["parent", "parent", "job"], ["b", "c", "Cook"], Ontology())
    boxes = boxes_of(store, ["a"], 3)
    program = compile_path("parent -> parent -> job", boxes, store, "a")
    names: dict[str, Any] = dict(boxes.frames())
    exec(program.code, names)
    assert names["result"] == [["Cook"]]
    backwards = compile_path("^parent", boxes, store, "b")
    exec(backwards.code, names)
    assert names["result"] == [["a"]]
    with pytest.raises(Unsupported, match="path without one topic"):
        compile_path("parent", boxes, store)


def sparql(text: str) -> Compiled:
    return compile_sparql(FREEBASE + text, boxes_of(graph(), ["Ada"], 3), graph())


LANGUAGE = "FILTER (!isLiteral(?x) OR lang(?x) = '' OR langMatches(lang(?x), 'en'))"
DURING = f"""FILTER(NOT EXISTS {{?y ns:{HELD}.from ?a}} ||
    EXISTS {{?y ns:{HELD}.from ?b . FILTER(xsd:datetime(?b) <= "2003-12-31"^^xsd:dateTime) }})
    FILTER(NOT EXISTS {{?y ns:{HELD}.to ?c}} ||
    EXISTS {{?y ns:{HELD}.to ?d . FILTER(xsd:datetime(?d) >= "2003-01-01"^^xsd:dateTime) }})"""


@pytest.mark.parametrize(("text", "answers"), [
    (f"SELECT DISTINCT ?x {{ FILTER (?x != ns:m.0ada) {LANGUAGE} ns:m.0ada ns:{POLITICIAN} ?y . "
     f"?y ns:{HELD}.place ?x }}", {"Kiel", "Ulm"}),
    (f"SELECT DISTINCT ?x {{ ns:m.0ada ns:{POLITICIAN} ?y . ?y ns:{HELD}.place ?x . {DURING} }}", {"Kiel"}),
    (f"SELECT DISTINCT ?x {{ ?y ns:{HELD}.office_holder ?x . ?y ns:{HELD}.from ?n }} "
     "ORDER BY xsd:datetime(?n) LIMIT 1", {"Bo"}),
    (f"SELECT DISTINCT ?x {{ ns:m.0ada ns:{POLITICIAN} ?y . ?y ns:{HELD}.place ?x . ?y ns:{HELD}.from ?n }} "
     "ORDER BY DESC(xsd:datetime(?n)) LIMIT 1", {"Ulm"}),
    (f"SELECT (COUNT(DISTINCT ?x) AS ?n) {{ ?y ns:{HELD}.office_holder ?x }}", {"2"}),
    ("SELECT DISTINCT ?x { ns:m.0ada ns:people.person.mentor ?y . ?y ns:people.person.mentor ?x . "
     "FILTER(?x != ns:m.0ada) }", set()),
    ("SELECT ?x { ?x ns:location.city.population ?n . FILTER(?n < 200000) }", {"Ulm"}),
    ("SELECT ?x { ?x ns:people.person.mentor ?y . ?y ns:people.person.mentor ?x . FILTER(?x != ?y) }",
     {"Ada", "Bo"}),
    (f"SELECT DISTINCT ?x {{ {{ ?x ns:{HELD}.place ns:m.0kiel }} UNION {{ ?x ns:{HELD}.place ns:m.0ulm }} }}",
     {"m.1", "m.2", "m.3"}),
    (f"SELECT DISTINCT ?x {{ ?y ns:{HELD}.office_holder ?x . ?y ns:{HELD}.place ?z . FILTER(?z != ns:m.0ulm) }}", {"Ada"}),
    (f"SELECT DISTINCT ?x {{ ?x ns:{HELD}.place ns:m.0ulm . OPTIONAL {{ ?x ns:{HELD}.to ?t }} }}",
     {"m.2", "m.3"}),
])
def test_sparql(text: str, answers: set[str]) -> None:
    assert run(sparql(text), graph()) == answers


def test_sparql_reads_like_the_same_s_expression() -> None:
    query = f"SELECT DISTINCT ?x {{ ns:m.0ada ns:{POLITICIAN} ?y . ?y ns:{HELD}.place ?x . " \
            f"?y ns:{HELD}.basic_title ns:m.0mayor }}"
    form = f"(JOIN (R {HELD}.place) (AND (JOIN {HELD}.basic_title m.0mayor) (JOIN (R {POLITICIAN}) m.0ada)))"
    assert sparql(query) == sexpr(form)


@pytest.mark.parametrize(("text", "reason"), [
    ("SELECT nonsense", "does not parse"), ("ASK { ?x ?y ?z }", "not a SELECT query"),
    ("SELECT ?x { ?x ?p ?y }", "variable as predicate"),
    ("SELECT ?x { FILTER(?x != ns:m.0ada) FILTER(?x != ns:m.0kiel || ?x = ns:m.0ulm) }", "pattern without triples"),
    ("SELECT ?x { VALUES ?x { } ?x ns:people.person.mentor ?y }", "SPARQL operator"),
    ("SELECT ?x { ?x ns:people.person.mentor ?y FILTER(?y != ns:m.0ada + 1) }", "filter"),
    ("SELECT ?y (COUNT(?x) AS ?n) { ?x ns:people.person.mentor ?y } GROUP BY ?y", "GROUP BY"),
])
def test_sparql_that_is_not_covered_has_a_named_reason(text: str, reason: str) -> None:
    with pytest.raises(Unsupported) as caught:
        sparql(text)
    assert caught.value.reason == reason
