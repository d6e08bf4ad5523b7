"""Prediction files in the benchmarks' official formats, or as JSONL.

* spider: SQL in the order of the question file, one statement a line (text after a tab is ignored) or as a
  JSON list of statements;
* wikitq: ``id<TAB>item<TAB>item…``;
* grailqa: ``{qid: {"logical_form": …, "answer": […]}}``, or such objects with a ``qid``, one a line;
* webqsp: ``[{"QuestionId": …, "Answers": […]}]``;
* any: JSONL with ``id`` and ``rows``, ``answers`` or ``sql``. A run's ``samples.jsonl`` is such a file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pandora_train.errors import UserError
from pandora_train.records import Example, Row
from pandora_train.sources import DataConfig, read, spider
from pandora_train.sources.reading import lines, read_json, text


@dataclass(frozen=True)
class Prediction:
    """One prediction: an answer as rows, SQL, or a logical form beside an answer."""

    rows: tuple[Row, ...] | None = None
    sql: str | None = None
    form: str | None = None



def read_predictions(file: Path, data: DataConfig, known: list[str]) -> dict[str, Prediction]:
    """Predictions by example id (``known`` ids, full or official); an unknown id stays as the file has it."""
    if not file.is_file():
        raise UserError(f"no prediction file {file}")
    if file.suffix == ".jsonl":
        pairs = [_record(file, number, line) for number, line in lines(file)]
    elif data.benchmark == "spider":
        return _sql_in_order(file, data)
    elif data.benchmark == "wikitq":
        pairs = [_items(line) for _, line in lines(file)]
    else:
        pairs = _json(file)
    ids = {i: i for i in known} | {i.split(":", 1)[-1]: i for i in known}
    predictions: dict[str, Prediction] = {}
    for official, prediction in pairs:
        example_id = ids.get(official, official)
        if example_id in predictions:
            raise UserError(f"{file}: question '{official}' is predicted twice")
        predictions[example_id] = prediction
    return predictions


def _items(line: str) -> tuple[str, Prediction]:
    identifier, *items = line.split("\t")
    return identifier, Prediction(rows=tuple((item,) for item in items))


def _record(file: Path, number: int, line: str) -> tuple[str, Prediction]:
    try:
        entry = json.loads(line)
    except ValueError:
        raise UserError(f"{file}, line {number}: not valid JSON") from None
    if not isinstance(entry, dict):
        raise UserError(f"{file}, line {number}: not a JSON object")
    return _entry(entry, f"{file}, line {number}")


def _json(file: Path) -> list[tuple[str, Prediction]]:
    """An object by question id (GrailQA), or a list of objects (WebQSP)."""
    content = read_json(file)
    if isinstance(content, dict):
        content = [(v if isinstance(v, dict) else {"answers": v}) | {"id": k} for k, v in content.items()]
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        raise UserError(f"{file}: neither an object by question id nor a list of objects")
    return [_entry(entry, f"{file}, entry {number}") for number, entry in enumerate(content, 1)]


def _entry(entry: dict[str, Any], where: str) -> tuple[str, Prediction]:
    """One prediction object, under any of the official spellings of its keys."""
    identifier = next((entry[k] for k in ("id", "qid", "QuestionId") if k in entry), None)
    if identifier is None:
        raise UserError(f"{where}: no id (id, qid or QuestionId)")
    if isinstance(entry.get("sql"), str):
        return str(identifier), Prediction(sql=entry["sql"])
    key = next((k for k in ("rows", "answers", "answer", "Answers") if k in entry), None)
    form = entry.get("logical_form")
    if key is None and form is None:
        raise UserError(f"{where}: no answer (rows, answers, sql; or the official answer, Answers)")
    rows = _rows(entry[key] if key else [], key == "rows", where)
    return str(identifier), Prediction(rows=rows, form=form)


def _rows(value: Any, nested: bool, where: str) -> tuple[Row, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise UserError(f"{where}: the answer is {type(value).__name__}, not a list of items")
    if nested:
        return tuple(tuple(map(_cell, row)) if isinstance(row, list) else (_cell(row),) for row in value)
    return tuple((_cell(item.get("AnswerArgument") if isinstance(item, dict) else item),) for item in value)


def _cell(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


def _sql_in_order(file: Path, data: DataConfig) -> dict[str, Prediction]:
    """As many statements as the question file has questions, unusable ones included."""
    if file.suffix == ".json":
        statements = read_json(file)
        if not isinstance(statements, list) or not all(isinstance(s, str) for s in statements):
            raise UserError(f"{file}: not a list of SQL statements")
    else:
        lines_ = text(file).replace("\r\n", "\n").removesuffix("\n").split("\n")
        statements = [line.split("\t")[0] for line in lines_]
    order = _question_order(data, read(data).examples)
    if len(statements) != len(order):
        raise UserError(f"{file} has {len(statements)} statements, {data.benchmark} {data.split} has "
                        f"{len(order)} questions: give one for each, in the question file's order")
    return {i: Prediction(sql=sql) for i, sql in zip(order, statements, strict=True) if i}


def _question_order(data: DataConfig, examples: list[Example]) -> list[str | None]:
    """Example ids in the order of the question file; ``None`` for questions that can't be used."""
    remaining = iter(examples)
    following = next(remaining, None)
    order: list[str | None] = []
    for entry in spider.entries(data):
        raw = (entry["db_id"], entry["question"].strip(), entry["query"].strip())
        if following is not None and raw == (following.group, following.question, following.gold.program):
            order.append(following.id)
            following = next(remaining, None)
        else:
            order.append(None)
    return order
