"""The K entries of the memory nearest to a question (paper, section 4.2): exact cosine search.

Matrix products in numpy are enough up to some 10^6 entries (``scripts/bench_memory.py``).
"""

from __future__ import annotations

import contextlib
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import uuid4

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
    most_fields: NonNegativeInt = 0
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
        # One vector a text: equal rows of one product may differ in the last bit, and ties would be lost.
        texts = {text: n for n, text in enumerate(dict.fromkeys(e.question for e in self.entries))}
        self._vectors = embedded(list(texts), encoder)
        self._text = np.array([texts[e.question] for e in self.entries])
        benchmarks = np.array([e.benchmark for e in self.entries])
        self._foreign: dict[str, npt.NDArray[np.bool_]] = {
            b: benchmarks != b for b in {e.benchmark for e in self.entries}}
        self._fields = np.array([len(e.boxes.places) for e in self.entries])
        self._rows: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for row, entry in enumerate(self.entries):
            for key in _keys(entry.id, entry.question, entry.program_id):
                self._rows[key].append(row)

    def nearest(self, queries: Sequence[Query], config: RetrievalConfig) -> list[list[Entry]]:
        """The K nearest entries of each query, nearest first; equal questions in the order of the memory.

        Never the question itself, by id or by text, nor an entry with its label. Many queries at once share
        one pass over the memory.
        """
        if config.k == 0 or not queries:
            return [[] for _ in queries]
        if config.order == "random":
            scores = np.stack([_drawn(q.id, len(self.entries)) for q in queries])
        else:
            scores = (self.encoder([q.question for q in queries]) @ self._vectors.T)[:, self._text]
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
            scores[self._foreign.get(query.benchmark, slice(None))] = -np.inf
        if config.most_fields:
            scores[self._fields > config.most_fields] = -np.inf
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
    entries = list({e.id: e for e in read_entries(config.memory)}.values())  # no question shown twice
    usable = [e for e in entries if not leak(e)]
    if not usable:
        raise UserError(f"{config.memory} has no entries to show ({len(entries)} read): see attempts.jsonl "
                        "beside it")
    return Retriever(usable, encoder)


# --- embeddings, each computed once ---------------------------------------------------------------------


def embedded(texts: Sequence[str], encoder: Encoder) -> Vectors:
    """[len(texts), d] unit vectors; those on disk under ``<home>/embeddings`` aren't computed again.

    Kept by text, so that another choice of entries encodes only what is new. A cache that can't be read, or
    of another width, is made anew; one that can't be written is a warning.
    """
    file = home() / "embeddings" / f"{content_id(encoder.name, _stamps(encoder.name))}.npz"
    keys = np.array([content_id(text, size=24).encode() for text in texts], dtype="S24")
    stored_keys, stored = _stored(file)
    new = _missing(keys, stored_keys)
    if len(new):
        vectors = encoder([texts[i] for i in new])
        if len(stored_keys) and stored.shape[1] != vectors.shape[1]:  # another model under the same name
            stored_keys, new = stored_keys[:0], _missing(keys, stored_keys[:0])
            vectors = encoder([texts[i] for i in new])
        stored = np.concatenate([stored, vectors]) if len(stored_keys) else vectors
        stored_keys = np.concatenate([stored_keys, keys[new]])
        _store(file, stored_keys, stored)
    order = np.argsort(stored_keys)
    return np.ascontiguousarray(stored[order[np.searchsorted(stored_keys, keys, sorter=order)]])


def _missing(keys: npt.NDArray[np.bytes_], stored_keys: npt.NDArray[np.bytes_]) -> npt.NDArray[np.intp]:
    """Where keys stand that aren't stored, equal ones once."""
    first = np.unique(keys, return_index=True)[1]
    return first[~np.isin(keys[first], stored_keys)]


def _stamps(name: str) -> list[tuple[str, int, int]]:
    """What tells an encoder's folder from another that takes its place; empty for names of a hub."""
    files = sorted(p for p in Path(name).rglob("*") if p.is_file()) if Path(name).is_dir() else []
    return [(p.relative_to(name).as_posix(), p.stat().st_size, p.stat().st_mtime_ns) for p in files]


def _stored(file: Path) -> tuple[npt.NDArray[np.bytes_], Vectors]:
    try:
        with np.load(file) as data:
            keys, vectors = data["keys"], data["vectors"]
        if keys.dtype == "S24" and vectors.dtype == np.float32 and vectors.ndim == 2 and (
                len(keys) == len(vectors) and np.isfinite(vectors).all()):
            return keys, vectors
    except Exception:  # none yet, or damaged in one of many ways: it only saves time
        pass
    return np.zeros(0, dtype="S24"), np.zeros((0, 0), dtype=np.float32)


def _store(file: Path, keys: npt.NDArray[np.bytes_], vectors: Vectors) -> None:
    """Replace the cache whole, never half-written; what another process put there meanwhile stays in it."""
    other_keys, other = _stored(file)
    if other.shape[1] == vectors.shape[1]:
        more = _missing(other_keys, keys)
        keys, vectors = np.concatenate([keys, other_keys[more]]), np.concatenate([vectors, other[more]])
    temporary = file.with_name(f".{file.stem}.{uuid4().hex}.tmp.npz")  # process ids repeat across containers
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(temporary, keys=keys, vectors=vectors)
        temporary.replace(file)
    except OSError as e:
        with contextlib.suppress(OSError):
            temporary.unlink()
        warnings.warn(f"embeddings are not kept ({e.strerror}): {file}", stacklevel=2)
