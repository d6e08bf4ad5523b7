"""Right for the right reason: a program must give gold, and agree with its label on changed data too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pandora_train.box.box import BoxSet
from pandora_train.metrics import gold_rows, is_right
from pandora_train.records import Example, Execution
from pandora_train.sandbox.protocol import Runner
from pandora_train.teach.compile.program import Compiled

VerdictStatus = Literal["verified", "unchecked", "order_dependent", "wrong", "failed", "empty",
                        "differs_on_changed_data"]
"""``verified``: gives gold, also on changed data. ``unchecked``: gives gold, but changed data could not tell.
``order_dependent``: gold hangs on the stored row order. ``empty``: gold has no rows or only NULLs. The last
two are right as far as can be said, and never training data."""


@dataclass(frozen=True)
class Verdict:
    """What became of one program, and why."""

    status: VerdictStatus
    cause: str = ""


def verify(example: Example, boxes: BoxSet, compiled: Compiled, runner: Runner) -> Verdict:
    """Run ``compiled`` over ``boxes`` and compare with gold, then again on changed data.

    Raises :class:`~pandora_train.errors.UserError` when the example's gold SQL gives no result.
    """
    gold = gold_rows(example)
    execution = runner.run(boxes, compiled.code)
    if execution.rows is None:
        return Verdict("failed", _failure(execution))
    if not is_right(example, execution.rows, gold):
        return Verdict("wrong", "differs from gold")
    if gold is not None and all(cell is None for row in gold for cell in row):
        return Verdict("empty", "gold has no values")
    return Verdict("unchecked", "no changed data")


def _failure(execution: Execution) -> str:
    return execution.error.type if execution.error else execution.outcome
