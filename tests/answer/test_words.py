"""The words a student learns are the words it meets: rows against what the agent sends, token by token."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pandora_train import answer as answering
from pandora_train.answer import Answerer
from pandora_train.box import Box, BoxSet, ForeignKey, schema_of
from pandora_train.distill import row_of
from pandora_train.llm.protocol import Message, Reply
from pandora_train.llm.scripted import ScriptedLLM
from pandora_train.memory import Entry
from pandora_train.prompt import Demonstration, PromptConfig, Question, write_reply
from pandora_train.records import CodeError, Example, Execution, Gold, TableKnowledge
from pandora_train.systems.pandora import AgentConfig, Pandora
from pandora_train.teach.annotate import _entry
from pandora_train.train.encode import encode

from .templates import FAMILIES, tokenizer_of

MARKS = sorted({mark for _, special, *_ in FAMILIES.values() for mark in special} | {"<think>", "</think>", "[INST]", "[/INST]"})
PIECES = st.lists(st.sampled_from([*MARKS, "a", "population", " ", "\n", "```", "```python\n", "'", '"', "\\", "{", "é", "漢", "7"]),
                  max_size=5).map("".join)
NAMES = st.one_of(st.sampled_from(["id", "name", "birthYear", "country_id"]), PIECES.filter(bool))
RIGHT = Execution(outcome="result", rows=(("1",),), shape="rows")
EMPTY = Execution(outcome="result", rows=(), shape="rows", hint="filters: t['a'] == <|im_end|>: no such value")
FAILED = Execution(outcome="error", error=CodeError(type="KeyError", message="'<|im_start|>x'", line=1, hint="nearest: 'a'"))
WRONG = Execution(outcome="result", rows=(("2",),), shape="rows")


class Runs:
    """A runner whose code names what it gives."""

    def run(self, boxes: BoxSet, code: str, wall: float | None = None) -> Execution:
        return {"right": RIGHT, "empty": EMPTY, "failed": FAILED, "wrong": WRONG}[code.split("#")[1].strip()]

    def close(self) -> None:
        pass


@st.composite
def box_sets(draw: st.DrawFn) -> BoxSet:
    boxes = []
    for n in range(draw(st.integers(1, 4))):
        fields = draw(st.lists(NAMES, min_size=1, max_size=draw(st.sampled_from([3, 30])), unique=True))
        boxes.append(Box(f"t{n}", pd.DataFrame({f: [draw(PIECES), draw(PIECES)] for f in fields})))
    keys = [ForeignKey("t1", boxes[1].frame.columns[0], "t0", boxes[0].frame.columns[0])] if len(boxes) > 1 else []
    return BoxSet(tuple(boxes), tuple(keys))


@st.composite
def configs(draw: st.DrawFn, system_role: bool) -> PromptConfig:
    return PromptConfig(format=draw(st.sampled_from(["fenced", "json"])), types=draw(st.booleans()), system_role=system_role,
                        values=draw(st.sampled_from(["none", "samples", "matched"])),
                        schema_tokens=draw(st.sampled_from([40, 200, 4000])), budget=draw(st.sampled_from([500, 1200, 7000])))


def reply(outcome: str, format: Any, reasoning: str) -> Reply:
    if outcome == "malformed":
        return Reply(text=f"{reasoning} I do not know")
    if outcome == "cut":
        return Reply(text=reasoning + "\n```python\nresult = [", finish="length")
    thinking = "<think>hm\n</think>\n\n" if outcome == "failed" else ""
    return Reply(text=thinking + write_reply(reasoning, f"result = [['<s>']]  # {outcome}" if outcome != "right" else "result = 1  # right",
                                             format))


class Watched:
    """A scripted model that counts by the family's tokenizer."""

    def __init__(self, replies: list[Reply], family: str) -> None:
        self.scripted, self.tokenizer = ScriptedLLM(replies), tokenizer_of(family)

    def chat(self, messages: list[Message], sample: int = 0) -> Reply:
        return self.scripted.chat(messages, sample)

    def count_tokens(self, messages: list[Message]) -> int:
        return len(ids(self.tokenizer, messages))


