"""Held-out execution accuracy: the agent of ``evaluate`` answers questions with the adapter as it stands."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch

from pandora_train.answer import Answerer, answer_all
from pandora_train.encoder import EMBEDDED, open_encoder
from pandora_train.errors import MachineryError, UserError
from pandora_train.ground import Grounder, RelationsConfig
from pandora_train.llm import LLMConfig
from pandora_train.llm.local import Arithmetic, LocalLLM
from pandora_train.prompt import PromptConfig
from pandora_train.records import Example, PromptSettings
from pandora_train.sandbox import Sandbox, SandboxConfig
from pandora_train.sources import load
from pandora_train.systems.pandora import AgentConfig, Pandora
from pandora_train.train.config import ExecutionSettings


def questions(settings: ExecutionSettings) -> list[Example]:
    """The questions of the settings. Raises :class:`UserError` when there are none."""
    examples = [e for data in settings.data for e in load(data)]
    if not examples:
        raise UserError("execution.data selects no question")
    return examples


@torch.no_grad()
def right_answers(model: Any, tokenizer: Any, settings: ExecutionSettings, prompt: PromptSettings,
                  examples: Sequence[Example], arithmetic: Arithmetic = contextlib.nullcontext) -> int:
    """How many questions the model answers right by the benchmark's primary metric; failures are wrong.

    Asked as the rows were laid out (``prompt``), greedily, in the given arithmetic. The model's attention is
    switched to transformers' own for generation, and back. Raises :class:`MachineryError` when the sandbox
    leaves questions unfinished.
    """
    base = model.get_base_model()
    implementation = base.config._attn_implementation
    base.set_attn_implementation("sdpa")
    llm = LocalLLM.around(model, tokenizer, LLMConfig(
        kind="transformers", model="student", max_tokens=settings.max_tokens, batch=settings.batch,
        context=base.config.max_position_embeddings), arithmetic)
    right: list[str] = []

    def one(example: Example) -> None:
        if answerer(example).right:
            right.append(example.id)

    try:
        with Sandbox(SandboxConfig()) as sandbox:
            answerer = answerer_of(llm, sandbox, settings, prompt)
            unfinished = answer_all(examples, settings.batch, "execution accuracy", one)
    finally:
        llm.close()
        base.set_attn_implementation(implementation)
    if unfinished:
        raise MachineryError(f"execution accuracy: {len(unfinished)} questions are unfinished, for example "
                             f"{next(iter(unfinished.values()))}")
    return len(right)


def answerer_of(llm: LocalLLM, sandbox: Sandbox, settings: ExecutionSettings,
                prompt: PromptSettings) -> Answerer:
    """The agent that asks by the rows' own prompt settings."""
    layout = PromptConfig(format=prompt.format, values=prompt.values, types=prompt.types,
                          system_role=prompt.system_role, schema_tokens=prompt.schema_tokens)
    agent = AgentConfig(rounds=settings.rounds, prompt=layout)
    relations = RelationsConfig(keep=prompt.relations)
    return Answerer(Pandora(llm, sandbox, agent), sandbox, layout,
                    Grounder(relations, open_encoder(prompt.encoder or EMBEDDED)))
