"""Error kinds: every rule by its smallest example, and injected errors of a known kind."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pandora_train.box.box import Box, BoxSet
from pandora_train.evaluate.error_kinds import Diagnosis, diagnose
from pandora_train.records import CodeError, Execution, Gold, Step, Trajectory

SCHEMA = """singer = pd.DataFrame({'Singer_ID': [...], 'Name': [...], 'Country': [...], 'Age': [...]})
concert = pd.DataFrame({'Concert_ID': [...], 'Singer_ID': [...], 'Year': [...]})
# foreign keys: concert.Singer_ID = singer.Singer_ID"""
GRAPH = """person = pd.DataFrame({'person': [...], 'place_of_birth': [...], 'profession': [...]})
location = pd.DataFrame({'location': [...], 'containedby': [...]})"""
SQL = "SELECT T1.Name FROM singer AS T1 JOIN concert AS T2 ON T1.Singer_ID = T2.Singer_ID WHERE T2.Year > 2014"
RIGHT = "j = singer.merge(concert, on='Singer_ID')\nresult = j[j['Year'] > 2014][['Name']].values.tolist()"


def failed(kind: str, message: str, line: int | None = 1) -> Execution:
    return Execution(outcome="error", error=CodeError(type=kind, message=message, line=line))


def judge(code: str, execution: Execution | None = None, rows: list[list[Any]] | None = None,
          gold: Gold | None = None, schema: str = SCHEMA, benchmark: str = "spider", score: float = 0.0,
          boxes: BoxSet | None = None, gold_rows: list[list[Any]] | None = None, problem: str = "") -> Diagnosis | None:
    if rows is not None:
        execution = Execution(outcome="result", rows=tuple(map(tuple, rows)))
    metric = {"spider": "ex", "wikitq": "da"}.get(benchmark, "f1")
    t = Trajectory(
        id="q", benchmark=benchmark, split="dev", group="g", question="?",
        gold=gold or Gold(language="sql", program=SQL),
        steps=(Step(reply=code, code=code, execution=execution, problem=problem),), status="ok",
        rows=execution.rows if execution else None, scores={metric: score},
        gold_rows=tuple(map(tuple, gold_rows)) if gold_rows else None)
    return diagnose(t, schema, boxes)


def kind(*arguments: Any, **named: Any) -> str:
    found = judge(*arguments, **named)
    assert found is not None
    assert found.evidence
    return f"{found.kind}: {found.rule}"


def answers(*values: str) -> Gold:
    return Gold(answers=values)


def test_right_and_unscored_answers_have_no_kind() -> None:
    assert judge(RIGHT, rows=[["x"]], score=1.0) is None


@pytest.mark.parametrize(("code", "error", "expected"), [
    ("result = singer['Nation']", ("KeyError", "'Nation'"), "field: missing field"),
    ("result = concert['Name']", ("KeyError", "'Name'"), "box: field of an unread BOX"),
    ("x = singer.Age\nresult = concert['Name']", ("KeyError", "'Name'"), "field: missing field"),
    ("singer = pd.DataFrame({'Name': [...]})\nresult = singer.Name > 3", ("TypeError", "'>' not supported"),
     "box: BOX rewritten"),
    ("people = pd.DataFrame({'Name': [...]})\nresult = people.Name > 3", ("TypeError", "'>' not supported"),
     "box: BOX rewritten"),
    ("result = singer[['Nation']]", ("KeyError", "\"None of [Index(['Nation'])] are in the [columns]\""),
     "field: missing field"),
    ("result = singer.Nation", ("AttributeError", "'DataFrame' object has no attribute 'Nation'"),
     "field: missing field"),
    ("result = singer.query('Nation > 1')", ("UndefinedVariableError", "name 'Nation' is not defined"),
     "field: missing field"),
    ("result = singer.ageify()", ("AttributeError", "'DataFrame' object has no attribute 'ageify'"),
     "execution: AttributeError"),
    ("result = singer[0]", ("KeyError", "0"), "execution: KeyError"),
    ("result = Singers['Name']", ("NameError", "name 'Singers' is not defined"), "box: invented BOX"),
    ("for x in singer.Age:\n    y = z + x", ("NameError", "name 'z' is not defined"), "execution: NameError"),
    ("df = pd.read_csv('singer.csv')", ("FileNotFoundError", "no such file: singer.csv"), "box: reads a file"),
    ("for x in range(3):\n    y = z + x", ("NameError", "name 'z' is not defined"), "box: no BOX read"),
    ("x = singer.Age\nresult = joined['Name']", ("NameError", "name 'joined' is not defined"),
     "execution: NameError"),
    ("result = singer[['Nation']]", ("KeyError", "\"['Nation'] not in index\""), "field: missing field"),
    ("result = singer[", ("SyntaxError", "'[' was never closed"), "execution: SyntaxError"),
    ("result = singer['Age'] + 'x'", ("TypeError", "unsupported operand"), "execution: TypeError"),
])
def test_exceptions(code: str, error: tuple[str, str], expected: str) -> None:
    assert kind(code, failed(*error)) == expected


