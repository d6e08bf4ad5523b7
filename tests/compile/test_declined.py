"""Whatever label comes: it compiles, or :class:`Unsupported` says why not; nothing else is ever raised."""

from __future__ import annotations

import json
import random
import re
from functools import cache
from pathlib import Path

import pytest
import sql_grammar
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlite_boxes import boxes_in

from pandora_train.box import boxes_for
from pandora_train.box.box import BoxSet
from pandora_train.compile import Compiled, Unsupported, compile_label
from pandora_train.records import Example
from pandora_train.sources import DataConfig, load

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample"
Labelled = tuple[Example, BoxSet]
TOKEN = re.compile(r"""\s+|\w+|'[^']*'|"[^"]*"|.""")
ODD = ["(", ")", "'", '"', "NULL", "*", "-1", "0", "1e999", "é", "\x00", "?x", "ns:", "{", "}", "[1]", ";", "--", "->", "^", "=", ">", "|", ".", ",", "SELECT", "DISTINCT", "FROM", "WHERE", "LIMIT", "OFFSET", "max", "IN", "NOT", "JOIN", "LEFT", "UNION", "OR", "AND", "R", "COUNT", "ARGMAX", "TC", "NOW", "lt", "FILTER", "OPTIONAL", "MINUS", "VALUES", "GROUP", "BY", "ORDER", "HAVING", "DESC", "OVER", "WITH", "CASE", "END", "CAST", "EXISTS", "BETWEEN", "LIKE", "AS", "strftime", "output_of_query1", "output_of_query0", "row_number"]
"""Pieces that may stand anywhere in a mutated label."""
SPARQL = [
    "?x ns:film.film.directed_by ns:m.0p031 . ?x ns:film.film.release_year ?d } ORDER BY DESC(?d) LIMIT 1",
    "{ ?x ns:film.film.directed_by ns:m.0p031 } UNION { ?x ns:film.film.genre ?g } }",
    "?x ns:film.film.directed_by ?p . OPTIONAL { ?x ns:film.film.genre ?g } MINUS { ?x a ns:film.film } }",
    "VALUES ?p { ns:m.0p031 } ?x ns:film.film.directed_by ?p . FILTER EXISTS { ?x ns:film.film.genre ?g } }",
    "?x ns:film.film.release_year ?r . { SELECT (MAX(?s) AS ?r) { ?y ns:film.film.release_year ?s } } }",
    "?x ns:film.film.directed_by ?p ; ns:film.film.release_year ?r FILTER (?r > 1990 || !(?x != ?p)) } GROUP BY ?p",
]
STEPS = [
    "Query1: \"get_information(relation='film.film.directed_by', tail_entity='m.0p031')\"\n"
    "Query2: \"set_intersection(set1='output_of_query1', set2='output_of_query1')\"\nQuery3: \"count(set='output_of_query2')\"",
]
PATHS = ["film.director.films -> film.film.genre", "^film.film.directed_by -> people.person.place_of_birth"]
SQUALL = [
    [("Keyword", "select"), ("Column", "c1"), ("Keyword", "from"), ("Keyword", "w"), ("Keyword", "where"),
     ("Column", "c2_number"), ("Keyword", ">"), ("Literal.Number", "3")],
    [("Keyword", "select"), ("Keyword", "max"), ("Keyword", "("), ("Column", "c2"), ("Keyword", ")"), ("Keyword", "from"),
     ("Keyword", "w"), ("Keyword", "limit"), ("Literal.Number", "1")],
]


def relabelled(example: Example, language: str, label: str) -> Example:
    gold = example.gold.model_copy(update={"language": language, "program": label})
    return example.model_copy(update={"gold": gold})


