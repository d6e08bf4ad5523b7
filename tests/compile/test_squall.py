"""SQUALL's labels, on examples of our own in its format."""

import json

import pandas as pd
import pytest

from pandora_train.box.box import Box, BoxSet
from pandora_train.compile import Unsupported
from pandora_train.compile.programs.squall import compile_squall, squall_sql

BOXES = BoxSet((Box("Table", pd.DataFrame({
    "Boat \"name\"": ["Ada", "Bo's", "Cy"], "Crew": [4, 6, 6], "Cost": ["1,200", "900", "2,000"],
})),))


def label(*tokens):
    return json.dumps([[kind, value, []] for kind, value in tokens])


def select(column, *rest):
    return [("Keyword", "select"), ("Column", column), ("Keyword", "from"), ("Keyword", "w"), *rest]


def run(program):
    scope = {**BOXES.frames(), "pd": pd}
    exec(compile_squall(program, BOXES).code, scope)
    return scope["result"]


def where(column, sign, kind, value):
    return [("Keyword", "where"), ("Column", column), ("Keyword", sign), (kind, value)]


@pytest.mark.parametrize(("tokens", "expected"), [
    (select("c1", *where("c2", "=", "Literal.Number", "4")), [["Ada"]]),
    (select("c2_number", *where("c1", "=", "Literal.String", "'Bo's'")), [[6]]),
    (select("c1", *where("c3_number", ">", "Literal.Number", "1000")), [["Ada"], ["Cy"]]),
    (select("c1", ("Keyword", "order"), ("Keyword", "by"), ("Column", "c3_number"), ("Keyword", "desc"),
            ("Keyword", "limit"), ("Literal.Number", "1")), [["Cy"]]),
    ([("Keyword", "select"), ("Keyword", "count"), ("Keyword", "("), ("Column", "c1"), ("Keyword", ")"),
      ("Keyword", "from"), ("Keyword", "w"), *where("c2", ">=", "Literal.Number", "6")], [[2]]),
])
def test_labels_mean_what_they_say(tokens, expected):
    assert run(label(*tokens)) == expected


def test_names_and_text_are_quoted():
    sql = squall_sql(label(*select("c1", *where("c1", "=", "Literal.String", "'Bo's'"))), BOXES.boxes[0])
    assert sql == "select \"Boat \"\"name\"\"\" from \"Table\" where \"Boat \"\"name\"\"\" = 'Bo''s'"


@pytest.mark.parametrize(("program", "reason"), [
    (label(*select("c9")), "unknown column"),
    (label(*select("c1_year")), "column suffix"),
    (label(*select("c1", ("Keyword", "order"), ("Keyword", "by"), ("Keyword", "id"))), "pseudo-column"),
    ("not json", "not well-formed"),
    ('[["Nonsense", "x", []]]', "not well-formed"),
])
def test_the_rest_is_a_named_reason(program, reason):
    with pytest.raises(Unsupported) as e:
        compile_squall(program, BOXES)
    assert e.value.reason == reason


def test_the_source_reads_squalls_list(tmp_path, pytestconfig):
    from pandora_train.sources import DataConfig, load

    squall = tmp_path / "squall.json"
    squall.write_text(json.dumps([{"nt": "nt-0", "sql": json.loads(label(*select("c1")))}]))
    config = DataConfig(benchmark="wikitq", path=str(pytestconfig.rootpath / "data/sample/wikitq"), split="train",
                        programs=str(squall))
    labelled = [e for e in load(config) if e.gold.program]
    assert [(e.id, e.gold.language) for e in labelled] == [("wikitq:nt-0", "squall")]
