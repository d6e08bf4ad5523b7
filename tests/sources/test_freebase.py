"""GrailQA and WebQSP: ids over full graphs, names over fragments, and what is not usable there."""

import json
from pathlib import Path
from typing import Any

import pytest

from pandora_train.errors import UserError
from pandora_train.records import GraphKnowledge
from pandora_train.sources import DataConfig, load, read
from pandora_train.sources.freebase import Entity, Store, Unusable

TRIPLES = "head\trelation\ttail\tlayers\nAnn\tp.child\tBob\taog\nAnn\tp.child\tnull\taog\nm.9\tp.of\tAnn\taog\n"
NAMES = "m.1\tAnn\nm.2\tBob\nm.3\tBob\nm.4\tnull\nm.5\tElsewhere\n"


def fragment(root: Path) -> Path:
    folder = root / "graph"
    folder.mkdir(exist_ok=True)
    (folder / "triples.tsv").write_text(TRIPLES)
    (folder / "names.tsv").write_text(NAMES)
    return folder


def grail(qid: int, topics: dict[str, str], answers: list[str], **more: Any) -> dict[str, Any]:
    nodes = [{"node_type": "class", "id": "p.person", "friendly_name": "Person"}]
    nodes += [{"node_type": "entity", "id": mid, "friendly_name": name} for mid, name in topics.items()]
    given = [{"answer_type": "Entity", "answer_argument": a, "entity_name": f"own name of {a}"} for a in answers]
    return {"qid": qid, "question": "who?", "answer": given, "graph_query": {"nodes": nodes}, "function": "none",
            "level": "i.i.d.", "s_expression": "(JOIN (R p.child) m.1)", **more}


def grailqa(root: Path, entries: list[dict[str, Any]], store: str = "", split: str = "dev") -> DataConfig:
    (root / f"grailqa_v1.0_{split}.json").write_text(json.dumps(entries))
    return DataConfig.model_validate({"benchmark": "grailqa", "path": str(root), "store": store, "split": split})


def test_over_a_fragment_topics_and_answers_are_names(tmp_path: Path) -> None:
    fragment(tmp_path)
    [example] = load(grailqa(tmp_path, [grail(7, {"m.1": "Annie"}, ["m.2", "m.4"])]))
    assert isinstance(example.knowledge, GraphKnowledge)
    assert example.knowledge.topics == ("Ann",), "the fragment's name, not the benchmark's"
    assert example.knowledge.hops == 3
    assert example.gold.answers == ("Bob", "null"), "a node named null is a name"
    assert example.gold.answer_ids == ("m.2", "m.4")
    assert (example.id, example.group) == ("grailqa:7", "Ann")
    assert example.tags == {"level": "i.i.d.", "function": "none"}
    assert (example.gold.language, example.gold.program) == ("sexpr", "(JOIN (R p.child) m.1)")


def test_over_an_endpoint_topics_and_answers_are_ids(tmp_path: Path) -> None:
    entries = [grail(7, {"m.1": "Annie"}, ["m.2", "m.3"])]
    [example] = load(grailqa(tmp_path, entries, "http://localhost:3001/sparql"))
    assert isinstance(example.knowledge, GraphKnowledge)
    assert example.knowledge.topics == ("m.1",)
    assert example.gold.answers == ("m.2", "m.3")


def test_what_a_fragment_cannot_ask_is_listed_with_its_reason(tmp_path: Path) -> None:
    fragment(tmp_path)
    entries = [grail(1, {"m.1": ""}, ["m.2", "m.3"]), grail(2, {}, ["m.2"]), grail(3, {"m.5": ""}, ["m.2"])]
    loaded = read(grailqa(tmp_path, entries))
    assert loaded.examples == []
    assert loaded.unusable == {
        "grailqa:1": "different gold answers share a name in the fragment",
        "grailqa:2": "no topic entity",
        "grailqa:3": "no topic entity of it is in the fragment",
    }


def test_null_is_an_empty_gold_set_and_no_answer_is_none(tmp_path: Path) -> None:
    fragment(tmp_path)
    entries = [grail(1, {"m.1": ""}, [], answer="null"), grail(2, {"m.1": ""}, [])]
    del entries[1]["answer"]
    empty, unknown = load(grailqa(tmp_path, entries))
    assert empty.gold.answers == ()
    assert unknown.gold.answers is None


