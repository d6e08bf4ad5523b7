"""Retrieval: milliseconds a question, encoding apart, beside a plain argsort and a vector library, in one
run.

    python scripts/bench_memory.py [--quick] [--entries 1000 10000 100000] [--json FILE]

Random unit vectors of 384 dimensions, K = 10; each figure is the median of --repeats passes over --questions
questions, singly and in batches of 32. *argsort* sorts all scores of one question. *usearch* (exact search,
if it is installed: pip install usearch) knows nothing of exclusions: the question itself, its label, other
tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from pandora_train.box.schema import Schema
from pandora_train.encoder import Vectors
from pandora_train.memory import Entry, Turn
from pandora_train.records import Benchmark
from pandora_train.retrieval import Query, RetrievalConfig, Retriever

T = TypeVar("T")
DIMENSIONS, BATCH = 384, 32
CONFIG = RetrievalConfig(k=10)


class Drawn:
    """An encoder that looks vectors up: encoding is not what is measured."""

    name = "bench"

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def __call__(self, texts: Sequence[str]) -> Vectors:
        numbers = [int(text.split()[-1]) for text in texts]
        vectors = np.random.default_rng(self._seed + min(numbers)).standard_normal(
            (len(texts), DIMENSIONS)).astype(np.float32)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def main() -> None:
    """Parse, measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entries", type=int, nargs="*", default=[1000, 10_000, 100_000])
    parser.add_argument("--questions", type=int, default=320)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--quick", action="store_true", help="up to 10,000 entries, one pass of 64 questions")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.entries, arguments.questions, arguments.repeats = [1000, 10_000], 64, 1
    figures = [measure(count, arguments.questions, arguments.repeats) for count in arguments.entries]
    show(figures)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def measure(count: int, questions: int, repeats: int) -> dict[str, float]:
    """Medians in milliseconds a question, over ``count`` entries."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["PANDORA_HOME"] = home
        encoder = Drawn()
        retriever = Retriever([_entry(n) for n in range(count)], encoder)
    queries = [Query(f"q{n}", f"which question {count + n}", "spider", f"program {n}")
               for n in range(questions)]
    vectors = encoder([e.question for e in retriever.entries])
    asked = encoder([q.question for q in queries])
    encode, encode_batch = (_each(queries, size, lambda b: encoder([q.question for q in b]))
                            for size in (1, BATCH))
    kinds: dict[str, Callable[[], float]] = {
        "ours, singly": lambda: _each(queries, 1, lambda b: retriever.nearest(b, CONFIG)) - encode,
        "ours, batches of 32": lambda: _each(
            queries, BATCH, lambda b: retriever.nearest(b, CONFIG)) - encode_batch,
        "argsort, singly": lambda: _each(list(range(questions)), 1, lambda b: np.argsort(
            -(vectors @ asked[b[0]]), kind="stable")[: CONFIG.k]),
    }
    library = _usearch(vectors, asked)
    if library is not None:
        kinds["usearch, singly"] = lambda: _each(list(range(questions)), 1, library)
        kinds["usearch, batches of 32"] = lambda: _each(list(range(questions)), BATCH, library)
    # In turn, so that noise is shared.
    rounds = [{name: kind() for name, kind in kinds.items()} for _ in range(repeats)]
    return {"entries": count} | {name: statistics.median(r[name] for r in rounds) for name in kinds}


def _entry(number: int) -> Entry:
    benchmarks: tuple[Benchmark, ...] = ("spider", "wikitq", "grailqa")
    return Entry(id=f"e{number}", benchmark=benchmarks[number % 3], group=str(number % 140),
                 question=f"question {number}", boxes=Schema(boxes=()), program_id=f"program {number // 2}",
                 turns=(Turn(reasoning="1. a", code="result = 1"),))


def _each(items: list[T], size: int, call: Callable[[list[T]], object]) -> float:
    """Milliseconds an item, in batches of ``size``: the median over the batches."""
    times = []
    for start in range(0, len(items), size):
        batch = items[start: start + size]
        began = time.perf_counter()
        call(batch)
        times.append((time.perf_counter() - began) * 1000 / len(batch))
    return statistics.median(times)


def _usearch(vectors: Vectors, asked: Vectors) -> Callable[[list[int]], object] | None:
    try:
        from usearch.index import MetricKind, search
    except ImportError:
        return None
    return lambda batch: search(vectors, asked[batch], CONFIG.k, MetricKind.IP, exact=True)


def show(figures: list[dict[str, float]]) -> None:
    """Print a table, one column a size."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="ms a question (median)")
    for head in ("", *(f"{f['entries']:,.0f} entries" for f in figures)):
        table.add_column(head, justify="left" if not head else "right")
    for kind in [k for k in figures[0] if k != "entries"]:
        table.add_row(kind, *(f"{f[kind]:.2f}" for f in figures))
    Console().print(table)


if __name__ == "__main__":
    main()