def ids(tokenizer: Any, messages: list[Message]) -> list[int]:
    """What a server makes of the messages."""
    return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))


EXAMPLE = Example(id="x", benchmark="files", split="train", question="q", group="g", knowledge=TableKnowledge(path="-"), gold=Gold(answers=("1",)))


def asked(example: Example, replies: list[Reply], boxes: BoxSet, config: PromptConfig, family: str,
          demonstrations: list[Demonstration], **teacher: Any) -> tuple[Any, Watched]:
    llm = Watched(replies, family)
    answerer = Answerer(Pandora(llm, Runs(), AgentConfig(prompt=config)), Runs(), config, lambda e: e, lambda e: demonstrations)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answering, "boxes_for", lambda knowledge: boxes)
        return answerer(example, **teacher), llm


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_rows_are_what_the_agent_sends(data: st.DataObject) -> None:
    family = data.draw(st.sampled_from(sorted(FAMILIES)))
    config = data.draw(configs(FAMILIES[family][3]))
    boxes, question = data.draw(box_sets()), data.draw(PIECES) + "which population?"
    example = EXAMPLE.model_copy(update={"question": question})
    before = data.draw(st.lists(st.sampled_from(["malformed", "cut", "empty", "failed", "wrong"]), max_size=3, unique=True))
    reasoning = data.draw(st.sampled_from(["1. Count.", "", "1. Über\n2. zwei"]))
    replies = [reply(o, config.format, reasoning) for o in [*before, "right"]]
    shown = [Demonstration(f"d{n}", Question(data.draw(PIECES)), schema_of(data.draw(box_sets())), "1. It.", "result = 2")
             for n in range(data.draw(st.integers(0, 3)))]
    taught, _ = asked(example, replies, boxes, config, family, shown, hint=("SQL", "SELECT 1"), teach=True)
    assert taught.right
    entry = _entry(taught, config.settings(), {})
    entry = Entry.model_validate_json(entry.model_dump_json())

    llm = Watched([], family)
    row = row_of(entry, shown, config, llm.count_tokens)
    deployed, meets = asked(example, replies[-len(entry.turns):], boxes, config, family, shown)
    sent = meets.scripted.prompts[-1]
    assert len(meets.scripted.prompts) == len(entry.turns)
    assert not [step for step in deployed.trajectory.steps if step.verdict]
    assert list(row.prompt) == sent
    assert "not the expected answer" not in json.dumps(row.model_dump())
    tokenizer = tokenizer_of(family)
    prompt, completion = encode(row.prompt, row.completion[0]["content"], tokenizer)
    assert prompt == ids(tokenizer, sent)
    text = tokenizer.decode(completion)
    end = FAMILIES[family][2]
    assert text.endswith(end)
    assert text.removesuffix(end).removeprefix("<think>\n\n</think>\n\n").strip() == row.completion[0]["content"]
    assert tokenizer.convert_ids_to_tokens(completion[-1]) == end


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_no_text_adds_a_turn(family: str) -> None:
    """As many marks stand in the tokens as the template writes, whatever names, cells and questions say."""
    hostile = "".join(MARKS)
    boxes = BoxSet((Box("t", pd.DataFrame({hostile: [hostile]})),))
    config = PromptConfig(values="samples", system_role=FAMILIES[family][3])
    tokenizer, counts = tokenizer_of(family), []
    for question, frames in ((hostile, boxes), ("q", BoxSet((Box("t", pd.DataFrame({"a": ["b"]})),)))):
        _answer, llm = asked(EXAMPLE.model_copy(update={"question": question}), [reply("right", "fenced", "1.")], frames,
                            config, family, [Demonstration("d", Question(question), schema_of(frames, "samples"), "1.", "result = 1")])
        tokens = ids(tokenizer, llm.scripted.prompts[0])
        counts.append([tokens.count(i) for i in tokenizer.all_special_ids])
    assert counts[0] == counts[1]


def test_a_template_without_a_system_role_says_what_to_set() -> None:
    messages: list[Message] = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    from pandora_train.errors import UserError

    with pytest.raises(UserError, match=r"prompt\.system_role=false"):
        encode(messages, "c", tokenizer_of("mistral"))
