"""Graph questions: linked topics, listed relations; everything else passes unchanged."""

import json

import pytest

from pandora_train.box import boxes_for
from pandora_train.encoder import EMBEDDED, open_encoder
from pandora_train.ground import Grounder, RelationsConfig
from pandora_train.sources import DataConfig, load


@pytest.fixture
def example(pytestconfig, monkeypatch):
    monkeypatch.chdir(pytestconfig.rootpath)
    return load(DataConfig(benchmark="grailqa", path="data/sample/grailqa", split="dev"))[0]


def test_what_is_grounded_passes_unchanged(example):
    assert Grounder(RelationsConfig(), open_encoder(EMBEDDED))(example) == example


def test_a_question_without_topics_gets_them_from_its_words(example):
    bare = example.model_copy(update={"knowledge": example.knowledge.model_copy(update={"topics": ()})})
    assert set(Grounder(RelationsConfig(), open_encoder(EMBEDDED))(bare).knowledge.topics) & set(example.knowledge.topics)


def test_listed_relations_win(example, tmp_path):
    relation = next(w for w in example.gold.program.replace("(", " ").replace(")", " ").split() if w.count(".") == 2)
    file = tmp_path / "relations.json"
    file.write_text(json.dumps({example.id: [relation]}))
    grounded = Grounder(RelationsConfig(lists=str(file), keep=5), open_encoder(EMBEDDED))(example)
    assert grounded.knowledge.relations == (relation,)
    few, all_ = boxes_for(grounded.knowledge), boxes_for(example.knowledge)
    assert sum(len(b.frame.columns) for b in few) < sum(len(b.frame.columns) for b in all_)