def test_code_that_never_ran() -> None:
    assert kind("", None, problem="the code block has no end") == "execution: unusable reply"
    assert kind("while True: pass", Execution(outcome="timeout")) == "execution: timeout"


def test_a_field_of_another_box_is_named_in_the_evidence() -> None:
    found = judge("result = concert.merge(singer)[['Name']]", failed("KeyError", "'Name'"))
    assert found is not None
    assert "it is a field of singer" in found.evidence[1]


@pytest.mark.parametrize(("gold", "answer", "expected"), [
    ([["a", "1"]], [["1", "a"]], "spelling"),
    ([["3"]], [["3.0"]], "spelling"),
    ([["a"], ["b"]], [["a", "b"]], "shape"),
    ([["a"], ["b"]], [["a", "1"], ["b", "2"]], "extra columns"),
    ([["a"], ["b"]], [["['a', 'b']"]], "list as text"),
    ([["a"], ["b"]], [["a, b"]], "list as text"),
    ([["a"], ["b"]], [["<StringArray>\n['a', 'b']\nLength: 2, dtype: str"]], "list as text"),
    ([["a"], ["b"]], [["['a' 'b']"]], "list as text"),
    ([["3.14159"]], [["3.14"]], "rounded"),
    ([["5"]], [["5 years"]], "with a unit"),
    ([["2001-02-03"]], [["2001-02-03 00:00:00"]], "spelling"),
])
def test_right_values_in_another_form(gold: list[list[str]], answer: list[list[str]], expected: str) -> None:
    assert kind(RIGHT, rows=answer, gold_rows=gold) == f"format: {expected}"


@pytest.mark.parametrize(("gold", "answer"), [
    ([["5"]], [["7"]]), ([["5"]], [["15"]]), ([["a"]], [["ab"]]), ([["Rome"]], [["Rome 2"]]), ([["12"]], [["10"]]),
    ([["a"], ["b"]], [["a"], ["c"]]), ([["a", "b"]], [["a"]]),
])
def test_other_values_are_no_matter_of_form(gold: list[list[str]], answer: list[list[str]]) -> None:
    assert not kind(RIGHT, rows=answer, gold_rows=gold).startswith("format")


def test_a_constant_reads_no_box() -> None:
    assert kind("result = [['Paris']]", rows=[["Paris"]], gold_rows=[["Rome"]]) == "box: no BOX read"


def test_a_wrong_field_of_the_right_box_is_a_field_error_though_another_box_has_it() -> None:
    found = kind("result = singer['Year']", failed("KeyError", "'Year'"),
                 gold=Gold(language="sql", program="SELECT Name FROM singer"))
    assert found == "field: missing field"


def test_repeated_rows_are_logic() -> None:
    assert kind(RIGHT, rows=[["a"], ["a"]], gold_rows=[["a"]]) == "logic: distinct"


@pytest.mark.parametrize(("code", "expected"), [
    ("result = singer[['Name']].values.tolist()", "box: missing BOX"),
    ("j = singer.merge(concert, on='Singer_ID')\nresult = j[j['Year'] > 2014][['Country']].values.tolist()",
     "field: missing field"),
    (RIGHT.replace("> 2014", "< 2014"), "logic: same fields"),
    (RIGHT + "\nresult = [[j['Year'].mean()]]", "intent: aggregate"),
])
def test_injected_errors_beside_gold_sql(code: str, expected: str) -> None:
    assert kind(code, rows=[["other"]], gold_rows=[["gold"]]) == expected


def test_columns_beyond_gold_are_intent() -> None:
    assert kind(RIGHT, rows=[["other", "1"]], gold_rows=[["gold"]]) == "intent: columns"


@pytest.mark.parametrize(("sql", "code", "expected"), [
    ("SELECT count(*) FROM singer WHERE Country = 'France'",
     "result = singer[singer['Country'] == 'France'].values.tolist()", "intent: aggregate"),
    ("SELECT Name FROM singer ORDER BY Age DESC LIMIT 1",
     "result = singer.sort_values('Age')[['Name']].head(1).values.tolist()", "intent: aggregate"),
    ("SELECT Name FROM singer ORDER BY Age DESC LIMIT 1",
     "result = [[singer.loc[singer['Age'].idxmax(), 'Name'] + '?']]", "logic: same fields"),
    ("SELECT avg(Age) FROM singer", "result = [[singer['Age'].sum()]]", "intent: aggregate"),
    ("SELECT Name FROM singer WHERE Age > (SELECT avg(Age) FROM singer)",
     "result = singer[singer['Age'] >= singer['Age'].mean()][['Name']].values.tolist()", "logic: same fields"),
])
def test_kind_of_answer_beside_gold_sql(sql: str, code: str, expected: str) -> None:
    assert kind(code, rows=[["other"]], gold=Gold(language="sql", program=sql), gold_rows=[["gold"]]) == expected


