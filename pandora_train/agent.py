"""The agent: ask, run, feed back (paper, section 4.2).

The model gets the prompt, its code runs in the sandbox, and an error, an unusable reply or an empty result
goes back to it, at most ``rounds`` times (the execution guide, L = 3 in the paper). An empty result that the
model repeats with the same code stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pydantic import NonNegativeInt

from pandora_train.box.box import BoxSet
from pandora_train.config import Config
from pandora_train.errors import PromptTooLong
from pandora_train.llm.protocol import LLM, Message
from pandora_train.prompt import Demonstration, Prompt, PromptConfig, Question, build, feedback, parse_reply
from pandora_train.records import Example, Execution, Row, Status, Step, Trajectory, Usage
from pandora_train.sandbox.protocol import Runner

Check = Callable[[tuple[Row, ...]], str]
"""A teacher's check of an answer: what is wrong with it, or an empty string."""


class AgentConfig(Config):
    """How a question is worked on."""

    prompt: PromptConfig = PromptConfig()
    rounds: NonNegativeInt = 3
    """L: how often an error or an empty result is fed back; 0 asks once (the ablation "- EG")."""


class Agent:
    """Answers questions with one model and one sandbox; safe to call from several threads."""

    def __init__(self, llm: LLM, runner: Runner, config: AgentConfig) -> None:
        self.llm, self.runner, self.config = llm, runner, config

    def solve(
        self,
        example: Example,
        boxes: BoxSet,
        demonstrations: Sequence[Demonstration] = (),
        label: tuple[str, str] = ("", ""),
        check: Check | None = None,
    ) -> tuple[Trajectory, Prompt]:
        """Follow ``example`` to its answer; ``label`` and ``check`` are for teachers, who may see gold.

        Raises :class:`~pandora_train.errors.MachineryError` when the model or sandbox fails; whatever the
        model wrote is a record.
        """
        started = time.monotonic()
        question = Question(example.question, shown_topics(example))
        count = self.llm.count_tokens
        prompt = build(question, boxes, demonstrations, self.config.prompt, count, label)
        messages = prompt.messages()
        steps: list[Step] = []
        for left in range(self.config.rounds, -1, -1):
            step = self._step(messages, boxes, check)
            if step is None:
                break
            stands = not step.feedback or _repeats_empty(step, steps)
            if stands or left == 0:
                step = step.model_copy(update={"feedback": ""})
            steps.append(step)
            if not step.feedback:
                break
            messages = [*messages, {"role": "assistant", "content": step.reply},
                        {"role": "user", "content": step.feedback}]
        return self._record(example, prompt, steps, time.monotonic() - started), prompt

    def _step(self, messages: list[Message], boxes: BoxSet, check: Check | None) -> Step | None:
        """One reply, run; ``None`` when the conversation no longer fits the model's context."""
        try:
            reply = self.llm.chat(messages)
        except PromptTooLong:
            return None
        parsed = parse_reply(reply.text, self.config.prompt.format, reply.finish)
        execution = None if parsed.problem else self.runner.run(boxes, parsed.code)
        rows = None if execution is None or execution.empty else execution.rows
        wrong = check(rows) if check and rows else ""
        told = feedback(parsed.code, parsed.problem, execution, wrong)
        return Step(reply=reply.text, reasoning=parsed.reasoning, code=parsed.code, problem=parsed.problem,
                    execution=execution, feedback=told, usage=reply.usage)

    def _record(self, example: Example, prompt: Prompt, steps: list[Step], seconds: float) -> Trajectory:
        last = steps[-1] if steps else None
        usage = sum((s.usage for s in steps), Usage())
        return Trajectory(
            id=example.id, benchmark=example.benchmark, split=example.split, group=example.group,
            question=example.question, tags=example.tags, gold=example.gold,
            prompt=prompt.parts, prompt_hash=prompt.hash, demonstrations=prompt.demonstrations,
            demonstrations_cut=prompt.cut, steps=tuple(steps),
            rows=last.execution.rows if last and last.execution else None,
            status=_status(last), usage=usage, seconds=seconds,
        )


def shown_topics(example: Example) -> tuple[str, ...]:
    """Topic entities of a graph question, as the BOXes name them."""
    return example.knowledge.topics if example.knowledge.kind == "graph" else ()


def _repeats_empty(step: Step, before: list[Step]) -> bool:
    empty = step.execution is not None and step.execution.empty
    return empty and bool(before) and before[-1].code == step.code


def _status(last: Step | None) -> Status:
    if last is None:
        return "prompt"
    if last.problem or last.execution is None:
        return "reply"
    return _ended(last.execution)


def _ended(execution: Execution) -> Status:
    if execution.outcome == "result":
        return "empty" if execution.empty else "ok"
    if execution.outcome in ("error", "timeout"):
        return "error" if execution.outcome == "error" else "timeout"
    return "limit"
