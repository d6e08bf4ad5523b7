"""``errors.jsonl``: the error kinds of a run with its BOXes at hand, which reach further than samples alone.

The gold program compiled to pandas over the same BOXes says which fields stand for a graph's relations; the
values say where an answer lies that has no gold program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pandora_train.box import boxes_for
from pandora_train.box.box import BoxSet
from pandora_train.compile import Unsupported, compile_label
from pandora_train.errors import UserError
from pandora_train.evaluate.errors import Diagnosis, diagnose
from pandora_train.records import Example, Trajectory
from pandora_train.runs import write_text


def write_errors(folder: Path, samples: Sequence[Trajectory], schema: Callable[[Trajectory], str],
                 example: Callable[[Trajectory], Example]) -> list[Diagnosis]:
    """Diagnose all samples that are not fully right and write them to ``folder/errors.jsonl``.

    ``schema`` gives the BOX schema text of a sample's prompt, ``example`` its question, grounded.
    """
    found = [d for t in samples if (d := explain(t, schema(t), partial(example, t))) is not None]
    write_text(folder / "errors.jsonl", "".join(d.model_dump_json() + "\n" for d in found))
    return found


def explain(trajectory: Trajectory, schema: str, example: Callable[[], Example]) -> Diagnosis | None:
    """The error kind of one sample; the BOXes are built only where the sample alone does not decide."""
    found = diagnose(trajectory, schema)
    if found is None or not (found.kind == "unknown" or found.rule == "kind of answer"):
        return found
    try:
        asked = example()
        boxes = boxes_for(asked.knowledge)
    except UserError:
        return found  # the data has moved since the run
    return diagnose(trajectory, schema, boxes, reference(asked, boxes))


def reference(example: Example, boxes: BoxSet) -> str:
    """The gold program as pandas code over ``boxes``, or an empty string where there is none."""
    try:
        return compile_label(example, boxes).code
    except Unsupported:
        return ""
