"""What to load, and how a part of it is chosen: by hash of the ids, so that it is the same everywhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from pandora_train.config import Config
from pandora_train.errors import UserError
from pandora_train.records import Benchmark, Example
from pandora_train.sources.reading import lines


class DataConfig(Config):
    """Questions of one benchmark split."""

    benchmark: Benchmark
    """Which layout ``path`` has."""
    path: str
    """The folder in the benchmark's official layout; for ``files`` the questions file (.jsonl or .csv)."""
    split: Literal["train", "dev", "test"] = "dev"
    """The benchmark's split."""
    limit: int | None = None
    """At most so many questions: those whose ids hash lowest, so a smaller sample lies in a larger one."""
    part: str = ""
    """``3/10``: the third of ten parts of the ids by hash; ``1-7/10``: the first seven of them."""
    ids_file: str = ""
    """Only the questions whose ids are in this file, one a line."""
    fold: Literal[1, 2, 3, 4, 5] = 1
    """WikiTQ only: which of the official random splits gives train and dev; papers report the first."""
    programs: str = ""
    """WikiTQ and WebQSP: step programs by question (TrustUQA's layout), or for WikiTQ SQUALL's labels;
    for training questions by default ``wtq_train_programs.json`` in ``path``, where that is."""
    knowledge: str = ""
    """``files`` only: what questions without their own ``knowledge`` are asked over."""
    store: str = ""
    """Graphs: triple file, folder in the fragment's layout, or SPARQL endpoint; by default a fragment in or
    beside ``path`` (``graph``, ``../graph``, ``../freebase_fragment``)."""
    hops: int | None = None
    """Graphs: how far from the topics; default 3 for GrailQA, 2 for others, PathQuestion's own depth."""
    layers: Literal["all", "explored"] = "all"
    """Fragment: ``explored`` leaves out triples that only gold forms entail."""
    relations_file: str = ""
    """Graphs: only the relations in this file, one a line (R* of the paper)."""

    @model_validator(mode="after")
    def _check(self) -> DataConfig:
        span(self.part)
        return self


def span(part: str) -> tuple[int, int, int]:
    """``"3/10"`` as (3, 3, 10), ``"1-7/10"`` as (1, 7, 10), ``""`` as (1, 1, 1)."""
    if not part:
        return 1, 1, 1
    match = re.fullmatch(r"(\d+)(?:-(\d+))?/(\d+)", part)
    if match:
        first, count = int(match[1]), int(match[3])
        last = int(match[2] or first)
        if 1 <= first <= last <= count:
            return first, last, count
    raise ValueError(f"part '{part}' is not like 3/10 or 1-7/10, counted from 1")


def digest(identifier: str) -> int:
    """SHA-256 of an id as an integer."""
    return int.from_bytes(hashlib.sha256(identifier.encode("utf-8")).digest(), "big")


def select(examples: list[Example], config: DataConfig) -> list[Example]:
    """Apply ``ids_file``, then ``part``, then ``limit``; the order stays."""
    if config.ids_file:
        wanted = {line.strip() for _, line in lines(Path(config.ids_file))}
        unknown = wanted - {e.id for e in examples}
        if unknown:
            some = ", ".join(sorted(unknown)[:3])
            raise UserError(f"{config.ids_file}: {len(unknown)} ids are not in this split, such as {some}")
        examples = [e for e in examples if e.id in wanted]
    examples = [e for e in examples if in_part(e.id, config)]
    if config.limit is not None and len(examples) > config.limit:
        chosen = {e.id for e in sorted(examples, key=lambda e: digest(e.id))[: config.limit]}
        examples = [e for e in examples if e.id in chosen]
    return examples


def in_part(id: str, config: DataConfig) -> bool:
    """Whether ``config.part`` takes the question."""
    first, last, count = span(config.part)
    return first <= digest(id) % count + 1 <= last


def relations(config: DataConfig) -> tuple[str, ...] | None:
    """The relations of ``relations_file``, ``None`` without one."""
    if not config.relations_file:
        return None
    return tuple(line.strip() for _, line in lines(Path(config.relations_file)))