@cache
def labelled() -> dict[str, list[Labelled]]:
    """Questions and their BOXes by the language of their labels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(SAMPLE.parents[1])
        spider, wikitq, grailqa, webqsp = (
            [(e, boxes_for(e.knowledge)) for e in load(DataConfig(benchmark=name, path=str(SAMPLE / name), split="train"))]
            for name in ("spider", "wikitq", "grailqa", "webqsp"))
    rng = random.Random(1)
    shops = boxes_in(sql_grammar.database(rng))
    (film, boxes), (table, rows) = grailqa[0], wikitq[0]
    opening = webqsp[0][0].gold.program.partition("\n")[0] + "\nSELECT ?x { "
    return {
        "sql": spider + [(relabelled(spider[0][0], "sql", sql_grammar.Query(rng).one()), shops) for _ in range(80)],
        "sexpr": grailqa,
        "sparql": webqsp + [(relabelled(film, "sparql", opening + query), boxes) for query in SPARQL],
        "steps": wikitq + [(relabelled(film, "steps", steps), boxes) for steps in STEPS],
        "path": [(relabelled(film, "path", path), boxes) for path in PATHS],
        "squall": [(relabelled(table, "squall", json.dumps([[k, v, []] for k, v in tokens])), rows) for tokens in SQUALL],
    }


def mutated(label: str, other: str, rng: random.Random) -> str:
    """``label`` with a few changes: cut, joined with ``other``, or tokens lost, doubled, swapped, exchanged."""
    tokens, pieces = TOKEN.findall(label), [*ODD, *TOKEN.findall(other) * 3]
    for _ in range(rng.choice([1, 1, 2, 4])):
        first, last = sorted(rng.randrange(len(tokens) + 1) for _ in range(2))
        if (change := rng.randrange(10)) == 0:
            tokens = tokens[:first]
        elif change == 1:
            tokens = tokens[:first] + TOKEN.findall(other)[last:]
        elif change == 2:
            del tokens[first:min(last, first + 8)]
        elif change == 3:
            tokens[last:last] = tokens[first:last]
        elif change < 6:
            tokens[first:first + 1], tokens[last:last + 1] = tokens[last:last + 1], tokens[first:first + 1]
        elif change < 8:
            tokens[first:first + 1] = [rng.choice(pieces)]
        else:
            tokens.insert(first, f" {rng.choice(pieces)} ")
    return "".join(tokens)


def compiled(example: Example, boxes: BoxSet) -> Compiled | None:
    """``None`` for a label that is declined."""
    try:
        return compile_label(example, boxes)
    except Unsupported:
        return None


@pytest.mark.parametrize("language", ["sql", "sexpr", "sparql", "steps", "path", "squall"])
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False))
def test_mutated_labels_compile_or_are_declined(language: str, rng: random.Random) -> None:
    (example, boxes), (other, _) = rng.choice(labelled()[language]), rng.choice(labelled()[language])
    label = mutated(example.gold.program, other.gold.program, rng)
    if (program := compiled(relabelled(example, language, label), boxes)) is not None:
        compile(program.code, label, "exec")


@pytest.mark.parametrize("language", ["sql", "sexpr", "sparql", "steps", "path", "squall"])
@pytest.mark.parametrize("label", ["", " ", "\x00", "()", "[]", "((", "{}", "null", "->", "^", "1", '"', "'", "SELECT"])
def test_labels_of_nothing_are_declined(language: str, label: str) -> None:
    example, boxes = labelled()[language][0]
    assert compiled(relabelled(example, language, label), boxes) is None or label == "1"


@pytest.mark.parametrize(("language", "label"), [
    ("sql", "SELECT " + "(" * 3000 + "1" + ")" * 3000), ("sql", "SELECT " + "-" * 5000 + "1"),
    ("sexpr", "(COUNT " * 3000 + "m.0p031" + ")" * 3000), ("sexpr", "(JOIN film.film.genre " * 3000 + "m.0p031" + ")" * 3000),
    ("sparql", "SELECT ?x " + "{" * 3000 + "}" * 3000), ("squall", "[" * 100_000),
])
def test_labels_nested_beyond_all_measure_are_declined(language: str, label: str) -> None:
    example, boxes = labelled()[language][0]
    assert compiled(relabelled(example, language, label), boxes) is None


@pytest.mark.parametrize("language", ["sexpr", "sparql", "path"])
def test_a_graph_label_over_a_database_is_declined(language: str) -> None:
    example, boxes = labelled()["sql"][0]
    assert compiled(relabelled(example, language, "(AND a b)"), boxes) is None
