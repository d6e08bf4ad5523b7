"""Entity linking and the relation filter, on small graphs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from pandora_train.box.link import link, topics_of
from pandora_train.box.relations import RelationFilter, relation_lists, relation_text
from pandora_train.box.triples import Graph, Ontology, build
from pandora_train.errors import UserError
from pandora_train.records import GraphKnowledge

TRIPLES = [
    ("New York", "location.city.country", "United States of America"),
    ("New York City Ballet", "organization.organization.place", "New York"),
    ("Jaxon Müller", "people.person.place_of_birth", "New York"),
    ("Jaxon Müller", "people.person.profession", "Dancer"),
    ("m.0abc", "film.performance.actor", "Jaxon Müller"),
    ("m.0abc", "film.performance.film", "Night"),
    ("Night", "film.film.running_time", "97"),
]


def graph() -> Graph:
    heads, relations, tails = zip(*TRIPLES, strict=True)
    return build(heads, relations, tails, Ontology(range={"film.film.running_time": "type.int"}),
                 {"m.02_286": "New York", "The Big Apple": "New York"})


def test_longest_mention_wins_and_mentions_do_not_overlap() -> None:
    assert topics_of("Who founded the New York City Ballet in New York?", graph()) == (
        "New York City Ballet", "New York")


def test_alias_and_id_of_the_source() -> None:
    found = link("people born in the Big Apple", graph())
    assert [(c.node, c.how) for c in found] == [("New York", "alias")]
    assert graph().start("m.02_286").tolist() == graph().start("New York").tolist()


def test_near_spelling_and_accents() -> None:
    assert topics_of("where was jaxon muller born", graph()) == ("Jaxon Müller",)
    near = link("where was jakson muller born", graph())
    assert [(c.node, c.how) for c in near] == [("Jaxon Müller", "spelling")]


def test_mediators_and_values_are_no_mentions() -> None:
    assert topics_of("what is 97 minus m.0abc", graph()) == ()


def test_types_stand_in_when_no_entity_is_named() -> None:
    found = link("which films run longest?", graph())
    assert [(c.node, c.how) for c in found] == [("film.film", "type")]
    assert list(graph().nodes[graph().start("film.film")]) == ["Night"]


def test_candidates_are_limited_and_ranked_by_their_triples() -> None:
    heads = ["Paris", *["Paris (Texas)"] * 3, "Paris"]
    store = build(heads, ["r"] * 5, list("abcde"), Ontology(), {"PARIS": "Paris (Texas)"})
    found = link("paris", store, limit=2)
    assert [(c.node, c.how) for c in found] == [("Paris", "name"), ("Paris (Texas)", "alias")]


# --- relation filter ------------------------------------------------------------------------------------


def bag_of_words(texts: list[str]) -> npt.NDArray[np.float64]:
    """Unit vectors over a few words: an encoder whose similarities can be worked out by hand."""
    vocabulary = ["person", "place", "birth", "film", "profession", "country", "born"]
    rows = np.array([[float(word in text.lower().split()) for word in vocabulary] for text in texts]) + 1e-9
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def store_file(folder: Path) -> GraphKnowledge:
    file = folder / "kb.txt"
    file.write_text("\n".join("\t".join(t) for t in TRIPLES))
    return GraphKnowledge(store=str(file), topics=("Jaxon Müller",), hops=1)


def test_filter_keeps_the_nearest_relations(tmp_path: Path) -> None:
    knowledge = store_file(tmp_path)
    nearest = RelationFilter(bag_of_words, top=1)(knowledge, "place of birth")
    assert nearest.relations == ("people.person.place_of_birth",)
    assert RelationFilter(bag_of_words, top=9, threshold=0.9)(knowledge, "profession").relations == ()
    assert len(RelationFilter(bag_of_words, top=9)(knowledge, "profession").relations or ()) == 3


def test_given_relations_are_left_alone(tmp_path: Path) -> None:
    knowledge = store_file(tmp_path).model_copy(update={"relations": ("people.person.profession",)})
    assert RelationFilter(bag_of_words, top=1)(knowledge, "film") is knowledge


def test_relations_are_encoded_once(tmp_path: Path) -> None:
    seen: list[str] = []

    def encode(texts: list[str]) -> npt.NDArray[np.float64]:
        seen.extend(texts)
        return bag_of_words(texts)

    chosen = RelationFilter(encode)
    chosen(store_file(tmp_path), "one")
    chosen(store_file(tmp_path), "two")
    assert sorted(seen) == sorted({*seen})
    assert {"one", "two"} < {*seen}


def test_relation_lists_from_json_and_lines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"q1": ["r", "s"], "q2": []}))
    (tmp_path / "b.jsonl").write_text('{"q1": ["r"]}\n\n{"q2": ["s"]}\n')
    assert relation_lists(tmp_path / "a.json") == {"q1": ("r", "s"), "q2": ()}
    assert relation_lists(tmp_path / "b.jsonl") == {"q1": ("r",), "q2": ("s",)}
    (tmp_path / "c.json").write_text('{"q1": "r"}')
    with pytest.raises(UserError, match="'q1' needs a list"):
        relation_lists(tmp_path / "c.json")


def test_relation_text() -> None:
    assert relation_text("people.person.place_of_birth") == "person place of birth"
    assert relation_text("placeOfBirth") == "place of birth"
