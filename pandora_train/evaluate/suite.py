"""Spider's test-suite accuracy (TS): an answer's code must be right on every database of the folder.

The distilled test suite lies beside the original database as further ``.sqlite`` files with one schema.
"""

from __future__ import annotations

from pandora_train.box import boxes_for
from pandora_train.metrics import database, gold_rows, is_right, needs_gold_rows
from pandora_train.metrics.spider import databases
from pandora_train.records import Example, Trajectory
from pandora_train.sandbox.protocol import Runner


def suite_score(example: Example, trajectory: Trajectory, runner: Runner) -> dict[str, float]:
    """``{"ts": 0 or 1}`` where the example's database has variants beside it, else nothing.

    The code that gave the answer runs again over each variant; strict, as the official test suite.
    """
    if not needs_gold_rows(example):
        return {}
    variants = databases(database(example))[1:]
    if not variants:
        return {}
    right = trajectory.rows is not None and is_right(example, trajectory.rows)
    return {"ts": float(right and all(_holds(example, trajectory.steps[-1].code, str(v), runner)
                                      for v in variants))}


def _holds(example: Example, code: str, path: str, runner: Runner) -> bool:
    """Whether ``code`` gives what the gold SQL gives on the database at ``path``."""
    knowledge = example.knowledge.model_copy(update={"path": path})
    moved = example.model_copy(update={"knowledge": knowledge})
    gold = gold_rows(moved)
    rows = runner.run(boxes_for(knowledge), code).rows
    return rows is not None and is_right(moved, rows, gold)
