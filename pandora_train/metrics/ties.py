"""Gold SQL whose result SQL leaves open: found by shuffling rows, scored tie-aware.

Such are a LIMIT without ORDER BY, ties in ORDER BY (at a limit or not), and bare columns beside an
aggregate. An answer to such a question is right when it equals any result that SQL allows:

* for ORDER BY and LIMIT at the top, exactly: the query runs without its limit and with its sort keys, and
  the answer may put equals in any order and take any of the equals that the limit cuts (tied groups too,
  which SQLite always ranks in one way);
* else any of the results seen over ``SEEDS`` shuffles of the stored rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, permutations
from typing import TYPE_CHECKING

from pandora_train.metrics.spider import GoldColumn, ex_match, is_ordered, prepare_sql, shaped
from pandora_train.metrics.sqlrun import POOL, Cell, Cells
from pandora_train.sources.reading import Stamp, stamp

if TYPE_CHECKING:
    from sqlglot import exp

SEEDS = 12
TIMEOUT = 10.0
"""Seconds for each shuffle; the copies have no indexes."""
MAX_WIDTH = 6
"""Answers wider than this are compared in the gold's column order only."""


def results(db: str, sql: str, seeds: int = SEEDS) -> tuple[Cells, ...]:
    """The distinct results of ``sql`` over shuffles of the rows of ``db``; the stored order isn't tried."""
    return _results(db, stamp(db), sql, seeds)


@lru_cache(maxsize=512)
def _results(db: str, _stamp: Stamp, sql: str, seeds: int) -> tuple[Cells, ...]:
    ordered = is_ordered(sql)
    seen: list[Cells] = []
    for seed in range(seeds):
        rows = POOL.run(db, prepare_sql(sql), TIMEOUT, seed=seed).rows
        if rows is None:  # too slow without its indexes: judged by the shuffles so far
            break
        if not any(_alike(other, rows, ordered) for other in seen):
            seen.append(rows)
    return tuple(seen)


def is_unstable(db: str, sql: str, gold: Cells, seeds: int = SEEDS) -> bool:
    """Whether the result differs from ``gold`` under some shuffle of the stored rows.

    Such a label is no ground truth: keep it out of training, score it tie-aware.
    """
    ordered = is_ordered(sql)
    return any(not _alike(gold, rows, ordered) for rows in results(db, sql, seeds))


def _alike(gold: Cells, rows: Cells, ordered: bool) -> bool:
    """:func:`ex_match` of typed rows, with a short way for equal ones (most of them)."""
    if gold == rows or (not ordered and Counter(gold) == Counter(rows)):
        return True
    return ex_match(gold, rows, ordered, typed=True)


def tie_match(db: str, sql: str, gold: Cells, rows: Sequence[Sequence[Cell]], typed: bool = False) -> bool:
    """Whether ``rows`` are another result that the gold SQL allows."""
    ranked = _ranked(db, stamp(db), sql)
    if ranked is not None and _fits(ranked, rows, typed):
        return True
    ordered = is_ordered(sql)
    return any(ex_match(other, rows, ordered, typed) for other in results(db, sql))


def cuts_equals(db: str, sql: str) -> bool:
    """Whether a limit at the top leaves out rows that rank equal to rows it keeps (other than themselves).

    SQLite may always choose the same ones (of tied groups, say), so shuffling need not show it.
    """
    ranked = _ranked(db, stamp(db), sql)
    if ranked is None:
        return False
    at = 0
    for group in ranked.groups:
        for edge in (ranked.start, ranked.stop):
            if at < edge < at + len(group) and any(row != group[0] for row in group):
                return True
        at += len(group)
    return False


@dataclass(frozen=True)
class _Ranked:
    """All rows that the query ranks, by groups of equal sort keys, and the part that its limit keeps."""

    groups: tuple[Cells, ...]
    start: int
    stop: int


