"""Our EX verdict beside a plain, independent reading of the official rules: real and generated pairs."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from functools import cache
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pandora_train.metrics.spider import as_text, ex_match, is_ordered, prepare_sql
from pandora_train.metrics.sqlrun import POOL, Cell, Cells

SPIDER = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "spider"
NEEDS_DATA = pytest.mark.skipif(not SPIDER.is_dir(), reason="the Spider data folder is not here")


# --- the oracle: slow, obvious, and written without looking at the product ------------------------------


def same_typed(gold: Cell, cell: Cell, tolerance: float) -> bool:
    """Two of SQLite's own cells."""
    if isinstance(gold, int | float) and isinstance(cell, int | float):
        if isinstance(gold, int) and isinstance(cell, int):
            return gold == cell
        return gold == cell or abs(gold - cell) <= tolerance * max(abs(gold), abs(cell))
    return type(gold) is type(cell) and gold == cell


def same_text(gold: Cell, cell: str | None) -> bool:
    """A gold cell and an answer's text cell, by the gold cell's type."""
    if gold is None or cell is None:
        return gold is None and cell is None
    if isinstance(gold, str):
        return gold == cell
    cell = {"True": "1", "False": "0"}.get(cell, cell)
    if cell != cell.strip() or "_" in cell or not cell.isascii() or "n" in cell.lower():
        return False
    try:
        return same_typed(gold, int(cell), 1e-9)
    except ValueError:
        pass
    try:
        return same_typed(gold, float(cell), 1e-9)
    except ValueError:
        return False


def oracle(gold: Cells, rows: list[tuple[Cell, ...]], ordered: bool, same: object) -> bool:
    """Try every column order; rows in order, or each paired with another (augmenting paths)."""
    if len(gold) != len(rows):
        return False
    if not gold:
        return True
    if any(len(row) != len(gold[0]) for row in rows):
        return False
    for order in permutations(range(len(gold[0]))):
        moved = [tuple(row[i] for i in order) for row in rows]
        if ordered and all(row_same(g, m, same) for g, m in zip(gold, moved, strict=True)):
            return True
        if not ordered and perfect_matching(gold, moved, same):
            return True
    return False


def row_same(gold: tuple[Cell, ...], row: tuple[Cell, ...], same: object) -> bool:
    return all(same(g, c) for g, c in zip(gold, row, strict=True))  # type: ignore[operator]


def perfect_matching(gold: Cells, rows: Cells, same: object) -> bool:
    owner: dict[int, int] = {}

    def place(i: int, seen: set[int]) -> bool:
        for j, row in enumerate(rows):
            if j not in seen and row_same(gold[i], row, same):
                seen.add(j)
                if j not in owner or place(owner[j], seen):
                    owner[j] = i
                    return True
        return False

    return all(place(i, set()) for i in range(len(gold)))


# --- real pairs ---------------------------------------------------------------------------------------


@cache
def gold_results() -> list[tuple[str, str, Cells]]:
    found = []
    for entry in json.loads((SPIDER / "dev.json").read_text(encoding="utf-8")):
        db = SPIDER / "database" / entry["db_id"] / f"{entry['db_id']}.sqlite"
        if db.is_file():
            rows = POOL.run(db, prepare_sql(entry["query"])).rows
            assert rows is not None
            found.append((entry["db_id"], entry["query"], rows))
    return found


def variants(rows: list[tuple[str | None, ...]], random_: random.Random) -> Iterator[list[tuple[str | None, ...]]]:
    """Answers that are right, nearly right, and wrong in the ways that models are."""
    yield rows
    yield random_.sample(rows, len(rows))
    yield list(reversed(rows))
    order = random_.sample(range(len(rows[0])), len(rows[0])) if rows else []
    yield [tuple(row[i] for i in order) for row in rows]
    yield rows[:-1]
    yield [*rows, *rows[:1]]
    yield [(*row, "1") for row in rows]
    yield [tuple(c and touch(c, 1 + 1e-13) for c in row) for row in rows]
    yield [tuple(c and touch(c, 1 + 1e-6) for c in row) for row in rows]
    yield [tuple(f"{c}.0" if c and c.isdigit() else c for c in row) for row in rows]
    yield [tuple("" if c is None else c for c in row) for row in rows]
    yield [tuple(c and c.lower() for c in row) for row in rows]
    if rows:
        columns = [random_.sample(column, len(column)) for column in zip(*rows, strict=True)]
        yield list(zip(*columns, strict=True))


def touch(cell: str, factor: float) -> str:
    try:
        return repr(float(cell) * factor)
    except ValueError:
        return cell


