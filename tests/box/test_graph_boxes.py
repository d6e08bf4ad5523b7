"""Graph stores and the BOXes of their neighbourhoods."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pandora_train.box import boxes_for
from pandora_train.box.graph import ROWS_PER_TRIPLE, boxes_of
from pandora_train.box.store import open_graph
from pandora_train.box.triples import Graph, Ontology, build
from pandora_train.errors import ReadingError
from pandora_train.records import GraphKnowledge

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample" / "graph"
Triples = list[tuple[str, str, str]]


def graph(triples: Triples, **roles: dict[str, str]) -> Graph:
    heads, relations, tails = zip(*triples, strict=True)
    return build(heads, relations, tails, Ontology(**roles))


def cells(frame: pd.DataFrame) -> set[tuple[str, ...]]:
    return {tuple("" if pd.isna(c) else str(c) for c in row) for row in frame.itertuples(index=False)}


POSITION: Triples = [
    ("m.1", "government.government_position_held.office_holder", "Ada"),
    ("m.1", "government.government_position_held.basic_title", "Mayor"),
    ("m.1", "government.government_position_held.from", "2001-02-03"),
    ("m.2", "government.government_position_held.office_holder", "Ada"),
    ("m.2", "government.government_position_held.basic_title", "Senator"),
]


def test_what_belongs_to_one_node_stands_in_one_row() -> None:
    boxes = boxes_of(graph(POSITION), ["Ada"], 2)
    box = boxes["government_position_held"]
    assert list(box.frame.columns) == ["government_position_held", "basic_title", "from", "office_holder"]
    assert cells(box.frame) == {("m.1", "Mayor", "2001-02-03", "Ada"), ("m.2", "Senator", "", "Ada")}
    assert box.original == "government.government_position_held"
    assert box.original_fields["from"] == "government.government_position_held.from"


def test_dead_ends_are_kept() -> None:
    boxes = boxes_of(graph([("a", "r.s.t", "b")]), ["a"], 3)
    assert cells(boxes["s"].frame) == {("a", "b")}


def test_hops_limit_the_walk_in_both_directions() -> None:
    chain = graph([("a", "x.t.r", "b"), ("c", "x.t.r", "b"), ("c", "x.t.r", "d")])
    assert cells(boxes_of(chain, ["a"], 1)["t"].frame) == {("a", "b")}
    assert cells(boxes_of(chain, ["a"], 2)["t"].frame) == {("a", "b"), ("c", "b")}
    assert cells(boxes_of(chain, ["a"], 3)["t"].frame) == {("a", "b"), ("c", "b"), ("c", "d")}


def test_a_walk_does_not_go_on_from_values() -> None:
    triples = [("a", "x.t.year", "1990"), ("b", "x.t.year", "1990"), ("b", "x.t.friend", "c")]
    boxes = boxes_of(graph(triples, range={"x.t.year": "type.int"}), ["a"], 3)
    assert cells(boxes["t"].frame) == {("a", "1990")}


def test_inverse_relations_are_one_edge_read_from_either_side() -> None:
    child, parent = "p.person.child", "p.person.parent"
    triples = [("Ada", child, "Bo"), ("Cy", parent, "Ada"), ("Di", parent, "Ada")]
    store = graph(triples, reverse={child: parent, parent: child})
    boxes = boxes_of(store, ["Ada"], 1)
    assert cells(boxes["person"].frame) == {("Bo", "Ada"), ("Cy", "Ada"), ("Di", "Ada")}
    assert store.locate("p.person.child") == ("p.person.parent", True)
    assert store.locate("p.person.parent") == ("p.person.parent", False)


def test_small_products_are_crossed_large_ones_get_a_box_of_their_own() -> None:
    few = [("a", "x.t.p", "p1"), ("a", "x.t.p", "p2"), ("a", "x.t.q", "q1"), ("a", "x.t.q", "q2")]
    boxes = boxes_of(graph(few), ["a"], 1)
    assert cells(boxes["t"].frame) == {("a", f"p{i}", f"q{j}") for i in (1, 2) for j in (1, 2)}
    many = [("a", f"x.t.{r}", f"{r}{i}") for r in "pqs" for i in range(20)]
    boxes = boxes_of(graph(many), ["a"], 1)
    assert [b.name for b in boxes] == ["t", "t_q", "t_s"]
    assert all(len(b.frame) == 20 for b in boxes)
    keys = {(k.box, k.field, k.to_box, k.to_field) for k in boxes.foreign_keys}
    assert ("t_q", "t", "t", "t") in keys


def test_foreign_keys_follow_the_declared_range() -> None:
    triples = [("f", "film.film.director", "d"), ("d", "film.director.award", "w")]
    boxes = boxes_of(graph(triples, range={"film.film.director": "film.director"}), ["f"], 2)
    assert [(k.box, k.field, k.to_box, k.to_field) for k in boxes.foreign_keys] == [
        ("film", "director", "director", "director")]


def test_names_that_end_alike_are_told_apart() -> None:
    triples = [("a", "film.actor.film", "f"), ("a", "tv.actor.film", "g"), ("a", "film.actor.film.name", "n")]
    boxes = boxes_of(graph(triples), ["a"], 1)
    assert [b.name for b in boxes] == ["film_actor", "film", "tv_actor"]


def test_numbers_and_dates_are_typed() -> None:
    triples = [("a", "x.t.size", "10"), ("b", "x.t.size", "9"), ("a", "x.t.mass", "1.5"),
               ("c", "x.t.knows", "a"), ("c", "x.t.knows", "b"), ("a", "x.t.zip", "01234"),
               ("a", "x.t.born", "2008"), ("b", "x.t.born", "2007-05")]
    frame = boxes_of(graph(triples, range={"x.t.born": "type.datetime"}), ["c"], 2)["t"].frame
    assert str(frame["size"].dtype) == "Int64"
    assert frame["mass"].dtype == "float64"
    assert [str(frame[c].dtype) for c in ("zip", "born")] == ["str", "str"]
    assert frame["size"].max() == 10
    assert frame["born"].max() == "2008"


def test_relation_filter_restricts_walk_and_fields_by_either_name() -> None:
    triples = [("a", "x.t.p", "b"), ("b", "x.t.q", "c"), ("a", "x.t.z", "d")]
    store = graph(triples, reverse={"x.t.q": "x.t.q_of"})
    boxes = boxes_of(store, ["a"], 2, ["x.t.p", "x.t.q_of"])
    assert list(boxes["t"].frame.columns) == ["t", "p", "q"]
    assert not boxes_of(store, ["a"], 2, []).boxes


def test_without_domain_everything_is_an_entity() -> None:
    boxes = boxes_of(graph([("ada", "parent", "bo"), ("bo", "parent", "cy")]), ["ada"], 2)
    assert [b.name for b in boxes] == ["entity"]
    assert list(boxes["entity"].frame.columns) == ["entity", "parent"]


def test_unknown_topics_are_told() -> None:
    boxes = boxes_of(graph(POSITION), ["Ada", "Nobody"], 1)
    assert boxes.notes == ("topic 'Nobody' is not in the graph",)
    assert not boxes_of(graph(POSITION), ["Nobody"], 2).boxes


def test_a_type_starts_from_all_its_nodes() -> None:
    boxes = boxes_of(graph(POSITION), ["government.government_position_held"], 1)
    assert len(boxes["government_position_held"].frame) == 2


NODES = st.sampled_from([f"n{i}" for i in range(6)])
RELATIONS = st.sampled_from(["a.t.p", "a.t.q", "b.u.p", "b.u.r", "loose"])


@settings(max_examples=60, deadline=None)
@given(triples=st.lists(st.tuples(NODES, RELATIONS, NODES), min_size=1, max_size=25), hops=st.integers(1, 3))
def test_every_triple_of_the_neighbourhood_is_in_exactly_one_place(triples: Triples, hops: int) -> None:
    store = graph(triples)
    positions = store.neighbourhood(["n0"], hops)
    wanted = {(store.nodes[store.heads[i]], store.names[store.relations[i]], store.nodes[store.tails[i]])
              for i in positions}
    boxes = boxes_of(store, ["n0"], hops)
    found: list[tuple[str, str, str]] = []
    for box in boxes:
        subject, *fields = list(box.frame.columns)
        for field in fields:
            pairs = box.frame[[subject, field]].dropna().drop_duplicates()
            found += [(s, box.original_fields[field], v) for s, v in pairs.itertuples(index=False)]
    assert sorted(found) == sorted(wanted)
    assert sum(len(b.frame) for b in boxes) <= ROWS_PER_TRIPLE * len(positions)


# --- reading --------------------------------------------------------------------------------------------


def test_sample_fragment_by_id_and_name() -> None:
    by_id = boxes_for(GraphKnowledge(store=str(SAMPLE), topics=("m.0p000",), hops=1))
    by_name = boxes_for(GraphKnowledge(store=str(SAMPLE), topics=("Norvale",), hops=1))
    assert by_id.boxes
    assert [b.name for b in by_id] == [b.name for b in by_name]
    for box in by_id:
        assert cells(box.frame) == cells(by_name[box.name].frame)


def fragment(folder: Path, lines: str) -> GraphKnowledge:
    (folder / "triples.tsv").write_text("head\trelation\ttail\tlayers\n" + lines, encoding="utf-8")
    return GraphKnowledge(store=str(folder), topics=("null",), hops=1)


def test_layers_and_nodes_named_null(tmp_path: Path) -> None:
    knowledge = fragment(tmp_path, 'null\tx.t.p\tNA\taog,gold:q\nnull\tx.t.p\tsay "x"\tgold:q\n')
    assert cells(boxes_for(knowledge)["t"].frame) == {("null", "NA"), ("null", 'say "x"')}
    explored = knowledge.model_copy(update={"layers": "explored"})
    assert cells(boxes_for(explored)["t"].frame) == {("null", "NA")}


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    for store, problem in [(tmp_path / "none.nt", "no graph store"), (tmp_path, "no triples.tsv")]:
        with pytest.raises(ReadingError, match=problem):
            open_graph(GraphKnowledge(store=str(store)))
    (tmp_path / "bad.ttl").write_text(":a :b")
    with pytest.raises(ReadingError, match=r"bad\.ttl"):
        open_graph(GraphKnowledge(store=str(tmp_path / "bad.ttl")))
    for lines in ("only\ttwo\n", "a\tb\tc\td\n", "a\tb\t\n", "a\tb\tc\nd\te\n"):
        (tmp_path / "bad.txt").write_text(lines)
        with pytest.raises(ReadingError, match="head, relation, tail, separated by tabs"):
            open_graph(GraphKnowledge(store=str(tmp_path / "bad.txt")))


def test_a_fragment_without_its_columns_is_told(tmp_path: Path) -> None:
    knowledge = fragment(tmp_path, "null\tx.t.p\tNA\taog\n")
    for name, problem in [("relation_roles.tsv", "relation, domain, range, reverse"), ("names.tsv", "id, name"),
                          ("triples.tsv", "head, relation, tail")]:
        (tmp_path / name).write_text("one\ttwo\tthree\nx\ty\tz\n")
        with pytest.raises(ReadingError, match=f"every line must hold {problem}"):
            boxes_for(knowledge)
        (tmp_path / name).unlink()


def test_rdf_names_types_and_languages(tmp_path: Path) -> None:
    file = tmp_path / "g.ttl"
    file.write_text("""@prefix : <http://example.org/> .
        @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
        :one a :City ; rdfs:label "Springfield"@en ; :size 3 ; :motto "Vorwärts"@de, "Onward"@en .
        :two a :City ; rdfs:label "Springfield" ; :size 5 ; :near :one .""", encoding="utf-8")
    boxes = boxes_for(GraphKnowledge(store=str(file), topics=("http://example.org/two",), hops=2))
    assert list(boxes["City"].frame.columns) == ["City", "motto", "near", "size"]
    assert cells(boxes["City"].frame) == {("Springfield (two)", "", "Springfield (one)", "5"),
                                          ("Springfield (one)", "Onward", "", "3")}
    assert boxes.notes == ("1 literals in other languages than English left out",
                           "2 nodes that share a label carry part of their IRI beside it")


def test_nodes_with_several_types_keep_them_as_a_field(tmp_path: Path) -> None:
    file = tmp_path / "g.ttl"
    file.write_text("@prefix : <http://example.org/> . :a a :X, :Y ; :p :b . :b a :X ; :p :a .")
    boxes = boxes_for(GraphKnowledge(store=str(file), topics=("a",), hops=2))
    rows = {row for b in boxes for row in cells(b.frame[[b.frame.columns[0], "type"]])}
    assert rows == {("a", "X"), ("a", "Y"), ("b", "X")}