@lru_cache(maxsize=512)
def _ranked(db: str, _stamp: Stamp, sql: str) -> _Ranked | None:
    """Run the query without its limit and with its sort keys; ``None`` where that can't be written."""
    from sqlglot import errors, exp, parse_one

    try:
        query = parse_one(prepare_sql(sql), dialect="sqlite")
    except errors.SqlglotError:
        return None
    limit, offset = query.args.get("limit"), query.args.get("offset")
    bounds = [_whole(limit), _whole(offset)]
    order = query.args.get("order")
    if not isinstance(query, exp.Select) or (order is None and limit is None) or None in bounds:
        return None
    keys = [item.this for item in order.expressions] if order is not None else []
    added = [key for key in keys if _output(query, key) is None]
    if added and query.args.get("distinct"):
        return None
    width_added = len(added)
    wide = query.copy()
    for key in added:
        wide = wide.select(exp.alias_(key.copy(), f"sort_key_{len(wide.expressions)}"), copy=False)
    wide.set("limit", None)
    wide.set("offset", None)
    result = POOL.run(db, wide.sql(dialect="sqlite"), TIMEOUT)
    if result.rows is None:
        return None
    return _grouped(query, keys, result.rows, width_added, bounds)


def _grouped(query: exp.Select, keys: list[exp.Expression], rows: Cells, added: int,
             bounds: list[int | None]) -> _Ranked:
    width = (len(rows[0]) if rows else added) - added
    extra = iter(range(width, width + added))
    places = [place if (place := _output(query, key)) is not None else next(extra) for key in keys]
    groups = [[row[:width] for row in part]
              for _, part in groupby(rows, key=lambda row: tuple(row[place] for place in places))]
    limit, offset = bounds[0], max(0, bounds[1] or 0)
    stop = len(rows) if limit is None or limit < 0 else min(len(rows), offset + limit)
    return _Ranked(tuple(groups), min(offset, stop), stop)


def _whole(clause: exp.Expression | None) -> int | None:
    """The number in a LIMIT or OFFSET; -1 (none) without the clause, ``None`` if it is no plain number."""
    if clause is None:
        return -1
    try:
        return int(clause.expression.name)
    except ValueError:
        return None


def _output(query: exp.Select, key: exp.Expression) -> int | None:
    """Which output column a sort key is, by alias, position or equal expression; ``None`` if none."""
    from sqlglot import exp

    if any(column.is_star for column in query.expressions):
        return None
    if isinstance(key, exp.Literal) and key.is_int:
        return int(key.name) - 1
    for place, column in enumerate(query.expressions):
        if column.unalias() == key or (column.alias and column.alias.lower() == key.sql().lower()):
            return place
    return None


def _fits(ranked: _Ranked, rows: Sequence[Sequence[Cell]], typed: bool) -> bool:
    """Whether ``rows`` are a slice of the ranking, up to the order of equals and of columns."""
    everything = [row for group in ranked.groups for row in group]
    width = len(everything[0]) if everything else 0
    answer = shaped(rows, ranked.stop - ranked.start, width)
    if not answer:
        return answer is not None
    columns = [GoldColumn(column, typed) for column in zip(*everything, strict=True)]
    ranks = iter(zip(*(column.keys for column in columns), strict=True))
    groups = [[next(ranks) for _ in group] for group in ranked.groups]
    orders = permutations(range(width)) if width <= MAX_WIDTH else iter([tuple(range(width))])
    for order in orders:
        keys = [tuple(column.read(row[j]) for column, j in zip(columns, order, strict=True))
                for row in answer]
        if _slice_fits(groups, keys, ranked.start, ranked.stop):
            return True
    return False


def _slice_fits(groups: list[list[tuple[Hashable, ...]]], keys: list[tuple[Hashable, ...]], start: int,
                stop: int) -> bool:
    at = 0
    for group in groups:
        first, last = max(at, start), min(at + len(group), stop)
        if first < last and not Counter(keys[first - start:last - start]) <= Counter(group):
            return False
        at += len(group)
    return True
