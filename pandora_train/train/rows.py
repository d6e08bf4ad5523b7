"""SFT rows: Parquet in, typed rows out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from pandora_train.errors import UserError
from pandora_train.records import Record

HELD_OUT = "heldout.parquet"
"""Rows for the held-out loss, in a folder of ``pandora distill``."""


class Turn(Record):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class SftRow(Record):
    """One conversation; the loss is on every assistant turn."""

    id: str
    benchmark: str
    group: str
    """Database, table or topic: rows of one group tend to share their prompt's beginning."""
    messages: tuple[Turn, ...]


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
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    try:
        columns = pq.read_schema(file).names
        missing = [c for c in SftRow.model_fields if c not in columns]
        if missing:
            raise UserError(f"{file} lacks the columns {', '.join(missing)}")
        records = pq.read_table(file, columns=list(SftRow.model_fields)).to_pylist()
    except (pa.ArrowInvalid, OSError) as e:
        raise UserError(f"{file} is not readable Parquet ({e})") from None
    rows = []
    for number, record in enumerate(records, 1):
        try:
            row = SftRow.model_validate(record)
        except ValidationError as e:
            where = ".".join(str(p) for p in e.errors()[0]["loc"])
            raise UserError(f"{file}, row {number}: {e.errors()[0]['msg']} at {where}") from None
        rows.append(row)
    return rows
