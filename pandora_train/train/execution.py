"""Held-out execution accuracy: the agent answers questions with the adapter as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pandora_train.agent import Agent, AgentConfig
from pandora_train.box import boxes_for
from pandora_train.errors import UserError
from pandora_train.llm.protocol import Message, Reply
from pandora_train.metrics import gold_rows, is_right
from pandora_train.records import Example, Usage
from pandora_train.sandbox import Sandbox, SandboxConfig
from pandora_train.sources import load
from pandora_train.train.config import ExecutionSettings


class Student:
    """The model in training, greedy, one prompt at a time."""

    def __init__(self, model: Any, tokenizer: Any, max_tokens: int) -> None:
        self.name = "student"
        self._model, self._tokenizer, self._max_tokens = model, tokenizer, max_tokens
        stop = model.generation_config.eos_token_id  # chat models may end a turn by another token than <eos>
        ends = {tokenizer.eos_token_id, *(stop if isinstance(stop, list) else [stop])}
        self._ends = sorted(ends - {None})

    def chat(self, messages: list[Message], sample: int = 0) -> Reply:
        """One greedy reply."""
        ids = torch.tensor([self._ids(messages)], device=self._model.device)
        new = self._model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False,
                                   max_new_tokens=self._max_tokens, eos_token_id=self._ends,
                                   pad_token_id=self._tokenizer.pad_token_id)[0, ids.shape[1]:].tolist()
        ended = not set(new).isdisjoint(self._ends)
        return Reply(text=self._tokenizer.decode(new, skip_special_tokens=True),
                     finish="stop" if ended else "length",
                     usage=Usage(calls=1, prompt_tokens=ids.shape[1], completion_tokens=len(new)))

    def count_tokens(self, messages: list[Message]) -> int:
        """Exact."""
        return len(self._ids(messages))

    def close(self) -> None:
        """Nothing to free: the model belongs to the training run."""

    def _ids(self, messages: list[Message]) -> list[int]:
        ids: list[int] = self._tokenizer.apply_chat_template(list(messages), add_generation_prompt=True,
                                                             return_dict=False)
        return ids


def questions(settings: ExecutionSettings) -> list[Example]:
    """The questions of the settings. Raises :class:`UserError` when there are none."""
    examples = [e for data in settings.data for e in load(data)]
    if not examples:
        raise UserError("execution.data selects no question")
    return examples


@torch.no_grad()
def right_answers(model: Any, tokenizer: Any, settings: ExecutionSettings,
                  examples: Sequence[Example]) -> int:
    """How many questions the model answers right by the benchmark's primary metric; failures are wrong.

    The model's attention is switched to transformers' own for generation, and back.
    """
    base = model.get_base_model()
    implementation = base.config._attn_implementation
    runner = Sandbox(SandboxConfig())
    base.set_attn_implementation("sdpa")
    try:
        student = Student(model, tokenizer, settings.max_tokens)
        agent = Agent(student, runner, AgentConfig(rounds=settings.rounds))
        right = [is_right(e, agent.solve(e, boxes_for(e.knowledge))[0].rows, gold_rows(e)) for e in examples]
    finally:
        base.set_attn_implementation(implementation)
        runner.close()
    return sum(right)
