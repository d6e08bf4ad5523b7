"""An evaluation set shares nothing with memory: not id, question, label, nor a database or table."""

import pytest

from pandora_train.box import Schema
from pandora_train.leakage import Reserved, program_id
from pandora_train.memory import Entry, Turn
from pandora_train.records import DatabaseKnowledge, Example, Gold
from pandora_train.retrieval import RetrievalConfig, open_retriever
from pandora_train.runs import append_line


def example(id="e1", question="How many boats?", group="harbour", benchmark="spider", language="sql",
            program="SELECT count(*) FROM boat"):
    return Example(id=id, benchmark=benchmark, split="dev", question=question, group=group,
                   knowledge=DatabaseKnowledge(path="-", db_id=group), gold=Gold(language=language, program=program))


def entry(id="m1", question="Another one?", group="farm", benchmark="spider", program_id=""):
    return Entry(id=id, benchmark=benchmark, group=group, question=question, boxes=Schema(boxes=()),
                 turns=(Turn(reasoning="1. a", code="result = 1"),), program_id=program_id)


@pytest.mark.parametrize(("changed", "shared"), [
    ({}, ""),
    ({"id": "e1"}, "id"),
    ({"question": "how many BOATS"}, "question"),
    ({"group": "harbour"}, "group"),
    ({"group": "harbour", "benchmark": "wikitq"}, ""),
])
def test_what_leaks(changed, shared):
    assert Reserved([example()]).shares(entry(**changed)) == shared


def test_labels_leak_whatever_their_spacing_but_a_database_is_its_own():
    same = example(id="x", program="select  COUNT(*) from BOAT")
    assert Reserved([example()]).shares(entry(program_id=program_id(same))) == "label"
    other = example(id="x", group="lake", program="SELECT count(*) FROM boat")
    assert Reserved([example()]).shares(entry(program_id=program_id(other))) == ""


def test_graph_forms_leak_over_topics_and_topics_may_be_shared():
    form = "(JOIN (R a.b) m.1)"
    asked = example(benchmark="webqsp", language="sexpr", program=form, group="m.1")
    reserved = Reserved([asked])
    assert reserved.shares(entry(benchmark="webqsp", group="m.1")) == ""
    other = example(id="x", benchmark="grailqa", language="sexpr", program=form, group="m.2")
    assert reserved.shares(entry(benchmark="grailqa", program_id=program_id(other))) == "label"


def test_relation_chains_are_the_label_of_their_topic_alone():
    def chain(id, topic):
        return program_id(example(id=id, benchmark="pathquestion", language="path", program="spouse -> nation", group=topic))

    assert chain("e1", "ann") == chain("paraphrase", "ann") != ""
    assert chain("e1", "ann") != chain("e1", "bob")


def test_memory_leaves_leaking_entries_out(tmp_path, monkeypatch):
    import numpy as np

    monkeypatch.setenv("PANDORA_HOME", str(tmp_path / "home"))

    def encoder(texts):
        return np.ones((len(texts), 2), np.float32)

    encoder.name = "ones"
    for e in (entry("m1"), entry("m2", group="harbour", question="Third?")):
        append_line(tmp_path / "memory.jsonl", e.model_dump_json())
    config = RetrievalConfig(memory=str(tmp_path), k=3)
    assert [e.id for e in open_retriever(config, encoder, Reserved([example()]).shares).entries] == ["m1"]
