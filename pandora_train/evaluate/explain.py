"""``errors.jsonl``: the error kinds of a run with its BOXes at hand, which reach further than samples alone.

The gold program compiled to pandas over the same BOXes says which fields stand for a graph's relations; the
values say where an answer lies that has no gold program.
"""

from __future__ import annotations

from collections.abc import Sequence

from pandora_train.answer import Answer
from pandora_train.box import BoxSet
from pandora_train.compile import Unsupported, compile_label
from pandora_train.evaluate.error_kinds import Diagnosis, diagnose
from pandora_train.records import Example, Trajectory
from pandora_train.runs import Run, write_text


def explained(answer: Answer) -> Diagnosis | None:
    """The error kind of one answer; its BOXes are looked at only where the sample alone does not decide."""
    trajectory, prompt, task = answer.trajectory, answer.prompt, answer.task
    if task is None or prompt is None:
        return None
    schema = "\n".join(prompt.texts[p.key] for p in prompt.parts if p.kind == "boxes")
    first = diagnose(trajectory, schema)
    if first is None or not (first.kind == "unknown" or first.rule == "kind of answer"):
        return first
    try:
        return diagnose(trajectory, schema, task.boxes, reference(task.example, task.boxes))
    except Exception:  # an explanation never costs the answer it explains
        return first


def write_errors(run: Run, samples: Sequence[Trajectory]) -> None:
    """Leave one diagnosis a sample in ``errors.jsonl``: an interrupted run may have written some twice."""
    written = {d.id: d for d in run.read("errors.jsonl", Diagnosis)}
    lines = [written[t.id].model_dump_json() + "\n" for t in samples if t.id in written]
    write_text(run.path / "errors.jsonl", "".join(lines))


def reference(example: Example, boxes: BoxSet) -> str:
    """The gold program as pandas code over ``boxes``, or an empty string where there is none."""
    try:
        return compile_label(example, boxes).code
    except Unsupported:
        return ""
