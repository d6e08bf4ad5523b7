"""The K entries of the memory nearest to a question (paper, section 4.2): exact cosine search.

Matrix products in numpy are enough up to some 10^6 entries (``scripts/bench_memory.py``).
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import NonNegativeInt

from pandora_train.config import Config, home
from pandora_train.encoder import Encoder, Vectors
from pandora_train.errors import UserError
from pandora_train.leakage import program_id
from pandora_train.memory import Entry, normal_question, read_entries
from pandora_train.prompt import Demonstration
from pandora_train.records import Example, content_id


class RetrievalConfig(Config):
    """Which demonstrations a question gets."""

    memory: str | list[str] = ""
    """Memory file (``memory.jsonl``) or the annotate run folder that holds one, or a list of them, read as
    one; empty: no demonstrations."""
    k: NonNegativeInt = 10
    """Demonstrations a question (K = 10 in the paper)."""
    scope: Literal["shared", "own"] = "shared"
    """``shared`` takes the nearest of all tasks; ``own`` only the question's benchmark (ablation "- SD")."""
    order: Literal["nearest", "random"] = "nearest"
    """``random`` draws demonstrations by the question's id (ablation "- SR")."""
    longest: NonNegativeInt = 0
    """Entries whose schemas have more fields than this are passed over (0: none): wide databases fill the
    prompt with fields that the question does not need."""


@dataclass(frozen=True)
class Query:
    """A question that wants demonstrations."""

    id: str
    question: str
    benchmark: str
    program_id: str = ""
    """Content id of its label: an entry with the same one would hold the answer."""

    @classmethod
    def of(cls, example: Example) -> Query:
        """An example's query."""
        return cls(example.id, example.question, example.benchmark, program_id(example))


class Retriever:
    """Entries with their embeddings. Safe to ask from several threads."""

    def __init__(self, entries: Sequence[Entry], encoder: Encoder) -> None:
        """There must be at least one entry."""
        self.entries = list(entries)
        self.encoder = encoder
        self._vectors = embedded([e.question for e in self.entries], encoder)
        self._benchmarks = np.array([e.benchmark for e in self.entries])
        self._fields = np.array([len(e.boxes.places) for e in self.entries])
        self._rows: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for row, entry in enumerate(self.entries):
            for key in _keys(entry.id, entry.question, entry.program_id):
                self._rows[key].append(row)

    def nearest(self, queries: Sequence[Query], config: RetrievalConfig) -> list[list[Entry]]:
        """The K nearest entries of each query, nearest first; equals in the order of the memory.

        Never the question itself, by id or by text, nor an entry with its label. Many queries at once share
        one pass over the memory.
        """
        if config.k == 0:
            return [[] for _ in queries]
        if config.order == "random":
            scores = np.stack([_drawn(q.id, len(self.entries)) for q in queries])
        else:
            scores = self.encoder([q.question for q in queries]) @ self._vectors.T
        return [[self.entries[row] for row in self._best(query, row_scores, config)]
                for query, row_scores in zip(queries, scores, strict=True)]

    def demonstrations(self, query: Query, config: RetrievalConfig) -> list[Demonstration]:
        """The K nearest of one query as demonstrations, nearest first."""
        return [entry.demonstration() for entry in self.nearest([query], config)[0]]

    def _best(self, query: Query, scores: npt.NDArray[np.floating], config: RetrievalConfig) -> list[int]:
        """Rows of the K highest scores among those allowed, without sorting all."""
        for key in _keys(query.id, query.question, query.program_id):
            scores[self._rows.get(key, [])] = -np.inf
        if config.scope == "own":
            scores[self._benchmarks != query.benchmark] = -np.inf
        if config.longest:
            scores[self._fields > config.longest] = -np.inf
        if config.k < len(scores):
            least = np.partition(scores, len(scores) - config.k)[len(scores) - config.k]
            rows = np.flatnonzero(scores >= least)  # more than K where equals stand at the end
        else:
            rows = np.arange(len(scores))
        rows = rows[np.argsort(-scores[rows], kind="stable")]
        return [int(row) for row in rows[: config.k] if scores[row] > -np.inf]


def _keys(id: str, question: str, program: str) -> list[tuple[str, str]]:
    """By what an entry and a question are the same."""
    return [("id", id), ("question", normal_question(question)), *([("label", program)] if program else [])]


def _drawn(id: str, count: int) -> npt.NDArray[np.floating]:
    """Random scores that the question's id decides, the same on every machine."""
    return np.random.default_rng(int(content_id("random", id, size=15), 16)).random(count)


def open_retriever(config: RetrievalConfig, encoder: Encoder,
                   leak: Callable[[Entry], str] = lambda entry: "") -> Retriever | None:
    """The configured memory, embedded; ``None`` without one or at K = 0.

    ``leak`` says what an entry shares with the questions to be asked; such entries are left out.
    """
    if not config.memory or config.k == 0:
        return None
    entries = read_entries(config.memory)
    usable = [e for e in entries if not leak(e)]
    if not usable:
        raise UserError(f"{config.memory} has no entries to show ({len(entries)} read): see attempts.jsonl "
                        "beside it")
    return Retriever(usable, encoder)


# --- embeddings, each computed once ---------------------------------------------------------------------


def embedded(texts: Sequence[str], encoder: Encoder) -> Vectors:
    """[len(texts), d] unit vectors; those on disk under ``<home>/embeddings`` aren't computed again.

    Kept by text, so that another choice of entries encodes only what is new. A cache that can't be read is
    made anew; one that can't be written is a warning.
    """
    file = home() / "embeddings" / f"{content_id(encoder.name)}.npz"
    keys = np.array([content_id(text, size=24).encode() for text in texts], dtype="S24")
    stored_keys, stored = _stored(file)
    new = np.flatnonzero(~np.isin(keys, stored_keys))
    if len(new):
        new = new[np.unique(keys[new], return_index=True)[1]]  # equal texts once
        vectors = encoder([texts[i] for i in new])
        if len(stored_keys) and stored.shape[1] != vectors.shape[1]:  # another model under the same name
            file.unlink()
            return embedded(texts, encoder)
        stored = np.concatenate([stored, vectors]) if len(stored_keys) else vectors
        stored_keys = np.concatenate([stored_keys, keys[new]])
        _store(file, stored_keys, stored)
    order = np.argsort(stored_keys)
    return np.ascontiguousarray(stored[order[np.searchsorted(stored_keys, keys, sorter=order)]])


def _stored(file: Path) -> tuple[npt.NDArray[np.bytes_], Vectors]:
    try:
        with np.load(file) as data:
            keys, vectors = data["keys"], data["vectors"]
        if len(keys) == len(vectors) and vectors.dtype == np.float32:
            return keys, vectors
    except Exception:  # none yet, or damaged in one of many ways: it only saves time
        pass
    return np.zeros(0, dtype="S24"), np.zeros((0, 0), dtype=np.float32)


def _store(file: Path, keys: npt.NDArray[np.bytes_], vectors: Vectors) -> None:
    """Replace the cache whole: of two processes the later one wins, and nothing is ever half-written."""
    temporary = file.with_name(f".{file.stem}.{os.getpid()}.tmp.npz")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(temporary, keys=keys, vectors=vectors)
        temporary.replace(file)
    except OSError as e:
        with contextlib.suppress(OSError):
            temporary.unlink()
        warnings.warn(f"embeddings are not kept ({e.strerror}): {file}", stacklevel=2)
