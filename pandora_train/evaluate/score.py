"""``pandora score``: anybody's prediction file against a benchmark.

The formats are in :mod:`predictions`. A question without a prediction scores 0 and is counted; predictions
for unknown questions are counted and otherwise ignored (as officially); a question predicted twice is
refused. Foreign SQL runs read-only in a process that is killed when its time is up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from pandora_train.errors import UserError, pick
from pandora_train.evaluate.predictions import Prediction, read_predictions
from pandora_train.evaluate.stats import Metric, measured, subsets
from pandora_train.metrics import METRICS, PRIMARY, database, gold_rows, grailqa, needs_gold_rows, score
from pandora_train.metrics import spider as spider_metric
from pandora_train.metrics.declared import DEVIATIONS
from pandora_train.metrics.sqlrun import POOL
from pandora_train.metrics.ties import tie_match
from pandora_train.records import Example, Record
from pandora_train.sources import DataConfig, load, read

SQL_TIMEOUT = 30.0
WORKERS = 4
PredictionOutcome = Literal["answered", "empty", "no answer", "error", "timeout", "missing"]


class Scored(Record):
    """One question's verdict."""

    id: str
    group: str
    tags: dict[str, str]
    outcome: PredictionOutcome
    scores: dict[str, float]
    note: str = ""
    """The error of a prediction that failed."""


class ScoreReport(Record):
    """The score of a prediction file; every figure with the question set it is about."""

    benchmark: str
    split: str
    data: str
    primary: str
    n: int
    unusable: int
    """Questions of the split that can't be scored and are in no figure (see ``pandora data``)."""
    unknown: int
    """Predictions for questions that aren't in the split."""
    outcomes: dict[str, int]
    metrics: dict[str, Metric]
    subsets: dict[str, dict[str, Metric]]
    notes: tuple[str, ...]
    samples: tuple[Scored, ...]


def score_file(predictions: Path, data: DataConfig, timeout: float = SQL_TIMEOUT) -> ScoreReport:
    """Score a prediction file. ``timeout``: seconds for each foreign SQL statement.

    Raises :class:`UserError` for a file that can't be read, repeated or only unknown ids, or a Spider file
    whose number of lines isn't the number of questions.
    """
    pick("benchmark", data.benchmark, METRICS)
    examples = load(data)
    everything = read(data)
    known = [e.id for e in everything.examples] + list(everything.unusable)
    predicted = read_predictions(predictions, data, known)
    unknown = sorted(predicted.keys() - set(known))
    if predicted and len(unknown) == len(predicted):
        raise UserError(f"{predictions}: none of its {len(predicted)} ids, such as '{unknown[0]}', is in "
                        f"{data.benchmark} {data.split}: is it another split's?")
    ontology = grailqa.load_ontology(Path(data.path)) if data.benchmark == "grailqa" else None
    with ThreadPoolExecutor(WORKERS) as pool:
        samples = list(pool.map(lambda e: _verdict(e, predicted.get(e.id), ontology, timeout), examples))
    return _report(data, samples, predicted, len(everything.unusable), len(unknown), ontology)


def _report(data: DataConfig, samples: list[Scored], predicted: dict[str, Prediction], unusable: int,
            unknown: int, ontology: grailqa.FreebaseOntology | None) -> ScoreReport:
    return ScoreReport(
        benchmark=data.benchmark, split=data.split, data=data.path, primary=PRIMARY[data.benchmark],
        n=len(samples), unusable=unusable, unknown=unknown,
        outcomes=dict(Counter(s.outcome for s in samples)), metrics=measured(samples),
        subsets={name: measured(part) for name, part in subsets(samples).items()},
        notes=tuple(_notes(data.benchmark, predicted.values(), ontology)), samples=tuple(samples))


def _notes(benchmark: str, predicted: Iterable[Prediction],
           ontology: grailqa.FreebaseOntology | None) -> list[str]:
    """What must be said beside the numbers."""
    notes = list(DEVIATIONS[benchmark])
    if benchmark == "grailqa" and ontology is None and any(p.form for p in predicted):
        notes.append("no em, and f1 from answers alone: fb_roles, fb_types, reverse_properties are not "
                     "in the data folder")
    return notes


# --- verdicts -----------------------------------------------------------------------------------------


def _verdict(example: Example, prediction: Prediction | None, ontology: grailqa.FreebaseOntology | None,
             timeout: float) -> Scored:
    if prediction is None:
        return _scored(example, "missing", score(example, None))
    if prediction.sql is not None and not prediction.sql.strip():
        return _scored(example, "no answer", score(example, None))
    if prediction.sql is not None:
        return _sql_verdict(example, prediction.sql, timeout)
    scores = score(example, prediction.rows)
    if prediction.form is not None and ontology is not None:
        em = grailqa.same_logical_form(prediction.form, example.gold.program, ontology)
        scores = {"em": float(em)} | scores | ({"f1": 1.0} if em else {})
    if prediction.rows is None:
        return _scored(example, "no answer", scores)
    return _scored(example, "answered" if prediction.rows else "empty", scores)


def _sql_verdict(example: Example, sql: str, timeout: float) -> Scored:
    """Foreign SQL on the example's database (ex) and, where there are several, on all of them (ts)."""
    if not needs_gold_rows(example):
        raise UserError(f"{example.id}: SQL predictions can be scored only where gold is SQL")
    gold_sql = example.gold.program
    ordered = spider_metric.is_ordered(gold_sql)
    original, *variants = spider_metric.databases(database(example))
    result = POOL.run(original, spider_metric.prepare_sql(sql), timeout)
    if result.rows is None:
        outcome: PredictionOutcome = "timeout" if result.outcome == "timeout" else "error"
        zeros = score(example, None) | ({"ts": 0.0} if variants else {})
        return _scored(example, outcome, zeros, result.error)
    gold = gold_rows(example) or []
    strict = spider_metric.ex_match(gold, result.rows, ordered, typed=True)
    tied = strict or tie_match(str(original), gold_sql, gold, result.rows, typed=True)
    scores = {"ex": float(tied), "ex_strict": float(strict)}
    if variants:
        scores["ts"] = float(strict and all(_same(v, gold_sql, sql, ordered, timeout) for v in variants))
    return _scored(example, "answered" if result.rows else "empty", scores)


def _same(db: Path, gold_sql: str, sql: str, ordered: bool, timeout: float) -> bool:
    gold, rows = (POOL.run(db, spider_metric.prepare_sql(s), timeout).rows for s in (gold_sql, sql))
    if gold is None:
        raise UserError(f"the gold SQL fails on {db}: {gold_sql}")
    return rows is not None and spider_metric.ex_match(gold, rows, ordered, typed=True)


def _scored(example: Example, outcome: PredictionOutcome, scores: dict[str, float], note: str = "") -> Scored:
    return Scored(id=example.id, group=example.group, tags=example.tags, outcome=outcome, scores=scores,
                  note=note)
