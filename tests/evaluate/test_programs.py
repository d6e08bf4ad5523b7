"""What programs use: fields, BOXes and the kind of answer, in pandas, SQL and graph queries."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pandora_train.box.box import Box, BoxSet
from pandora_train.box.schema import schema_of, schema_text
from pandora_train.evaluate.programs import code_profile, gold_profile, read_schema
from pandora_train.evaluate.values import compare_values
from pandora_train.records import Gold

SCHEMA = {"singer": ("Singer_ID", "Name", "Age"), "concert": ("Concert_ID", "Singer_ID", "Year")}
cells = st.one_of(st.none(), st.text(max_size=8), st.integers(-99, 99).map(str), st.floats(allow_nan=False).map(str))
tables = st.integers(1, 3).flatmap(lambda w: st.lists(st.lists(cells, min_size=w, max_size=w), max_size=4))


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=5, unique=True))
def test_schema_text_is_read_back(fields: list[str]) -> None:
    boxes = BoxSet((Box("Table", pd.DataFrame({f: [1] for f in fields})), Box("other", pd.DataFrame({"x": ["})"]}))))
    assert read_schema(schema_text(schema_of(boxes))) == {"Table": tuple(fields), "other": ("x",)}
    assert read_schema(schema_text(schema_of(boxes, "samples")))["other"] == ("x",)


@given(st.text())
def test_any_code_has_a_profile(code: str) -> None:
    assert code_profile(code, SCHEMA).aggregates <= {"count", "sum", "mean", "max", "min"}


@pytest.mark.parametrize(("code", "fields", "aggregates"), [
    ("result = singer[singer['Age'] > 3]['Name'].tolist()", {"age", "name"}, set()),
    ("result = singer.query('Age > 3').Name.tolist()", {"age", "name"}, set()),
    ("result = singer.groupby('Name')['Age'].agg('mean')", {"age", "name"}, {"mean"}),
    ("result = singer.groupby('Name').agg(n=('Age', 'max'))", {"age", "name"}, {"max"}),
    ("result = [[len(singer)]]", set(), {"count"}),
    ("result = [[singer.shape[0]]]", set(), {"count"}),
    ("result = singer.sort_values('Age', ascending=False).head(1)", {"age"}, {"max"}),
    ("result = singer.sort_values('Age').iloc[0]", {"age"}, {"min"}),
    ("result = singer.merge(concert, on='Singer_ID')", set(), set()),
    ("result = singer.merge(concert, on='Singer_ID')['Singer_ID']", {"singer_id"}, set()),
])
def test_pandas(code: str, fields: set[str], aggregates: set[str]) -> None:
    profile = code_profile(code, SCHEMA)
    assert (profile.fields, profile.aggregates) == (fields, aggregates)


@pytest.mark.parametrize(("sql", "boxes", "fields", "aggregates", "columns"), [
    ("SELECT Name, Age FROM singer", {"singer"}, {"name", "age"}, set(), 2),
    ("SELECT count(*) FROM singer", {"singer"}, set(), {"count"}, 1),
    ("SELECT * FROM singer ORDER BY Age DESC LIMIT 1", {"singer"}, {"age"}, {"max"}, None),
    ("SELECT T1.Name FROM singer T1 JOIN concert T2 ON T1.Singer_ID = T2.Singer_ID GROUP BY T1.Singer_ID "
     "HAVING count(*) > 1", {"singer", "concert"}, {"name"}, {"count"}, 1),
    ("SELECT Name FROM singer WHERE Singer_ID NOT IN (SELECT Singer_ID FROM concert)", {"singer", "concert"},
     {"name", "singer_id"}, set(), 1),
])
def test_sql(sql: str, boxes: set[str], fields: set[str], aggregates: set[str], columns: int | None) -> None:
    profile = gold_profile(Gold(language="sql", program=sql))
    assert profile is not None
    assert (profile.boxes, profile.fields, profile.aggregates, profile.columns) == (boxes, fields, aggregates, columns)


@pytest.mark.parametrize(("language", "program", "relations", "aggregates"), [
    ("sexpr", "(COUNT (AND film.film (JOIN film.film.directed_by m.0abc)))", {"film.film.directed_by"}, {"count"}),
    ("sexpr", "(ARGMAX space.star space.star.mass)", {"space.star.mass"}, {"max"}),
    ("sexpr", "(AND a.b (lt a.b.c 1980-01-01^^http://www.w3.org/2001/XMLSchema#date))", {"a.b.c"}, set()),
    ("sparql", "PREFIX ns: <http://rdf.freebase.com/ns/> SELECT DISTINCT ?x WHERE { ns:m.0f ns:people.person.spouse_s "
     "?y . ?y ns:people.marriage.spouse ?x } ORDER BY DESC(?d) LIMIT 1",
     {"people.person.spouse_s", "people.marriage.spouse"}, {"max"}),
    ("path", "parents -> nationality", {"parents", "nationality"}, set()),
])
def test_graph_queries(language: str, program: str, relations: set[str], aggregates: set[str]) -> None:
    profile = gold_profile(Gold(language=language, program=program))  # type: ignore[arg-type]
    assert profile is not None
    assert (profile.fields, profile.aggregates) == (relations, aggregates)


def test_no_program_has_no_profile() -> None:
    assert gold_profile(Gold(answers=("a",))) is None
    assert gold_profile(Gold(language="sql", program="SELECT FROM WHERE (")) is None


@given(tables, tables)
def test_values_compare_without_failing(gold: list[list[str | None]], answer: list[list[str | None]]) -> None:
    assert isinstance(compare_values(gold, answer), str)


@given(tables)
def test_equal_values_are_told_as_such(table: list[list[str | None]]) -> None:
    said = compare_values(table, table)
    assert said == "" or said.startswith("spelling")
