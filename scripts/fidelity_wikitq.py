"""WikiTQ: how many step programs of random-split-1-train compile, run and give gold, by operator."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pandora_train.box import boxes_for
from pandora_train.compile import Unsupported, compile_label
from pandora_train.metrics import is_right
from pandora_train.records import Example
from pandora_train.runs import progress
from pandora_train.sandbox import Sandbox
from pandora_train.sources import DataConfig, load

STAGES = ("programs", "parse", "run", "gold")


def measure(data: Path, quick: int, workers: int) -> dict[str, Any]:
    """Compile and run every step program of the training part (``quick``: of so many questions)."""
    programs = data / "trustuqa" / "wtq_train_programs.json"
    config = DataConfig(benchmark="wikitq", path=str(data / "wikitq"), split="train", programs=str(programs),
                        limit=quick or None)
    questions = list(load(config))
    examples = [e for e in questions if e.gold.language == "steps"]
    start = time.monotonic()
    with Sandbox() as runner, ThreadPoolExecutor(workers) as pool:
        outcomes = pool.map(lambda e: _outcome(e, runner), examples)
        found = list(progress(outcomes, "wikitq train", len(examples)))
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    operators: dict[str, Counter[str]] = defaultdict(Counter)
    for example, (stage, reason) in zip(examples, found, strict=True):
        reached = STAGES[:STAGES.index(stage) + 1]
        counts.update(reached)
        if reason:
            reasons[reason] += 1
        for operator in _operators(example):
            operators[operator].update(reached)
    return {"questions": len(questions), "counts": dict(counts), "reasons": dict(reasons.most_common()),
            "operators": {k: dict(v) for k, v in sorted(operators.items(), key=lambda i: -i[1]["programs"])},
            "seconds": round(time.monotonic() - start, 1)}


def _outcome(example: Example, runner: Sandbox) -> tuple[str, str]:
    """The last stage reached, and why it is not the next."""
    boxes = boxes_for(example.knowledge)
    try:
        program = compile_label(example, boxes)
    except Unsupported as e:
        return "programs", f"unsupported: {e.reason}"
    execution = runner.run(boxes, program.code)
    if execution.rows is None:
        return "parse", f"fails: {execution.error.type if execution.error else execution.outcome}"
    return ("gold", "") if is_right(example, execution.rows) else ("run", "another answer than gold")


def _operators(example: Example) -> set[str]:
    return set(re.findall(r"(\w+)\s*\(", example.gold.program)) - {""}


def show(figures: dict[str, Any]) -> None:
    """Print the table by operator, and the reasons."""
    print(f"\nWikiTQ random-split-1-train: {figures['questions']} questions; {figures['seconds']} s")
    print(f"  {'operator':24} " + " ".join(f"{s:>9}" for s in STAGES))
    rows = {"all": figures["counts"]} | figures["operators"]
    for name, counts in rows.items():
        if name == "all" or counts["programs"] >= 10:
            print(f"  {name:24} " + " ".join(f"{counts.get(s, 0):9}" for s in STAGES))
    for reason, count in list(figures["reasons"].items())[:12]:
        print(f"  {count:6} {reason}")