def test_agentbench_rows_stand_in_for_the_train_file(tmp_path: Path) -> None:
    fragment(tmp_path)
    grailqa(tmp_path, [grail(7, {"m.1": ""}, ["m.2"])])

    def row(qid: str, form: str = "(JOIN p.of m.1)") -> dict[str, Any]:
        return {"qid": qid, "question": "?", "source": "x", "entities": {"Ann": "m.1"}, "s_expression": form,
                "answer": [{"answer_argument": "m.2"}]}

    rows = [row("11_grailqa"), row("11_grailqa"), row("12_graphquestions"), row("WebQTest-1_ff_cwq"),
            row("13_grailqa", "(JOIN (R p.child) m.1)")]
    (tmp_path / "agentbench_std.json").write_text(json.dumps(rows))
    loaded = read(DataConfig(benchmark="grailqa", path=str(tmp_path), split="train"))
    assert [e.id for e in loaded.examples] == ["grailqa:11", "grailqa:12_graphquestions"]
    assert loaded.examples[0].tags == {"source": "grailqa"}
    assert loaded.unusable == {
        "grailqa:11-2": "repeats another row",
        "grailqa:WebQTest-1_ff_cwq": "was made from a WebQSP test question",
        "grailqa:13": "has the logical form of a dev question",
    }


def test_no_graph_and_a_missing_graph_are_told(tmp_path: Path) -> None:
    entries = [grail(7, {"m.1": ""}, ["m.2"])]
    with pytest.raises(UserError, match="grailqa needs a graph: set store=PATH"):
        load(grailqa(tmp_path, entries))
    with pytest.raises(UserError, match="no graph store gone"):
        load(grailqa(tmp_path, entries, "gone"))


def test_a_broken_fragment_is_told_with_the_line(tmp_path: Path) -> None:
    folder = fragment(tmp_path)
    config = grailqa(tmp_path, [grail(7, {"m.1": ""}, ["m.2"])])
    (folder / "triples.tsv").write_text(TRIPLES + "Ann\tp.child\n")
    with pytest.raises(UserError, match=r"triples\.tsv, line 5: not head, relation, tail"):
        load(config)


def test_relations_and_layers_reach_the_knowledge(tmp_path: Path) -> None:
    fragment(tmp_path)
    (tmp_path / "relations.txt").write_text("p.child\n\np.of\n")
    config = grailqa(tmp_path, [grail(7, {"m.1": ""}, ["m.2"])]).model_copy(
        update={"relations_file": str(tmp_path / "relations.txt"), "layers": "explored", "hops": 1}
    )
    knowledge = load(config)[0].knowledge
    assert isinstance(knowledge, GraphKnowledge)
    assert knowledge.relations == ("p.child", "p.of")
    assert (knowledge.layers, knowledge.hops) == ("explored", 1)


@pytest.mark.parametrize("broken", [{"answer": [{"entity_name": "x"}]}, {"graph_query": 3}, {"question": None}])
def test_an_entry_out_of_form_is_told_with_its_place(tmp_path: Path, broken: dict[str, Any]) -> None:
    fragment(tmp_path)
    entries = [grail(7, {"m.1": ""}, ["m.2"]), grail(8, {"m.1": ""}, ["m.2"], **broken)]
    with pytest.raises(UserError, match=r"dev\.json, entry 2: not in the expected form"):
        load(grailqa(tmp_path, entries))


def test_nodes_are_found_by_name_then_id_then_the_entitys_own_name() -> None:
    store = Store("x", {"m.1": "Ann"}, frozenset({"Ann", "m.9"}))
    assert store.node(Entity("m.1", "other")) == "Ann"
    assert store.node(Entity("m.9", "other")) == "m.9"
    assert store.node(Entity("m.7", "Zed")) == "Zed"
    assert store.node(Entity("1999")) == "1999"
    assert store.answers([Entity("m.1"), Entity("m.1")]) == ("Ann",), "the same answer twice is one answer"
    with pytest.raises(Unusable):
        store.answers([Entity("m.1"), Entity("m.8", "Ann")])


# --- WebQSP


def parse(answers: list[str], quality: tuple[str, str] = ("Good", "Complete"), sparql: str = "SELECT") -> dict[str, Any]:
    return {
        "AnnotatorComment": {"QuestionQuality": quality[0], "ParseQuality": quality[1]},
        "Sparql": sparql,
        "TopicEntityMid": "m.1",
        "TopicEntityName": "Annie",
        "Answers": [{"AnswerType": "Entity", "AnswerArgument": a, "EntityName": a.upper()} for a in answers],
    }


def webqsp(root: Path, data: Any, name: str = "WebQSP.test.json", split: str = "test") -> DataConfig:
    fragment(root)
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(json.dumps(data))
    return DataConfig.model_validate({"benchmark": "webqsp", "path": str(root), "split": split})


