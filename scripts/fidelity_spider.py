"""Spider: gold SQL compiled to pandas, run over the BOXes, compared with gold and on changed data."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pandora_train.box import boxes_for
from pandora_train.compile import Unsupported, compile_label
from pandora_train.errors import UserError
from pandora_train.metrics import gold_rows
from pandora_train.records import Example
from pandora_train.runs import progress
from pandora_train.sandbox import Sandbox
from pandora_train.sources import DataConfig, load
from pandora_train.teach.verify import verify

GIVES_GOLD = ("verified", "unchecked", "differs_on_changed_data", "empty", "order_dependent")
"""Verdicts of programs that give the gold result (order-dependent ones tie-aware)."""


@dataclass(frozen=True)
class Outcome:
    """What became of one label."""

    example: Example
    status: str
    cause: str = ""
    compile_ms: float | None = None


def measure(data: Path, split: Literal["train", "dev"], quick: int, workers: int) -> dict[str, Any]:
    """Compile and verify every label of ``split`` (``quick``: so many of them); returns the figures."""
    config = DataConfig(benchmark="spider", path=str(data / "spider"), split=split, limit=quick or None)
    examples = sorted(load(config), key=lambda e: e.group)  # one database after the other: caches hold few
    start = time.monotonic()
    with Sandbox() as runner, ThreadPoolExecutor(workers) as pool:
        outcomes = pool.map(lambda e: _outcome(e, runner), examples)
        found = list(progress(outcomes, f"spider {split}", len(examples)))
    seconds = round(time.monotonic() - start, 1)
    return _figures(found) | {"split": split, "seconds": seconds, "workers": workers}


def _outcome(example: Example, runner: Sandbox) -> Outcome:
    try:
        boxes = boxes_for(example.knowledge)
    except UserError as e:
        return Outcome(example, "no_database", str(e))
    start = time.thread_time()  # of this thread alone, whatever else runs
    try:
        program = compile_label(example, boxes)
    except Unsupported as e:
        return Outcome(example, "unsupported" if _executes(example) else "gold_fails", str(e))
    compile_ms = (time.thread_time() - start) * 1000
    try:
        gold = gold_rows(example)
        verdict = verify(example, boxes, program.code, runner.run(boxes, program.code), gold, runner)
    except UserError as e:
        return Outcome(example, "gold_fails", str(e), compile_ms)
    return Outcome(example, verdict.status, verdict.cause, compile_ms)


def _executes(example: Example) -> bool:
    try:
        return gold_rows(example) is not None
    except UserError:
        return False


def _figures(found: Sequence[Outcome]) -> dict[str, Any]:
    counts = Counter(o.status for o in found)
    executes = len(found) - counts["no_database"] - counts["gold_fails"]
    gold = sum(counts[s] for s in GIVES_GOLD)
    checked = counts["verified"] + counts["differs_on_changed_data"]
    times = sorted(o.compile_ms for o in found if o.compile_ms is not None)
    rest = [o for o in found if o.status in ("unsupported", "failed", "wrong", "differs_on_changed_data")]
    return {
        "executes": executes,
        "gives_gold": gold,
        "gives_gold_share": gold / max(1, executes),
        "checked_on_changed_data": checked,
        "agree_share": counts["verified"] / max(1, checked),
        "counts": dict(counts.most_common()),
        "compile_ms_median": statistics.median(times) if times else None,
        "compile_ms_p95": times[int(0.95 * (len(times) - 1))] if times else None,
        "rest": [{"id": o.example.id, "status": o.status, "cause": o.cause, "sql": o.example.gold.program}
                 for o in rest],
        "order_dependent": [o.example.id for o in found if o.status == "order_dependent"],
    }


def show(figures: dict[str, Any]) -> None:
    """Print the table and the labels that are left, by reason."""
    counts = figures["counts"]
    print(f"\nSpider {figures['split']}: {figures['executes']} labels execute "
          f"({counts.get('no_database', 0)} without a database, {counts.get('gold_fails', 0)} fail)")
    print(f"  give gold           {figures['gives_gold']:6}  {figures['gives_gold_share']:.2%}  (goal 97 %)")
    print(f"  agree when changed  {counts.get('verified', 0):6}  {figures['agree_share']:.2%} "
          f"of {figures['checked_on_changed_data']} that changed data can check (goal 99 %)")
    for status in ("unchecked", "order_dependent", "empty", "unsupported", "failed", "wrong"):
        print(f"  {status:18} {counts.get(status, 0):7}")
    print(f"  compile median {figures['compile_ms_median']:.2f} ms, p95 {figures['compile_ms_p95']:.2f} ms; "
          f"all in {figures['seconds']} s with {figures['workers']} workers")
    for item in figures["rest"]:
        print(f"  {item['status']}: {item['cause']} | {item['id']} | {item['sql']}")
