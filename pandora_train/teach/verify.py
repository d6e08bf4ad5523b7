"""Right for the right reason: a program must give gold, and agree with its label on changed data too."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pandora_train.box.box import BoxSet
from pandora_train.metrics import is_right
from pandora_train.metrics.spider import ex_match, is_ordered, prepare_sql
from pandora_train.metrics.sqlrun import POOL, Cells
from pandora_train.metrics.ties import cuts_equals, is_unstable, tie_match
from pandora_train.records import Example, Execution
from pandora_train.sandbox.protocol import Runner
from pandora_train.teach.perturb import Changed, changed, stored

VerificationStatus = Literal["verified", "unchecked", "order_dependent", "empty", "wrong", "failed",
                        "differs_on_changed_data"]
"""``verified``: gives gold, also on changed data. ``unchecked``: gives gold, but changed data could not tell.
``order_dependent``: a result that some row order gives, but the label hangs on that order. ``empty``: gives
gold, which has no values. The last two are never training data. The others are errors."""
ATTEMPTS = 8
"""Changed databases tried for one label."""
NEEDED = 2
"""Changed results that must be informative: not empty, and other than the original's."""


@dataclass(frozen=True)
class Verification:
    """What became of one program, and why."""

    status: VerificationStatus
    cause: str = ""


def verify(example: Example, boxes: BoxSet, code: str, execution: Execution, gold: Cells | None,
           runner: Runner) -> Verification:
    """Compare what ``code`` gave over ``boxes`` with gold, then run it again on changed data.

    ``gold``: rows of the gold SQL, where that decides. Only SQL labels over a database can be run on changed
    data; others that give gold are ``unchecked``.
    """
    if execution.rows is None:
        return Verification("failed", _failure(execution))
    right = is_right(example, execution.rows, gold)
    if gold is None or example.knowledge.kind != "database":
        if not right:
            return Verification("wrong", "differs from gold")
        return Verification("unchecked", "no SQL label")
    path, sql = example.knowledge.path, example.gold.program
    tied = not right and tie_match(path, sql, gold, execution.rows)
    if not right and not tied:
        return Verification("wrong", "differs from gold")
    if tied or is_unstable(path, sql, gold) or cuts_equals(path, sql):
        return Verification("order_dependent", "" if right else "another order of equals than gold's")
    if not has_values(gold):
        return Verification("empty", "gold has no values")
    return on_changed_data(path, sql, gold, boxes, code, runner)


def on_changed_data(path: str, sql: str, gold: Cells, boxes: BoxSet, code: str,
                    runner: Runner) -> Verification:
    """Compare program and label over changed databases until enough results are informative."""
    tables, literals = mentions(sql, path)
    informative = 0
    with tempfile.TemporaryDirectory(prefix="pandora_changed_") as folder:
        for seed in range(ATTEMPTS):
            data = changed(path, boxes, tables, literals, seed, Path(folder))
            result = POOL.run(data.path, prepare_sql(sql))
            if result.rows is None or not has_values(result.rows) or ex_match(gold, result.rows,
                                                                              is_ordered(sql), typed=True):
                continue
            execution = runner.run(data.boxes, code)
            agrees = _agrees(data, sql, result.rows, execution)
            if agrees is False:
                return Verification("differs_on_changed_data", _failure(execution) or f"changed data {seed}")
            informative += agrees is True
            if informative == NEEDED:
                return Verification("verified")
    return Verification("unchecked", f"{informative} informative results on changed data")


def _agrees(data: Changed, sql: str, gold: Cells, execution: Execution) -> bool | None:
    """Whether the program agrees with the label; ``None`` where the label itself hangs on the row order."""
    rows, path = execution.rows, str(data.path)
    if rows is not None and (ex_match(gold, rows, is_ordered(sql)) or tie_match(path, sql, gold, rows)):
        return True
    return None if is_unstable(path, sql, gold, seeds=4) else False


def has_values(rows: Cells) -> bool:
    """Whether there is a cell that is not NULL."""
    return any(cell is not None for row in rows for cell in row)


def mentions(sql: str, path: str) -> tuple[list[str], list[str]]:
    """Tables of the database that ``sql`` names (lower case), and the constants in it."""
    words = set(re.findall(r'''[^\s.,;()"'`\[\]=<>!]+''', sql.lower()))
    tables = [t for t in stored(path) if t in words or (" " in t and t in sql.lower())]
    literals = re.findall(r'''\'([^\']*)\'|"([^"]*)"|(?<![\w.])(\d+(?:\.\d+)?)(?![\w.])''', sql)
    return tables, [part.strip("%") for parts in literals for part in parts if part.strip("%")]


def _failure(execution: Execution) -> str:
    if execution.rows is not None:
        return ""
    return execution.error.type if execution.error else execution.outcome
