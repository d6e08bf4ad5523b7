"""Metrics of one answer, as the benchmarks' official scripts compute them.

``score`` gives every metric of an example's benchmark under the metric's own name; ``PRIMARY`` names the
one that decides whether an answer is right. No answer scores 0 everywhere and is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pandora_train.errors import GoldError
from pandora_train.metrics import sets, spider, ties, wikitq
from pandora_train.metrics.spider import as_text
from pandora_train.metrics.sqlrun import POOL, Cells
from pandora_train.records import Example, Row

GOLD_TIMEOUT = 60.0
__all__ = ["METRICS", "PRIMARY", "as_text", "database", "gold_rows", "is_right", "items", "metric_names",
           "needs_gold_rows",
           "primary", "score"]


def items(rows: Sequence[Row]) -> list[str]:
    """An answer's items: its cells, row by row; missing cells are no items, commas split nothing."""
    return [cell for row in rows for cell in row if cell is not None]


def needs_gold_rows(example: Example) -> bool:
    """Whether right is decided by what the gold SQL returns."""
    return example.benchmark == "spider" or (example.gold.answers is None and example.gold.language == "sql")


def gold_rows(example: Example, timeout: float = GOLD_TIMEOUT) -> Cells | None:
    """Run the gold SQL on the example's database; ``None`` where right isn't decided by SQL.

    Raises :class:`GoldError` when it isn't asked over a database, or the SQL fails or takes longer than
    ``timeout`` seconds, :class:`ReadingError` when the database's file is not there.
    """
    if not needs_gold_rows(example):
        return None
    result = POOL.run(database(example), spider.prepare_sql(example.gold.program), timeout)
    if result.rows is None:
        raise GoldError(f"the gold SQL gives no result ({result.error})")
    return result.rows


def database(example: Example) -> str:
    """Path of the SQLite file that the gold SQL runs on."""
    if example.knowledge.kind != "database":
        raise GoldError("gold SQL without a database")
    return example.knowledge.path


def score(example: Example, rows: Sequence[Row] | None, gold_rows: Cells | None = None) -> dict[str, float]:
    """Every metric of the example's benchmark for the answer ``rows`` (``None``: no answer, 0 everywhere).

    ``gold_rows`` spares running the gold SQL again. Raises :class:`GoldError` for an example without gold.
    """
    metric = METRICS["spider"] if needs_gold_rows(example) else METRICS[example.benchmark]
    values = metric(example, rows if rows is not None else (), gold_rows)
    return values if rows is not None else dict.fromkeys(values, 0.0)


def metric_names(example: Example) -> tuple[str, ...]:
    """Names of the metrics of an answer to ``example``."""
    return NAMES["spider" if needs_gold_rows(example) else example.benchmark]


def is_right(example: Example, rows: Sequence[Row] | None, gold_rows: Cells | None = None) -> bool:
    """Whether the answer is right: the primary metric is 1. The teacher verifies by this.

    Strict for SQL: equals in another order than gold's are not right here (:mod:`ties` tells such labels).
    """
    if rows is not None and needs_gold_rows(example):
        return _spider_strict(example, rows, _gold(example, gold_rows))
    return rows is not None and score(example, rows, gold_rows)[primary(example)] == 1.0


def primary(example: Example) -> str:
    """Name of the metric that decides whether an answer to ``example`` is right."""
    return PRIMARY["spider"] if needs_gold_rows(example) else PRIMARY[example.benchmark]


def _spider(example: Example, rows: Sequence[Row], gold: Cells | None) -> dict[str, float]:
    gold = _gold(example, gold)
    strict = _spider_strict(example, rows, gold)
    tied = not strict and ties.tie_match(database(example), example.gold.program, gold, rows)
    return {"ex": float(strict or tied), "ex_strict": float(strict)}


def _spider_strict(example: Example, rows: Sequence[Row], gold: Cells) -> bool:
    return spider.ex_match(gold, rows, spider.is_ordered(example.gold.program))


def _gold(example: Example, gold: Cells | None) -> Cells:
    rows = gold_rows(example) if gold is None else gold
    assert rows is not None
    return rows


def _wikitq(example: Example, rows: Sequence[Row], gold: Cells | None) -> dict[str, float]:
    return {"da": float(wikitq.denotation_match(_answers(example), items(rows), example.gold.canon))}


def _grailqa(example: Example, rows: Sequence[Row], gold: Cells | None) -> dict[str, float]:
    answers, cells = _answers(example), items(rows)
    return {"f1": sets.set_f1(answers, cells), "hits@1": sets.hits_at_1(answers, cells)}


def _webqsp(example: Example, rows: Sequence[Row], gold: Cells | None) -> dict[str, float]:
    answers, cells = _answers(example), items(rows)
    parses = example.gold.parses or (answers,)
    anywhere = [answer for parse in parses for answer in parse]
    precision, recall, f1 = sets.best_prf(parses, cells)
    return {"f1": f1, "precision": precision, "recall": recall, "true_accuracy": float(f1 == 1.0),
            "hits@1": sets.hits_at_1(anywhere, cells), "hit": sets.hit(anywhere, cells)}


def _pathquestion(example: Example, rows: Sequence[Row], gold: Cells | None) -> dict[str, float]:
    answers, cells = _answers(example), items(rows)
    return {"f1": sets.prf(answers, cells)[2], "hits@1": sets.hits_at_1(answers, cells),
            "hit": sets.hit(answers, cells)}


def _answers(example: Example) -> tuple[str, ...]:
    if example.gold.answers is None:
        raise GoldError("it has no gold answers to score against")
    return example.gold.answers


METRICS: dict[str, Callable[[Example, Sequence[Row], Cells | None], dict[str, float]]] = {
    "spider": _spider,
    "wikitq": _wikitq,
    "grailqa": _grailqa,
    "webqsp": _webqsp,
    "pathquestion": _pathquestion,
    "files": _wikitq,
}
PRIMARY: dict[str, str] = {"spider": "ex", "wikitq": "da", "grailqa": "f1", "webqsp": "f1",
                           "pathquestion": "f1", "files": "da"}
NAMES: dict[str, tuple[str, ...]] = {
    "spider": ("ex", "ex_strict"), "wikitq": ("da",), "grailqa": ("f1", "hits@1"),
    "webqsp": ("f1", "precision", "recall", "true_accuracy", "hits@1", "hit"),
    "pathquestion": ("f1", "hits@1", "hit"), "files": ("da",)}
