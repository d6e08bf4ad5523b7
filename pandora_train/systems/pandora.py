"""The agent: ask, run, feed back (paper, section 4.2).

The model gets the prompt, its code runs in the sandbox, and an error, an unusable reply or an empty result
goes back to it, at most ``rounds`` times (the execution guide, L = 3 in the paper). An empty result that the
model repeats with the same code stands.
"""

from __future__ import annotations

from pydantic import NonNegativeInt

from pandora_train.config import Config
from pandora_train.errors import PromptTooLong
from pandora_train.llm.protocol import LLM, Message
from pandora_train.prompt import PromptConfig, Question, feedback, lay_out, parse_reply
from pandora_train.records import Example, Step
from pandora_train.sandbox.protocol import Runner
from pandora_train.systems.protocol import Solution, Task


class AgentConfig(Config):
    """How a question is worked on."""

    prompt: PromptConfig = PromptConfig()
    rounds: NonNegativeInt = 3
    """L: how often an error or an empty result is fed back; 0 asks once (the ablation "- EG")."""


class Pandora:
    """Answers questions with one model and one sandbox."""

    def __init__(self, llm: LLM, runner: Runner, config: AgentConfig) -> None:
        self.llm, self.runner, self.config = llm, runner, config

    def solve(self, task: Task) -> Solution:
        """Ask, run, feed back until an answer stands or the rounds are used up."""
        prompt = lay_out(self.config.prompt, task.schema, question_of(task.example), task.demonstrations,
                         self.llm.count_tokens, task.hint)
        steps: list[Step] = []
        for rounds_left in range(self.config.rounds, -1, -1):
            step = self._step(prompt.messages([(s.reply, s.feedback) for s in steps]), task)
            if step is None:
                break
            if rounds_left == 0 or _repeats_empty(step, steps):
                step = step.model_copy(update={"feedback": "", "verdict": False})
            steps.append(step)
            if not step.feedback:
                break
        return Solution(tuple(steps), prompt)

    def _step(self, messages: list[Message], task: Task) -> Step | None:
        """One reply, run; ``None`` when the conversation no longer fits the model's context."""
        try:
            reply = self.llm.chat(messages)
        except PromptTooLong:
            return None
        if reply.finish == "refused":
            return Step(reply=reply.text, refusal=reply.refusal or "no reason given", usage=reply.usage)
        parsed = parse_reply(reply.text, self.config.prompt.format, reply.finish)
        execution = None if parsed.problem else self.runner.run(task.boxes, parsed.code)
        rows = None if execution is None or execution.empty else execution.rows
        wrong = task.check(rows) if task.check and rows else ""
        words = feedback(parsed.code, parsed.problem, execution, wrong)
        return Step(reply=reply.text, reasoning=parsed.reasoning, code=parsed.code, problem=parsed.problem,
                    execution=execution, feedback=words, verdict=bool(wrong), usage=reply.usage)


def question_of(example: Example) -> Question:
    """The question as the prompt shows it: over a graph with its topic entities, as the BOXes name them."""
    topics = example.knowledge.topics if example.knowledge.kind == "graph" else ()
    return Question(example.question, topics)


def _repeats_empty(step: Step, before: list[Step]) -> bool:
    empty = step.execution is not None and step.execution.empty
    return empty and bool(before) and before[-1].code == step.code
