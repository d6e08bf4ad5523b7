"""SFT rows: prompts and completions in Parquet, written and read by ``datasets``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pandora_train.errors import UserError, first_line
from pandora_train.llm.protocol import Message
from pandora_train.records import Record

TRAIN = "train.parquet"
HELD_OUT = "heldout.parquet"
"""Rows for the held-out loss."""


class SftRow(Record):
    """One prompt with its completion; the loss is on the completion."""

    id: str
    benchmark: str
    group: str
    """Database, table or topic: rows of one group tend to share their prompt's beginning."""
    prompt: tuple[Message, ...]
    """What the agent sends: it ends with a user's turn."""
    completion: tuple[Message, ...]
    """One assistant's turn."""
    tokens: int = 0
    """Of prompt and completion, by the tokenizer that measured them."""
    program_id: str = ""
    """Content id of the normalised label."""
    checked: str = ""
    """How its program was checked."""


def write_rows(file: Path, rows: Sequence[SftRow]) -> None:
    """Write ``rows`` as Parquet that ``datasets`` and trl open; no rows, no file."""
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    temporary = file.with_name(f".{file.name}.tmp")
    if not rows:
        file.unlink(missing_ok=True)
        return
    Dataset.from_list([row.model_dump() for row in rows]).to_parquet(str(temporary))
    temporary.replace(file)


def read_rows(path: str | Path) -> list[SftRow]:
    """Rows of a Parquet file, or of all in a folder but its held-out ones; extra columns are left alone.

    Raises :class:`UserError` for a missing path, missing columns, wrong roles or repeated ids.
    """
    rows = [row for file in _files(Path(path)) for row in _read(file)]
    if not rows:
        raise UserError(f"{path} holds no rows: run `pandora distill` first")
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            raise UserError(f"{path}: id '{row.id}' occurs twice; ids must be unique")
        seen.add(row.id)
    return rows


def data_hash(rows: Sequence[SftRow]) -> str:
    """SHA-256 of the rows' content, in order."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(row.model_dump_json().encode("utf-8") + b"\n")
    return digest.hexdigest()


def training_rows(data: str, held_out_data: str, held_out: float, seed: int
                  ) -> tuple[list[SftRow], list[SftRow]]:
    """(training, held-out) rows as :class:`~pandora_train.train.config.TrainConfig` names them."""
    if not data:
        raise UserError("no training rows: set data= to a folder of `pandora distill`")
    if not held_out_data and (Path(data) / HELD_OUT).is_file():
        held_out_data = str(Path(data) / HELD_OUT)
    rows = read_rows(data)
    if not held_out_data:
        return split(rows, held_out, seed)
    held, seen = read_rows(held_out_data), {row.id for row in rows}
    both = [row.id for row in held if row.id in seen]
    if both:
        raise UserError(f"row {both[0]} is in {data} and in {held_out_data}: hold out others")
    return rows, held


def split(rows: Sequence[SftRow], part: float, seed: int) -> tuple[list[SftRow], list[SftRow]]:
    """(training, held-out) rows, by whole groups chosen by a hash, so that no database is in both."""
    if part <= 0:
        return list(rows), []
    groups = sorted({(r.benchmark, r.group) for r in rows})
    if len(groups) < 2:
        raise UserError("held_out needs at least two groups (databases, tables or topics) in the data")
    groups.sort(key=lambda g: hashlib.sha256(json.dumps([seed, *g]).encode()).hexdigest())
    held = set(groups[: min(max(1, round(part * len(groups))), len(groups) - 1)])
    return ([r for r in rows if (r.benchmark, r.group) not in held],
            [r for r in rows if (r.benchmark, r.group) in held])


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = sorted(f for f in path.rglob("*.parquet") if f.name != HELD_OUT) if path.is_dir() else []
    if not files:
        raise UserError(f"no Parquet rows at {path}: run `pandora distill`, or set data=")
    return files


def _read(file: Path) -> list[SftRow]:
    rows = []
    for number, record in enumerate(_records(file), 1):
        try:
            row = SftRow.model_validate({k: v for k, v in record.items() if k in SftRow.model_fields})
        except ValidationError as e:
            problem = e.errors()[0]
            where = ".".join(str(p) for p in problem["loc"])
            old = " (rows of an older layout have `messages`: distill again)" if "messages" in record else ""
            raise UserError(f"{file}, row {number}: {problem['msg']} at {where}{old}") from None
        if [m["role"] for m in row.completion] != ["assistant"] or not row.prompt \
                or row.prompt[-1]["role"] != "user":
            raise UserError(f"{file}, row {number}: a prompt ends with a user's turn, a completion is "
                            "one assistant's")
        rows.append(row)
    return rows


def _records(file: Path) -> list[dict[str, Any]]:
    """All records of a Parquet file, read into memory: no copy is left in a cache of other people's."""
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    try:
        records: list[dict[str, Any]] = Dataset.from_parquet(str(file), keep_in_memory=True).to_list()
    except Exception as e:  # pyarrow's and datasets' own, of many kinds
        raise UserError(f"{file} is not readable Parquet ({first_line(e)})") from None
    return records
