"""Random databases and queries: SQLite against the compiled pandas, without a difference."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import sql_grammar
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlite_boxes import boxes_in, run

from pandora_train.compile import Unsupported
from pandora_train.compile.sql.query import compile_sql
from pandora_train.metrics.spider import ex_match, is_ordered

QUERIES = 5
"""Queries asked of each database."""
LEFT_OUT = {"text compared with numbers", "set operation of text with numbers", "correlated IN with NULL"}
"""Reasons for which a random query may be refused."""


def check(rng: random.Random, queries: int = QUERIES) -> Counter[str]:
    """Compare ``queries`` random queries over one random database; counts what was refused."""
    counts: Counter[str] = Counter()
    con = sql_grammar.database(rng)
    boxes = boxes_in(con)
    for _ in range(queries):
        sql = sql_grammar.Query(rng).one()
        gold = con.execute(sql).fetchall()
        try:
            program = compile_sql(sql, boxes)
        except Unsupported as e:
            counts[e.reason] += 1
            continue
        counts["compared"] += 1
        rows = run(program.code, boxes)
        assert ex_match(gold, rows, is_ordered(sql), typed=True), \
            f"{sql}\n{program.code}\nSQLite {gold}\npandas {rows}"
    return counts


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_random_queries_agree_with_sqlite(rng: random.Random) -> None:
    assert set(check(rng)) <= {"compared", *LEFT_OUT}


@pytest.mark.parametrize("seed", range(3))
def test_hardly_any_query_of_the_grammar_is_refused(seed: int) -> None:
    counts = check(random.Random(seed), queries=60)
    assert counts["compared"] >= 55
