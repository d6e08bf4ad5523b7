"""Each rule of SQLite that pandas does not share, by its smallest example, against SQLite itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlite_boxes import boxes_of, difference, write

from pandora_train.compile import Unsupported
from pandora_train.compile.sql.query import compile_sql

TABLES = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER, y REAL, s TEXT, d TEXT, g TEXT)",
    "INSERT INTO t VALUES (1, 7, 1.5, 'Ann', '2020-05-01', 'a'), (2, NULL, 2.5, 'bob', '2021-06-02', 'b'),"
    " (3, -7, NULL, NULL, '2021-06-03', 'a'), (4, 2, 4.0, 'ann', NULL, NULL), (5, 2, 0.0, 'B_b', '2020-01-09', 'b')",
    "CREATE TABLE u (k INTEGER, t_id INTEGER, n TEXT, z INTEGER)",
    "INSERT INTO u VALUES (1, 1, '10', 5), (2, 1, '9', NULL), (3, NULL, '007', 2), (4, 4, '10', 0)",
    "CREATE TABLE m (id INTEGER, v INTEGER, words TEXT)",
    'CREATE TABLE p (q INTEGER, "class" TEXT, "a b" INTEGER)',
    "INSERT INTO p VALUES (1, 'x', 5), (1, 'x', 5), (2, 'y', NULL)",
    "INSERT INTO m VALUES (1, 3, '4:30 min'), (2, '', 'none'), (3, 12, '7')",
)

RULES = {
    "a comparison with NULL is not true": "SELECT id FROM t WHERE x > 0",
    "nor is an inequality": "SELECT id FROM t WHERE x != 2",
    "text too": "SELECT id FROM t WHERE s <> 'Ann'",
    "nor its negation": "SELECT id FROM t WHERE NOT (x > 0 OR s = 'bob')",
    "not above is at most": "SELECT id FROM t WHERE NOT x > 2",
    "not below is at least": "SELECT id FROM t WHERE NOT x < 2",
    "not at least is below": "SELECT id FROM t WHERE NOT x >= 2",
    "not at most is above": "SELECT id FROM t WHERE NOT x <= 2",
    "NOT LIKE leaves NULL out": "SELECT id FROM t WHERE s NOT LIKE 'a%'",
    "NOT IN a list leaves NULL out": "SELECT id FROM t WHERE x NOT IN (2, 3)",
    "NOT IN a set with NULL is never true": "SELECT id FROM t WHERE id NOT IN (SELECT t_id FROM u)",
    "IN a set with NULL": "SELECT id FROM t WHERE id IN (SELECT t_id FROM u)",
    "NULL NOT IN nothing is true": "SELECT id FROM t WHERE x NOT IN (SELECT z FROM u WHERE k > 9)",
    "joins do not match NULL with NULL": "SELECT t.id, u.k FROM t JOIN u ON t.x = u.z",
    "neither side's NULL": "SELECT count(*) FROM t AS a JOIN t AS b ON a.x = b.x",
    "left join keeps rows": "SELECT t.id, u.k FROM t LEFT JOIN u ON t.id = u.t_id",
    "an anti-join looks at the right key": "SELECT t.id FROM t LEFT JOIN u ON t.id = u.t_id WHERE u.t_id IS NULL",
    "count of a column skips NULL": "SELECT count(*), count(x), count(DISTINCT x) FROM t",
    "aggregates skip NULL": "SELECT sum(x), avg(x), min(x), max(s) FROM t",
    "the sum of nothing is NULL": "SELECT sum(x), count(x), max(x) FROM t WHERE id > 9",
    "groups keep NULL keys": "SELECT g, count(*) FROM t GROUP BY g",
    "sums of NULLs by group": "SELECT t_id, sum(z) FROM u GROUP BY t_id",
    "NULL sorts first": "SELECT id FROM t ORDER BY x, id",
    "and last descending": "SELECT id FROM t ORDER BY x DESC, id",
    "each key has its own end": "SELECT id FROM t ORDER BY g DESC, y, id",
    "DISTINCT keeps one NULL": "SELECT DISTINCT g FROM t",
    "integers divide to integers, toward zero": "SELECT id, x / 2 FROM t",
    "a real divides exactly": "SELECT id, x / 2.0, CAST(x AS REAL) / 2 FROM t",
    "division by zero is NULL": "SELECT k, 6 / z FROM u",
    "text compares with text": "SELECT k FROM u WHERE n > '7'",
    "a number literal becomes text beside text": "SELECT k FROM u WHERE n = 10",
    "leading zeros are kept": "SELECT k FROM u WHERE n = 7",
    "a text literal becomes a number beside numbers": "SELECT id FROM t WHERE x = '2'",
    "text that is no number is above numbers": "SELECT id FROM t WHERE x < 'abc'",
    "numbers join text that reads as one": "SELECT u.k, t.id FROM u JOIN t ON u.n = t.x",
    "LIKE ignores ASCII case": "SELECT id FROM t WHERE s LIKE 'ANN'",
    "LIKE with both wild cards": "SELECT id FROM t WHERE s LIKE '_n%'",
    "an underscore is a wild card": "SELECT id FROM t WHERE s LIKE 'b_b'",
    "equality does not ignore case": "SELECT id FROM t WHERE s = 'ann'",
    "a double-quoted word that is no column is text": 'SELECT id FROM t WHERE s = "bob"',
    "names ignore case": "SELECT ID, X FROM T WHERE Id = 1",
    "a mixed column sorts text last": "SELECT id FROM m ORDER BY v",
    "a mixed column compares numbers below text": "SELECT id FROM m WHERE v > 2",
    "arithmetic reads the start of text": "SELECT sum(words), avg(words) FROM m",
    "bare columns come from the row of the maximum": "SELECT id, max(x) FROM t",
    "and of the minimum in each group": "SELECT g, s, min(y) FROM t WHERE g IS NOT NULL GROUP BY g",
    "INTERSECT": "SELECT x FROM t INTERSECT SELECT z FROM u",
    "EXCEPT treats NULL as a value": "SELECT x FROM t EXCEPT SELECT z FROM u",
    "UNION drops duplicates": "SELECT x FROM t UNION SELECT z FROM u",
    "UNION ALL does not": "SELECT x FROM t UNION ALL SELECT z FROM u",
    "two columns at once": "SELECT id, x FROM t EXCEPT SELECT t_id, z FROM u",
    "LIMIT and OFFSET": "SELECT id FROM t ORDER BY id DESC LIMIT 2 OFFSET 1",
    "ORDER BY a position": "SELECT s, id FROM t ORDER BY 2 DESC",
    "ORDER BY an alias": "SELECT id AS n FROM t ORDER BY n DESC LIMIT 1",
    "ORDER BY an aggregate": "SELECT g FROM t GROUP BY g ORDER BY count(*) DESC, g LIMIT 2",
    "HAVING": "SELECT g, count(*) FROM t GROUP BY g HAVING count(*) > 1 AND max(x) < 9",
    "a scalar subquery": "SELECT id FROM t WHERE y > (SELECT avg(y) FROM t)",
    "an empty scalar subquery is NULL": "SELECT count(*) FROM t WHERE x > (SELECT z FROM u WHERE k = 99)",
    "a correlated aggregate": "SELECT id FROM t WHERE x > (SELECT avg(z) FROM u WHERE u.t_id = t.id)",
    "a correlated count is 0": "SELECT id, (SELECT count(*) FROM u WHERE u.t_id = t.id) FROM t",
    "correlated by an inequality": "SELECT id FROM t WHERE x = (SELECT min(b.x) FROM t AS b WHERE b.id < t.id + 1)",
    "EXISTS": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id AND u.z > 1)",
    "NOT EXISTS": "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id)",
    "EXISTS by an inequality": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.z > t.id)",
    "NOT EXISTS by an inequality": "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.z > t.id)",
    "a derived table": "SELECT max(n) FROM (SELECT g, count(*) AS n FROM t GROUP BY g) AS c",
    "WITH": "WITH big AS (SELECT id, g FROM t WHERE y > 1) SELECT g, count(*) FROM big GROUP BY g",
    "CASE": "SELECT id, CASE WHEN x > 5 THEN 'high' WHEN x IS NULL THEN 'none' ELSE 'low' END FROM t",
    "CASE within SUM": "SELECT g, sum(CASE WHEN x > 0 THEN 1 ELSE 0 END) FROM t GROUP BY g",
    "IIF, COALESCE, NULLIF": "SELECT iif(id > 2, 'x', 'y'), coalesce(x, 0), nullif(x, 2) FROM t",
    "text functions": "SELECT length(s), upper(s), substr(s, 2, 2), s || '!' FROM t",
    "dates are text": "SELECT strftime('%Y', d), count(*) FROM t GROUP BY strftime('%Y', d)",
    "BETWEEN": "SELECT id FROM t WHERE x NOT BETWEEN 0 AND 5",
    "comma join": "SELECT t.id, u.k FROM t, u WHERE t.id = u.t_id AND u.z < 9",
    "USING": "SELECT count(*) FROM t JOIN m USING (id)",
    "a self join": "SELECT a.id, b.id FROM t AS a JOIN t AS b ON a.g = b.g WHERE a.id < b.id",
    "a star": "SELECT * FROM t WHERE id = 1",
    "IS NOT compares NULL as a value": "SELECT id FROM t WHERE x IS NOT 2",
    "GLOB heeds case": "SELECT id FROM t WHERE s GLOB 'a*'",
    "LIKE with an escape": "SELECT id FROM t WHERE s LIKE 'b#_%' ESCAPE '#'",
    "LIKE keeps the case of letters beyond ASCII": "SELECT id FROM t WHERE s LIKE '%É%' OR s LIKE 'A%'",
    "a filtered aggregate": "SELECT count(*) FILTER (WHERE x > 0), sum(x) FILTER (WHERE id > 2) FROM t",
    "distinct sums": "SELECT sum(DISTINCT x), avg(DISTINCT x) FROM t",
    "distinct sums by group": "SELECT g, sum(DISTINCT id) FROM t GROUP BY g",
    "joined text": "SELECT group_concat(words, '; ') FROM m",
    "MIN of two columns of a row": "SELECT min(id, k) FROM t JOIN u ON t.id = u.t_id",
    "HAVING without groups": "SELECT count(*) FROM t HAVING count(*) > 9",
    "no table at all": "SELECT 7 / 2, 'x' || 'y'",
    "a condition on nothing but a subquery": "SELECT id FROM t WHERE (SELECT count(*) FROM u) > 9",
    "ORDER BY a condition": "SELECT id FROM t ORDER BY id > 2 DESC, id",
    "a full join": "SELECT a.id, b.k FROM t AS a FULL JOIN u AS b ON a.id = b.t_id WHERE a.id > 0 OR b.k > 0",
    "a right join": "SELECT t.s, u.k FROM t RIGHT JOIN u ON t.id = u.t_id",
    "a left join restricted on its right": "SELECT t.id, u.k FROM t LEFT JOIN u ON t.id = u.t_id AND u.z > 1",
    "a condition as a value": "SELECT id > 2 FROM t",
    "aliases that are no names in Python": 'SELECT x + 1 AS "2024", x + 2 AS "class" FROM t',
    "nor are columns": 'SELECT "class", "a b", count(*) FROM p GROUP BY q',
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("sql") / "small.sqlite", *TABLES)


@pytest.mark.parametrize("sql", RULES.values(), ids=RULES.keys())
def test_a_rule_of_sqlite_holds_in_pandas(small: Path, sql: str) -> None:
    assert difference(small, sql) == ""


@pytest.mark.parametrize(("sql", "reason"), [
    ("SELECT nothing FROM t", "unknown column"),
    ("SELECT id FROM nowhere", "unknown table"),
    ("SELECT id FROM t WHERE", "SQL that does not parse"),
    ("DELETE FROM t", "not a query"),
    ("SELECT", "SELECT of nothing"),
    ("SELECT 1e999 FROM t", "number"),
    ("SELECT id FROM t WHERE id IN ()", "IN list that is not constant"),
    ("SELECT id FROM t WHERE -1 = 'one'", "text compared with numbers"),
    ("SELECT id FROM t WHERE x IN (SELECT 1, 2)", "IN over several columns"),
    ("SELECT row_number() OVER (ORDER BY id) FROM t", "expression"),
    ("SELECT date('now') FROM t", "date function on something else than ISO dates"),
    ("SELECT printf('%d', id) FROM t", "function"),
])
def test_what_is_not_covered_is_a_named_reason(small: Path, sql: str, reason: str) -> None:
    with pytest.raises(Unsupported) as caught:
        compile_sql(sql, boxes_of(small))
    assert caught.value.reason == reason
