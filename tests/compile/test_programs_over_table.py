"""Step programs over a table: what they compile to gives what they mean, and the rest is a named reason."""

import numpy as np
import pandas as pd
import pytest

from pandora_train.box.box import Box, BoxSet
from pandora_train.compile import Unsupported
from pandora_train.compile.programs.language import parse_program
from pandora_train.compile.programs.over_table import compile_table_program

TABLE = BoxSet((Box("Table", pd.DataFrame({
    "Nation": ["Italy (ITA)", "Soviet Union", "Kenya", "Chad"],
    "Gold": [3, 5, 3, 0],
    "People": ["1,200", "3,400", "900", None],
    "Date": ["May 1, 1990", "June 1, 1991", "July 4, 1992", "unknown"],
})),))


def program(*queries):
    return "## Query:\n" + "\n".join(f'Step{n}: do it\nQuery{n}: "{q}"' for n, q in enumerate(queries, 1))


def run(*queries):
    scope = {**TABLE.frames(), "pd": pd, "np": np}
    exec(compile_table_program(program(*queries), TABLE).code, scope)
    return scope["result"]


@pytest.mark.parametrize(("queries", "expected"), [
    (["get_information(relation='Nation', tail_entity='Italy')",
      "get_information(relation='Gold', head_entity='output_of_query1')"], [[3]]),
    (["get_information(relation='Gold', tail_entity>'2')", "count(set='output_of_query1')"], [[3]]),
    (["get_information(relation='People', tail_entity>='1200')",
      "get_information(relation='Nation', head_entity='output_of_query1')"], [["Italy (ITA)"], ["Soviet Union"]]),
    (["get_information(relation='People')", "max(set='output_of_query1')",
      "get_information(relation='People', tail_entity='output_of_query2')",
      "get_information(relation='Nation', head_entity='output_of_query3')"], [["Soviet Union"]]),
    (["get_information(relation='Gold')", "min(set='output_of_query1')"], [[0]]),
    (["get_information(relation='Date', tail_entity<'1992')", "count(set='output_of_query1')"], [[2]]),
    (["get_information(relation='Nation', tail_entity='Kenya')", "previous_row(set='output_of_query1')",
      "get_information(relation='nation', head_entity='output_of_query2')"], [["Soviet Union"]]),
    (["get_information(relation='row_number')", "max(set='output_of_query1')",
      "get_information(relation='Nation', head_entity='output_of_query2')"], [["Chad"]]),
    (["get_information(relation='row_number', tail_entity<='2')", "count(set='output_of_query1')"], [[2]]),
    (["get_information(relation='Gold', tail_entity='3')", "get_information(relation='People', tail_entity<'1000')",
      "set_intersection(set1='output_of_query1', set2='output_of_query2')",
      "get_information(relation='Nation', head_entity='output_of_query3')"], [["Kenya"]]),
    (["get_information(relation='People', head_entity='Soviet Union')", "get_information(relation='People', head_entity='Kenya')",
      "calculate_difference(value1='output_of_query1', value2='output_of_query2')"], [[2500]]),
    (["get_information(relation='Gold')", "sum(set='output_of_query1')"], [[11]]),
    (["get_information(relation='Gold')", "mode(set='output_of_query1')"], [[3]]),
    (["get_information(relation='Gold')", "average(set='output_of_query1')"], [[2.75]]),
])
def test_programs_mean_what_they_say(queries, expected):
    assert run(*queries) == expected


def test_unused_queries_leave_no_dead_code():
    compiled = compile_table_program(program("get_information(relation='Date')", "get_information(relation='Gold', tail_entity>'2')",
                                     "count(set='output_of_query2')"), TABLE)
    assert "Date" not in compiled.code
    assert compiled.reasoning.startswith("1. Keep the rows of Table where Gold is above 2.")
    assert len(compiled.reasoning.splitlines()) == len(compiled.code.splitlines()) == 3


@pytest.mark.parametrize(("query", "reason"), [
    ("get_information(relation='Silver')", "unknown column"),
    ("get_information(relation='Nation', tail_entity='Peru')", "unknown value"),
    ("get_information(relation='Nation', tail_entity>'x')", "not a number"),
    ("compare(value1='1', value2='2')", "operation"),
    ("count(set='output_of_query9')", "output used before it is made"),
    ("count(set='output_of_query1')\"\nQuery1: \"get_information(relation='Gold')", "output used before it is made"),
    ("count(set=[1,2])", "not well-formed"),
    ("get_information(relation='Gold', tail_entity='3')", "the answer is rows, no column is named"),
])
def test_the_rest_is_a_named_reason(query, reason):
    with pytest.raises(Unsupported) as e:
        compile_table_program(program(query), TABLE)
    assert e.value.reason == reason


def test_quotes_inside_values_are_read():
    (query,) = parse_program("Query1: \"get_information(relation='Owner's name', tail_entity='O'Neil, Ann')\"")
    assert [a.value for a in query.arguments] == ["Owner's name", "O'Neil, Ann"]