@NEEDS_DATA
def test_text_answers_get_the_oracle_verdict_on_real_results() -> None:
    random_ = random.Random(5)
    pairs, right, differences = 0, 0, []
    for _, sql, gold in gold_results():
        if len(gold) > 40:
            continue
        for rows in variants(list(as_text(gold)), random_):
            expected = oracle(gold, rows, is_ordered(sql), same_text)  # type: ignore[arg-type]
            pairs, right = pairs + 1, right + expected
            if ex_match(gold, rows, is_ordered(sql)) != expected:
                differences.append((sql, gold[:3], rows[:3]))
    assert not differences
    print(f"spider text pairs {pairs}, right {right}")
    assert pairs > 5000
    assert 0.2 < right / pairs < 0.8


@NEEDS_DATA
def test_sql_results_get_the_official_verdict_on_pairs_of_gold_queries() -> None:
    """Exact cells, as officially, for each pair of gold queries of one database with results of one shape."""
    by_db: dict[str, list[tuple[str, Cells]]] = {}
    for db, sql, rows in gold_results():
        by_db.setdefault(db, []).append((sql, rows))
    pairs, right, unexplained = 0, 0, []
    for results in by_db.values():
        for sql, gold in results:
            for _, rows in results:
                if len(gold) != len(rows) or len(gold) > 25 or (gold and len(gold[0]) != len(rows[0])):
                    continue
                exact = oracle(gold, rows, is_ordered(sql), lambda a, b: same_typed(a, b, 0.0))
                ours = ex_match(gold, rows, is_ordered(sql), typed=True)
                pairs, right = pairs + 1, right + exact
                if ours != exact and not oracle(gold, rows, is_ordered(sql), lambda a, b: same_typed(a, b, 1e-9)):
                    unexplained.append((sql, gold[:3], rows[:3]))
    assert not unexplained
    print(f"spider sql pairs {pairs}, right {right}")
    assert pairs > 2000
    assert 100 < right < pairs - 100


# --- generated pairs ------------------------------------------------------------------------------------

NUMBERS = st.sampled_from([0, 1, 2, -1, 10**12, 10**12 + 1, 0.5, 1.0, 1.5, 1 / 3, 1e-300, 2.5e15])
TEXTS = st.sampled_from(["", "a", "b", "A", "1", "1.0", "nan", "None", " 1", "1_0", "True", "é", "inf"])
CELLS = st.one_of(NUMBERS, TEXTS, st.none())


@st.composite
def tables(draw: st.DrawFn) -> tuple[Cells, Cells]:
    """A gold table of few different cells, and an answer near it: columns and rows moved, cells changed."""
    width, height = draw(st.integers(1, 3)), draw(st.integers(0, 4))
    pool = draw(st.lists(CELLS, min_size=1, max_size=4))
    gold = [tuple(draw(st.sampled_from(pool)) for _ in range(width)) for _ in range(height)]
    order = draw(st.permutations(range(width)))
    rows = [tuple(row[i] for i in order) for row in draw(st.permutations(gold))]
    for _ in range(draw(st.integers(0, 2))):
        if rows:
            at, place = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
            rows[at] = (*rows[at][:place], draw(st.one_of(st.sampled_from(pool), CELLS)), *rows[at][place + 1:])
    return gold, rows


@settings(max_examples=300, deadline=None)
@given(tables(), st.booleans())
def test_generated_sql_results_get_the_oracle_verdict(pair: tuple[Cells, Cells], ordered: bool) -> None:
    gold, rows = pair
    expected = oracle(gold, rows, ordered, lambda a, b: same_typed(a, b, 1e-9))
    assert ex_match(gold, rows, ordered, typed=True) == expected


def mixed(gold: Cells) -> bool:
    """Whether some column holds one number both as a number and as text: then text can't tell them apart."""
    def as_number(cell: Cell) -> float:
        try:
            return float({"True": "1", "False": "0"}.get(str(cell), str(cell)))
        except ValueError:
            return math.nan

    for column in zip(*gold, strict=True):
        numbers = [c for c in column if isinstance(c, int | float)]
        if any(isinstance(c, str) and any(same_typed(n, as_number(c), 1e-9) for n in numbers) for c in column):
            return True
    return False


@settings(max_examples=300, deadline=None)
@given(tables(), st.booleans())
def test_generated_text_answers_get_the_oracle_verdict(pair: tuple[Cells, Cells], ordered: bool) -> None:
    gold, rows = pair[0], [tuple(c if c is None else str(c) for c in row) for row in pair[1]]
    if not mixed(gold):
        assert ex_match(gold, rows, ordered) == oracle(gold, rows, ordered, same_text)  # type: ignore[arg-type]
