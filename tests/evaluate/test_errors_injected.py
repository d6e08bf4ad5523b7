"""Errors of a known kind, injected into compiled gold programs and run: what do the rules say?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pandora_train.answer import Answer
from pandora_train.box import boxes_for
from pandora_train.box.box import BoxSet
from pandora_train.box.schema import schema_of, schema_text
from pandora_train.evaluate.error_kinds import Diagnosis, diagnose
from pandora_train.evaluate.explain import explained, reference, write_errors
from pandora_train.metrics import gold_rows, primary, score
from pandora_train.metrics.spider import as_text
from pandora_train.prompt import PromptConfig, Question, lay_out
from pandora_train.records import Example, Step, Trajectory
from pandora_train.runs import Run, read_jsonl
from pandora_train.sandbox import Sandbox, SandboxConfig
from pandora_train.sources import DataConfig, load
from pandora_train.systems.protocol import Task

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample"


def injections(code: str, boxes: BoxSet) -> Iterator[tuple[str, str]]:
    """(kind, changed code) pairs; each change is one that a reader would call by that kind."""
    used = [m for m in re.findall(r"'(\w+)'", code) for b in boxes if m in b.frame.columns]
    for name in dict.fromkeys(used):
        yield "field", code.replace(f"'{name}'", f"'{name}_name'")
    for box in boxes:
        if re.search(rf"\b{box.name}\b", code):
            yield "box", re.sub(rf"\b{box.name}\b", f"{box.name}_table", code)
    yield "execution", code + ")"
    yield "execution", code + "\nresult = int('three')"
    yield "format", code + "\nresult = [[', '.join(str(c) for row in result for c in row) + ' in all']]"
    yield "format", code + "\nresult = [[*row, 'extra'] for row in result]"
    for before, after in ((".mean()", ".sum()"), (".max()", ".min()"), (".sum()", ".mean()")):
        if before in code:
            yield "intent", code.replace(before, after)
    for before, after in ((" == ", " != "), (" > ", " < "), (" < ", " > "), (" & ", " | ")):
        if before in code:
            yield "logic", code.replace(before, after, 1)


def run(example: Example, boxes: BoxSet, code: str, sandbox: Sandbox) -> Trajectory:
    execution = sandbox.run(boxes, code)
    gold = gold_rows(example)
    scores = score(example, execution.rows, gold)
    return Trajectory(
        id=example.id, benchmark=example.benchmark, split=example.split, group=example.group,
        question=example.question, gold=example.gold, steps=(Step(reply=code, code=code, execution=execution),),
        rows=execution.rows, status="ok" if execution.rows is not None else "error",
        scores={primary(example): 0.0} | scores, gold_rows=None if gold is None else as_text(gold))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(SandboxConfig()) as runner:
        yield runner


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", ["spider", "grailqa"])
def test_injected_kinds_are_found(benchmark: str, sandbox: Sandbox) -> None:
    """Of the injections that change the answer, nearly all get the kind that was injected."""
    seen: Counter[tuple[str, str]] = Counter()
    for example in load(DataConfig(benchmark=benchmark, path=str(SAMPLE / benchmark), split="dev", limit=8)):
        boxes = boxes_for(example.knowledge)
        code = reference(example, boxes)
        for kind, changed in injections(code, boxes) if code else ():
            found = diagnose(run(example, boxes, changed, sandbox), schema_text(schema_of(boxes)), boxes, code)
            if found is not None:
                seen[kind, found.kind] += 1
    right = sum(n for (kind, said), n in seen.items() if kind == said)
    assert seen.total() >= 30
    assert right / seen.total() > 0.85, seen


def answer(example: Example, code: str, sandbox: Sandbox) -> Answer:
    boxes = boxes_for(example.knowledge)
    schema = schema_of(boxes)
    prompt = lay_out(PromptConfig(), schema, Question(example.question), (), len)
    return Answer(run(example, boxes, code, sandbox), Task(example, boxes, schema), prompt)


def test_an_answer_is_explained_with_its_boxes_at_hand(sandbox: Sandbox) -> None:
    examples = list(load(DataConfig(benchmark="wikitq", path=str(SAMPLE / "wikitq"), split="dev")))[:3]
    answers = [answer(e, "result = [['nobody']]", sandbox) for e in examples]
    kinds = [d.kind for a in answers if (d := explained(a))]
    alone = [d.kind for a in answers if a.task and (d := diagnose(a.trajectory, schema_text(a.task.schema)))]
    assert len(kinds) == len(alone) == 3
    assert kinds.count("unknown") <= alone.count("unknown")


def test_a_question_without_an_answer_has_no_error_kind(sandbox: Sandbox) -> None:
    (example, *_) = load(DataConfig(benchmark="wikitq", path=str(SAMPLE / "wikitq"), split="dev"))
    given = answer(example, "result = [['nobody']]", sandbox)
    unread = given.trajectory.model_copy(update={"ending": "failed reading", "status": None, "steps": ()})
    assert explained(given) is not None
    assert explained(replace(given, trajectory=unread)) is None


def test_each_sample_keeps_one_diagnosis(tmp_path: Path, sandbox: Sandbox) -> None:
    examples = list(load(DataConfig(benchmark="wikitq", path=str(SAMPLE / "wikitq"), split="dev")))[:2]
    folder = Run("evaluate", "t", DataConfig(benchmark="wikitq", path="x"), tmp_path / "run")
    answers = [answer(e, "result = [['nobody']]", sandbox) for e in examples]
    for a in (*answers, answers[0]):  # a kill between two lines, then --resume
        folder.append("errors.jsonl", explained(a))
    write_errors(folder, [a.trajectory for a in answers])
    assert [d.id for d in read_jsonl(folder.path / "errors.jsonl", Diagnosis)] == [e.id for e in examples]
