"""Spider: ``tables.json``, ``train_spider.json`` (and ``train_others.json``), ``dev.json``, ``database/``.

Source: the official release (https://yale-lily.github.io/spider). The test split, where present, has its own
``test_tables.json`` and ``test_database/``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pandora_train.errors import UserError
from pandora_train.records import DatabaseKnowledge, Example, Gold, content_id
from pandora_train.sources.hardness import hardness
from pandora_train.sources.reading import Loaded, entry, first_file, folder, inside, numbered, records
from pandora_train.sources.select import DataConfig

_QUESTION = ["question", "query", "db_id"]
_SCHEMA = ["db_id", "table_names_original", "column_names_original", "foreign_keys"]
ForeignKeys = tuple[tuple[str, str, str, str], ...]
_FILES = {"train": ["train_spider.json"], "dev": ["dev.json"], "test": ["test.json"]}


def read(config: DataConfig) -> Loaded:
    """Questions whose database file is there; ids are hashes of database, question and SQL."""
    root = folder(config.path)
    test = config.split == "test" and (root / "test_tables.json").is_file()
    tables = first_file(root, ["test_tables.json" if test else "tables.json"])
    databases = "test_database" if test and (root / "test_database").is_dir() else "database"
    schemas = foreign_keys(tables)
    examples: list[Example] = []
    unusable: dict[str, str] = {}
    ids: dict[str, int] = {}
    for asked in entries(config):
        db_id, question, query = asked["db_id"], asked["question"].strip(), asked["query"].strip()
        base = f"spider:{config.split}:{db_id}:{content_id(db_id, question, query, size=8)}"
        example_id = numbered(ids, base)
        path = inside(root / databases, f"{db_id}/{db_id}.sqlite")
        problem = _problem(db_id, path, tables, db_id in schemas)
        if problem:
            unusable[example_id] = problem
            continue
        examples.append(
            Example(
                id=example_id,
                benchmark="spider",
                split=config.split,
                question=question,
                knowledge=DatabaseKnowledge(path=str(path), db_id=db_id, foreign_keys=schemas[db_id]),
                gold=Gold(language="sql", program=query),
                group=db_id,
                tags={"hardness": hardness(query)},
            )
        )
    return Loaded(examples, unusable)


def entries(config: DataConfig) -> list[dict[str, Any]]:
    """The raw questions of a split in file order, usable or not (prediction files follow this order)."""
    root = folder(config.path)
    files = [first_file(root, _FILES[config.split])]
    if config.split == "train" and (root / "train_others.json").is_file():
        files.append(root / "train_others.json")
    questions = []
    for file in files:
        for number, question in enumerate(records(file, _QUESTION), 1):
            if not all(isinstance(question[key], str) for key in _QUESTION):
                raise UserError(f"{file}, entry {number}: {', '.join(_QUESTION)} must be text")
            questions.append(question)
    return questions


def _problem(db_id: str, path: Path, tables: Path, known: bool) -> str:
    if not known:
        return f"database '{db_id}' is not in {tables.name}"
    if not path.is_file():
        return f"no database file {path.parent.parent.name}/{db_id}/{path.name}"
    return ""


def foreign_keys(file: Path) -> dict[str, ForeignKeys]:
    """Those of ``tables.json`` by ``db_id``. Raises :class:`~pandora_train.errors.UserError` if it is missing
    or broken."""
    return {schema["db_id"]: _foreign_keys(file, number, schema)
            for number, schema in enumerate(records(file, _SCHEMA), 1)}


def _foreign_keys(file: Path, number: int, schema: dict[str, Any]) -> ForeignKeys:
    with entry(file, number):
        names, tables = schema["column_names_original"], schema["table_names_original"]
        places = [[(tables[table], name) for table, name in (names[i] for i in pair)]
                  for pair in schema["foreign_keys"]]
        return tuple((*source, *target) for source, target in places)