def test_injected_errors_beside_an_s_expression() -> None:
    gold = Gold(language="sexpr", program="(AND people.person (JOIN people.person.place_of_birth m.0abc))",
                answers=("Ada",))
    cases = {
        "result = location[['location']].values.tolist()": "box: missing BOX",
        "result = person[person['profession'] == 'x'][['person']].values.tolist()": "field: missing field",
        "result = person[person['place_of_birth'] == 'x'][['person']].values.tolist()": "logic: same fields",
    }
    for code, expected in cases.items():
        assert kind(code, rows=[["Bob"]], gold=gold, schema=GRAPH, benchmark="grailqa") == expected


def test_a_relation_path_names_fields_of_any_box() -> None:
    gold = Gold(language="path", program="place_of_birth -> containedby", answers=("Ada",))
    found = kind("result = person[['place_of_birth']].values.tolist()", rows=[["Bob"]], gold=gold, schema=GRAPH,
                 benchmark="pathquestion")
    assert found == "box: missing BOX"


def test_a_relation_that_is_no_field_decides_nothing() -> None:
    gold = Gold(language="sexpr", program="(JOIN film.film.directed_by m.0abc)", answers=("Ada",))
    assert kind("result = person[['person']].values.tolist()", rows=[["Bob"]], gold=gold, schema=GRAPH,
                benchmark="grailqa") == "unknown: no rule"


def test_without_a_gold_program_the_answer_decides() -> None:
    def wikitq(answer: list[list[str]], *gold: str) -> str:
        return kind("result = Table[['a']]", rows=answer, gold=answers(*gold), benchmark="wikitq", schema="")

    assert wikitq([["Ada"], ["Bob"]], "Ada") == "logic: part of the answer"
    assert wikitq([["Ada"]], "3") == "intent: kind of answer"
    assert wikitq([["3"]], "Ada") == "intent: kind of answer"
    assert wikitq([["Bob"]], "Ada") == "unknown: no rule"
    assert wikitq([["4"]], "3") == "unknown: no rule"
    assert wikitq([["3"], ["4"]], "3") == "intent: list for a number"


def test_a_count_of_nothing_is_a_condition_that_no_row_meets() -> None:
    code = "result = [[len(Table[Table['a'] == 'x'])]]"
    assert kind(code, rows=[["0"]], gold=answers("3"), benchmark="wikitq", schema="") == "logic: no row is left"


def test_a_value_in_double_quotes_is_no_field() -> None:
    sql = 'SELECT Name FROM singer WHERE Country = "France"'
    found = kind("result = singer[singer['Country'] == 'france'][['Name']].values.tolist()", rows=[["x"]],
                 gold=Gold(language="sql", program=sql), gold_rows=[["y"]])
    assert found == "logic: same fields"


def test_values_tell_an_unused_field() -> None:
    table = BoxSet((Box("Table", pd.DataFrame({"driver": ["Ada", "Bob"], "team": ["x", "y"]})),))
    schema = "Table = pd.DataFrame({'driver': [...], 'team': [...]})"

    def with_values(code: str, rows: list[list[str]]) -> str:
        return kind(code, rows=rows, gold=answers("Ada"), benchmark="wikitq", schema=schema, boxes=table)

    assert with_values("result = Table[['team']].values.tolist()", [["x"]]) == "field: answer's field"
    assert with_values("result = Table[Table['driver'] == 'Bob'][['driver']]", [["Bob"]]) == "unknown: no rule"


def test_a_prompt_that_did_not_fit() -> None:
    t = Trajectory(id="q", benchmark="spider", split="dev", group="g", question="?", status="prompt",
                   scores={"ex": 0})
    found = diagnose(t, SCHEMA)
    assert found is not None
    assert (found.kind, found.rule) == ("execution", "nothing ran")


@given(st.text(max_size=60), st.lists(st.lists(st.none() | st.text(max_size=6), max_size=3), max_size=3),
       st.sampled_from(["sql", "sexpr", "sparql", "path", "steps"]), st.text(max_size=60))
def test_whatever_was_written_gets_a_kind(code: str, rows: list[list[str | None]], language: Any,
                                          program: str) -> None:
    gold = Gold(language=language, program=program, answers=("a",))
    assert judge(code, rows=rows, gold=gold, gold_rows=[["a"]]) is not None
    assert judge(code, failed("KeyError", program), gold=gold) is not None
