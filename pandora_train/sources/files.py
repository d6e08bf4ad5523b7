"""Users' own data: questions in a JSONL or CSV file, over CSV, TSV, SQLite, RDF or a SPARQL endpoint."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pandora_train.errors import UserError
from pandora_train.records import (
    DatabaseKnowledge,
    Example,
    Gold,
    GraphKnowledge,
    Knowledge,
    TableKnowledge,
    content_id,
)
from pandora_train.sources.reading import Loaded, inside, lines, numbered, text
from pandora_train.sources.select import DataConfig, relations

TABLES = {".csv", ".tsv"}
DATABASES = {".sqlite", ".sqlite3", ".db"}
GRAPHS = {".nt", ".ttl", ".txt"}


def knowledge_for(
    path: str,
    topics: tuple[str, ...] = (),
    hops: int = 2,
    relations: tuple[str, ...] | None = None,
    layers: str = "all",
) -> Knowledge:
    """What a question is asked over, told by the file's ending.

    ``.csv`` and ``.tsv`` are tables (a ``.tsv`` with ``topics`` is a triple file), ``.sqlite``, ``.sqlite3``
    and ``.db`` databases; ``.nt``, ``.ttl`` and ``.txt`` files, folders with a ``triples.tsv`` and http(s)
    URLs are graphs. Raises :class:`UserError` when it is missing or none of these.
    """
    graph = GraphKnowledge(store=path, topics=topics, hops=hops, relations=relations, layers=layers)
    if path.startswith(("http://", "https://")):
        return graph
    file = Path(os.path.expanduser(path))
    suffix = file.suffix.lower()
    if not file.exists():
        raise UserError(f"no file {file}")
    if file.is_dir():
        if (file / "triples.tsv").is_file():
            return graph
        raise UserError(f"{file} is a folder without triples.tsv; name a file in it")
    if suffix in GRAPHS or (suffix == ".tsv" and topics):
        return graph
    if suffix in TABLES:
        return TableKnowledge(path=str(file), name=file.stem)
    if suffix in DATABASES:
        return DatabaseKnowledge(path=str(file), db_id=file.stem)
    known = ", ".join(sorted(TABLES | DATABASES | GRAPHS))
    raise UserError(f"{file}: unknown kind of file; known: {known}, a folder with triples.tsv, a URL")


def read(config: DataConfig) -> Loaded:
    """Questions of a .jsonl or .csv file: ``question``, and optionally ``id``, ``answers``, ``knowledge``,
    ``topics``, ``split``.

    ``answers`` and ``topics`` are lists, in CSV ``|``-separated. ``knowledge`` is a path relative to the
    questions file and may not leave its folder; without it ``config.knowledge`` counts. Rows without
    ``split`` belong to every split.
    """
    file = Path(os.path.expanduser(config.path))
    examples: list[Example] = []
    ids: dict[str, int] = {}
    for number, row in _rows(file):
        if row.get("split", config.split) not in ("", config.split):
            continue
        examples.append(_example(file, number, row, config, ids))
    return Loaded(examples)


def _example(
    file: Path, number: int, row: dict[str, Any], config: DataConfig, ids: dict[str, int]
) -> Example:
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise UserError(f"{file}, line {number}: no question")
    topics = _strings(file, number, row, "topics") or ()
    where = row.get("knowledge") or config.store or config.knowledge
    if not where:
        raise UserError(f"{file}, line {number}: no knowledge; give it there, or set knowledge=PATH")
    if row.get("knowledge") and "://" not in where:
        where = str(inside(file.parent, where))
    knowledge = knowledge_for(where, topics, config.hops or 2, relations(config), config.layers)
    identifier = str(row.get("id") or content_id(question, Path(where).name, size=8))
    return Example(
        id=numbered(ids, f"files:{identifier}"),
        benchmark="files",
        split=config.split,
        question=question.strip(),
        knowledge=knowledge,
        gold=Gold(answers=_strings(file, number, row, "answers")),
        group=topics[0] if topics else Path(where).name,
    )


def _strings(file: Path, number: int, row: dict[str, Any], key: str) -> tuple[str, ...] | None:
    value = row.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return tuple(value.split("|"))
    if not isinstance(value, list):
        raise UserError(f"{file}, line {number}: {key} must be a list")
    return tuple(str(v) for v in value)


def _rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if file.suffix == ".csv":
        reader = csv.DictReader(io.StringIO(text(file)))
        for row in reader:
            yield reader.line_num, {k: v for k, v in row.items() if k}
        return
    for number, line in lines(file):
        try:
            entry = json.loads(line)
        except ValueError as e:
            raise UserError(f"{file}, line {number}: not valid JSON ({e})") from None
        if not isinstance(entry, dict):
            raise UserError(f"{file}, line {number}: must be a JSON object")
        yield number, entry