def asked(number: int, *parses: dict[str, Any]) -> dict[str, Any]:
    return {"QuestionId": f"WebQTest-{number}", "RawQuestion": "who?", "Parses": list(parses)}


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("name", ["WebQSP.test.json", "data/WebQSP.test.json"])
def test_the_official_file_and_its_bare_list(tmp_path: Path, bare: bool, name: str) -> None:
    entries = [asked(1, parse(["m.2"]))]
    [example] = load(webqsp(tmp_path, entries if bare else {"Version": "1", "Questions": entries}, name))
    assert (example.id, example.gold.language, example.gold.program) == ("webqsp:WebQTest-1", "sparql", "SELECT")
    assert (example.gold.answers, example.gold.answer_ids) == (("Bob",), ("m.2",))
    assert isinstance(example.knowledge, GraphKnowledge)
    assert (example.knowledge.topics, example.knowledge.hops) == (("Ann",), 2)


def test_a_question_counts_with_one_good_complete_parse_and_then_all_parses_do(tmp_path: Path) -> None:
    entries = [
        asked(1, parse(["m.4"], ("Good", "Partial"), "A"), parse(["m.2"], sparql="B")),
        asked(2, parse(["m.2"], ("Bad", "Complete"))),
        asked(3),
    ]
    loaded = read(webqsp(tmp_path, entries))
    [example] = loaded.examples
    assert example.gold.program == "B"
    assert example.gold.answers == ("Bob",)
    assert example.gold.parses == (("null",), ("Bob",))
    assert loaded.unusable == {
        f"webqsp:WebQTest-{n}": "no parse with a Good question and a Complete parse" for n in (2, 3)
    }


def test_the_reduced_test_file(tmp_path: Path) -> None:
    def entry(number: int, names: list[str | None], mids: list[str], form: str | None) -> dict[str, Any]:
        return {"id": f"WebQTest-{number}", "question": "?", "topic_entity": {"m.1": "Ann"}, "answers": names,
                "answer_mids": mids, "lf_exec_equal_gold": form}

    entries = [entry(1, ["Bob"], ["m.2"], "(JOIN a m.1)"), entry(2, ["Bob"], ["m.2", "m.3"], None),
               entry(3, [None], ["1999"], None), entry(4, [], [], None)]
    loaded = read(webqsp(tmp_path, entries, "webqsp_test.json"))
    named, value, none = loaded.examples
    assert (named.gold.language, named.gold.program) == ("sexpr", "(JOIN a m.1)")
    assert named.gold.parses == (("Bob",),)
    assert (value.gold.language, value.gold.answers) == ("", ("1999",))
    assert none.gold.answers == ()
    assert list(loaded.unusable) == ["webqsp:WebQTest-2"]


def test_relation_paths_label_train_like_questions(tmp_path: Path) -> None:
    def entry(number: int, split: str, mid: str = "m.1") -> dict[str, Any]:
        return {"id": f"WebQTrn-{number}", "split": split, "question": "?", "answers": ["Bob", "Bob"],
                "rel_paths": [[["/p/x/child", "/p/y/of"], 2], [["/p/z/of"], 1]],
                "linked": [{"concept": "Ann", "mid": mid}]}

    entries = [entry(1, "train"), entry(2, "validation"), entry(3, "train", "m.5")]
    config = webqsp(tmp_path, entries, "webqsp_train_paths.json", "train")
    loaded = read(config)
    [example] = loaded.examples
    assert (example.gold.language, example.gold.program) == ("path", "p.x.child -> p.y.of")
    assert example.gold.answers == ("Bob",)
    assert list(loaded.unusable) == ["webqsp:WebQTrn-3"]
    assert [e.id for e in load(config.model_copy(update={"split": "dev"}))] == ["webqsp:WebQTrn-2"]


def test_a_questions_file_may_be_named_itself(tmp_path: Path) -> None:
    config = webqsp(tmp_path, [asked(1, parse(["m.2"]))], "some_parses.json")
    assert len(load(config.model_copy(update={"path": str(tmp_path / "some_parses.json")}))) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": 1}, "has no 'Questions'"),
        ([asked(1, {**parse([]), "Answers": 3})], "entry 1: not in the expected form"),
        ([{"QuestionId": "1"}], "entry 1: no RawQuestion, Parses"),
        (3, "JSON list"),
    ],
)
def test_broken_webqsp_files_are_told(tmp_path: Path, data: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(webqsp(tmp_path, data))
