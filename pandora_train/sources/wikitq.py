"""WikiTableQuestions: ``data/*.tsv`` with the questions, ``csv/<n>-csv/<m>.{csv,tsv}`` with the tables.

Source: release 1.0.2 (https://github.com/ppasupat/WikiTableQuestions). The official dev set is
``random-split-1-dev``; ``training.tsv`` (all training questions) serves as ``train`` only where no
``random-split-1-train.tsv`` is, since it contains the dev questions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pandora_train.errors import UserError
from pandora_train.records import Example, Gold, TableKnowledge
from pandora_train.sources.reading import Loaded, checked, first_file, folder, inside, lines, read_json
from pandora_train.sources.select import DataConfig
from pandora_train.sources.tables import unescape

_FILES = {
    "train": ["random-split-{fold}-train.tsv", "training.tsv"],
    "dev": ["random-split-{fold}-dev.tsv"],
    "test": ["pristine-unseen-tables.tsv"],
}


def read(config: DataConfig) -> Loaded:
    """Questions whose table is there; ``gold.answers`` are the items of ``targetValue``,
    ``gold.canon`` those of ``targetCanon`` where the tagged file exists.
    """
    root = folder(config.path)
    file = first_file(root, [f"data/{n.format(fold=config.fold)}" for n in _FILES[config.split]])
    canon = _canonical(file)
    programs = _programs(root, config)
    examples: list[Example] = []
    unusable: dict[str, str] = {}
    for row in _rows(file):
        identifier, context = row["id"], row["context"]
        table = _table(root, context)
        if table is None:
            unusable[f"wikitq:{identifier}"] = "no table file for it in csv/"
            continue
        question = unescape(row["utterance"])
        language, program = programs.get(identifier) or programs.get(question) or ("", "")
        examples.append(
            Example(
                id=f"wikitq:{identifier}",
                benchmark="wikitq",
                split=config.split,
                question=question,
                knowledge=TableKnowledge(path=str(table), dialect="wikitq"),
                gold=Gold(
                    language=language,
                    program=program,
                    answers=tuple(items(row["targetValue"])),
                    canon=canon.get(identifier, ()),
                ),
                group=context.rsplit(".", 1)[0],
            )
        )
    return Loaded(examples, unusable)


def items(value: str) -> list[str]:
    """The items of a ``|``-separated, escaped value."""
    return [unescape(part) for part in value.split("|")]


def _rows(file: Path) -> list[dict[str, str]]:
    """Rows by the names of the header line."""
    numbered = list(lines(file))
    header = numbered[0][1].split("\t") if numbered else []
    missing = [name for name in ("id", "utterance", "context", "targetValue") if name not in header]
    if missing:
        raise UserError(f"{file}, line 1: the header lacks {', '.join(missing)}")
    rows = []
    for number, line in numbered[1:]:
        cells = line.split("\t")
        if len(cells) != len(header):
            raise UserError(f"{file}, line {number}: {len(cells)} fields, the header has {len(header)}")
        rows.append(dict(zip(header, cells, strict=True)))
    return rows


def _canonical(file: Path) -> dict[str, tuple[str, ...]]:
    """Items of ``targetCanon`` by id, from ``tagged/data/<name>.tagged`` where it is there."""
    tagged = file.parent.parent / "tagged" / "data" / f"{file.stem}.tagged"
    if not tagged.is_file():
        return {}
    return {row["id"]: tuple(items(row["targetCanon"])) for row in _rows(tagged) if "targetCanon" in row}


Label = tuple[Literal["steps", "squall"], str]


def _programs(root: Path, config: DataConfig) -> dict[str, Label]:
    """Labels: step programs by question (which names no table: verification decides), SQUALL's by id."""
    path = Path(config.programs) if config.programs else root / "wtq_train_programs.json"
    if not config.programs and (config.split != "train" or not path.is_file()):
        return {}
    data = read_json(path)
    if isinstance(data, dict) and all(isinstance(v, str) for v in data.values()):
        return {question: ("steps", program) for question, program in data.items()}
    if isinstance(data, list):
        entries = checked(path, data, ["nt", "sql"])
        return {str(e["nt"]): ("squall", json.dumps(e["sql"])) for e in entries}
    raise UserError(f"{path} must hold a JSON object of step programs by question, or SQUALL's JSON list")


def _table(root: Path, context: str) -> Path | None:
    """The table's file: as named (.csv), else its .tsv sibling."""
    path = inside(root, context)
    for candidate in (path, path.with_suffix(".tsv")):
        if candidate.is_file():
            return candidate
    return None
