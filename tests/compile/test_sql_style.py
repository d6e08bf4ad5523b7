"""The words the student learns: code and reasoning of common queries, as they must read."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlite_boxes import boxes_of, write

from pandora_train.box.box import BoxSet
from pandora_train.compile.sql.query import compile_sql

PROGRAMS = {
    "SELECT name, country FROM singer WHERE age > 20 ORDER BY age DESC LIMIT 3": (
        "1. Keep the rows of singer where age is above 20.\n"
        "2. Sort the rows by age, largest first, and take the first 3.\n"
        "3. Return name and country.",
        "filtered = singer[singer['age'] > 20]\n"
        "top = filtered.sort_values('age', ascending=False).head(3)\n"
        "result = top[['name', 'country']].values.tolist()"),
    "SELECT count(*) FROM singer": (
        "1. Return the number of rows of singer.",
        "result = [[len(singer)]]"),
    "SELECT country, count(*) FROM singer GROUP BY country HAVING count(*) > 1": (
        "1. For each country, count the rows.\n"
        "2. Keep the groups where count is above 1.\n"
        "3. Return country and count.",
        "groups = singer.groupby('country').size().reset_index(name='count')\n"
        "kept = groups[groups['count'] > 1]\n"
        "result = kept[['country', 'count']].values.tolist()"),
    "SELECT T1.name, avg(T2.price) FROM singer AS T1 JOIN concert AS T2 ON T1.id = T2.singer_id GROUP BY T1.id": (
        "1. Join singer with concert on id = singer_id.\n"
        "2. For each id and name, take the average price.\n"
        "3. Return name and average_price.",
        "joined = singer.merge(concert, left_on='id', right_on='singer_id')\n"
        "groups = joined.groupby(['id', 'name']).agg(average_price=('price', 'mean')).reset_index()\n"
        "result = groups[['name', 'average_price']].values.tolist()"),
    "SELECT DISTINCT country FROM singer WHERE name LIKE '%an%'": (
        "1. Keep the rows of singer where name contains 'an'.\n"
        "2. Return each distinct country.",
        "filtered = singer[singer['name'].str.contains('an', case=False, regex=False)]\n"
        "result = filtered[['country']].drop_duplicates().values.tolist()"),
    "SELECT name FROM singer WHERE age > (SELECT avg(age) FROM singer)": (
        "1. Find the average age, average_age.\n"
        "2. Keep the rows of singer where age is above average_age.\n"
        "3. Return name.",
        "average_age = singer['age'].mean()\n"
        "filtered = singer[singer['age'] > average_age]\n"
        "result = filtered[['name']].values.tolist()"),
    "SELECT name FROM singer WHERE id NOT IN (SELECT singer_id FROM concert)": (
        "1. Keep the rows of singer where id is not among the singer_id of concert.\n"
        "2. Return name.",
        "filtered = singer[~singer['id'].isin(concert['singer_id'])]\n"
        "result = filtered[['name']].values.tolist()"),
    "SELECT country FROM singer WHERE age > 40 INTERSECT SELECT country FROM singer WHERE age < 30": (
        "1. Keep the rows of singer where age is above 40.\n"
        "2. Keep the rows of singer where age is below 30.\n"
        "3. Keep the rows of filtered whose country is also among the country of filtered_2.\n"
        "4. Return each distinct country.",
        "filtered = singer[singer['age'] > 40]\n"
        "filtered_2 = singer[singer['age'] < 30]\n"
        "common = filtered[filtered['country'].isin(filtered_2['country'])]\n"
        "result = common[['country']].drop_duplicates().values.tolist()"),
}


@pytest.fixture(scope="module")
def music(tmp_path_factory: pytest.TempPathFactory) -> BoxSet:
    path = tmp_path_factory.mktemp("style") / "music.sqlite"
    return boxes_of(write(
        path,
        "CREATE TABLE singer (id INTEGER PRIMARY KEY, name TEXT, country TEXT, age INTEGER)",
        "INSERT INTO singer VALUES (1, 'Joe', 'Fiji', 52), (2, 'Ana', 'Peru', 32), (3, 'Ian', 'Fiji', 25)",
        "CREATE TABLE concert (concert_id INTEGER, singer_id INTEGER, price REAL)",
        "INSERT INTO concert VALUES (1, 2, 9.5), (2, 3, 7.0)"))


@pytest.mark.parametrize("sql", PROGRAMS)
def test_code_and_reasoning_read_as_they_must(music: BoxSet, sql: str) -> None:
    program = compile_sql(sql, music)
    assert (program.reasoning, program.code) == PROGRAMS[sql]


def test_a_long_filter_has_one_condition_a_line(music: BoxSet) -> None:
    sql = ("SELECT name FROM singer WHERE name != 'Maximilian the First' AND country != 'Liechtenstein' "
           "AND age BETWEEN 20 AND 60")
    code = compile_sql(sql, music).code
    assert code.splitlines()[1:4] == ["    (singer['name'] != 'Maximilian the First')",
                                      "    & (singer['country'] != 'Liechtenstein')",
                                      "    & singer['age'].between(20, 60)"]


def test_guards_stand_only_where_values_are_missing(tmp_path: Path) -> None:
    def code(cell: str) -> str:
        path = write(tmp_path / f"guard{len(cell)}.sqlite", "CREATE TABLE t (s TEXT)",
                     f"INSERT INTO t VALUES ('a'), ({cell})")
        return compile_sql("SELECT count(*) FROM t WHERE s != 'a'", boxes_of(path)).code

    assert "notna" not in code("'b'")
    assert "t['s'].notna()" in code("NULL")
