"""Step programs over a graph, on the project's own sample graph."""

import pandas as pd
import pytest

from pandora_train.box import boxes_for
from pandora_train.compile import Unsupported
from pandora_train.compile.programs.over_graph import compile_graph_program
from pandora_train.records import GraphKnowledge
from pandora_train.sources import DataConfig, load


@pytest.fixture(scope="module")
def question(request):
    """A sample question one relation away from its topic."""
    sample = request.config.rootpath / "data/sample/grailqa"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(request.config.rootpath)
        for e in load(DataConfig(benchmark="grailqa", path=str(sample), split="train")):
            words = e.gold.program.replace("(", " ").replace(")", " ").split()
            if words[0] == "AND" and words[2] == "JOIN" and words[3] == "R" and len(words) == 6:
                return e, words[4]
    pytest.fail("the sample has no such question")


def run(program, knowledge):
    boxes = boxes_for(knowledge)
    scope = {**boxes.frames(), "pd": pd}
    exec(compile_graph_program(program, boxes, knowledge).code, scope)
    return {str(v) for (v,) in scope["result"]}


def test_a_relation_is_walked_from_a_named_node_and_counted(question):
    example, relation = question
    knowledge, topic = example.knowledge, example.knowledge.topics[0]
    first = f"Query1: \"get_information(relation='{relation}', head_entity='{topic}')\""
    assert run(first, knowledge) == set(example.gold.answers)
    assert run(f"{first}\nQuery2: \"count(set=output_of_query1)\"", knowledge) == {str(len(example.gold.answers))}


@pytest.mark.parametrize(("query", "reason"), [
    ("get_information(relation='a.b.c')", "arguments"),
    ("max(set='output_of_query1')", "operation"),
    ("count(set='output_of_query3')", "output used before it is made"),
    ("get_information(relation='a.b.c', tail_entity>'3')", "comparison over a graph"),
])
def test_the_rest_is_a_named_reason(query, reason):
    knowledge = GraphKnowledge(store="data/sample/graph")
    with pytest.raises(Unsupported) as e:
        compile_graph_program(f'Query1: "{query}"', None, knowledge)
    assert e.value.reason == reason
