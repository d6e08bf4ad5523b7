"""One layout: instruction, demonstrations, BOX schemas, question and turns become messages (appendix C).

The agent, both teachers, the rows of ``distill`` and the proofs of ``serve`` all use :func:`lay_out`, so that
a student meets the very words it learnt. The order is *instruction, demonstrations, schemas, question*: what
many questions share comes first, so that training pays for it once and the server's prefix cache hits.

One length policy, too: demonstrations go first (farthest first), then the schema's values and types, then the
fields whose names share least with the question. It knows nothing of gold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import PositiveInt

from pandora_train.box.schema import Schema, Values, literal, schema_text
from pandora_train.config import Config
from pandora_train.llm.protocol import Message
from pandora_train.prompt.reply import Format, without_thinking, write_reply
from pandora_train.prompt.text import neutralise, render, template_hash
from pandora_train.records import PromptPart, PromptSettings, content_id

TokenCount = Callable[[list[Message]], int]
"""Tokens of rendered messages, generation prompt included."""
LEAST_SCHEMA = 64
"""Tokens a schema may take even where nothing is left for it: the note of what is not shown, at least."""


class PromptConfig(Config):
    """What the prompt shows."""

    format: Format = "fenced"
    """Reply format: ``json`` is the paper's; ``fenced`` spares small models code inside JSON strings."""
    values: Values = "none"
    """Cell values beside the schema of the question's own BOXes: none (the paper's), a few samples, or those
    that match words of the question."""
    types: bool = False
    """Whether a field without shown values shows its type (``[int, ...]``)."""
    system_role: bool = True
    """Whether instruction and demonstrations stand in a system message; false puts them before the schemas in
    the user message, for models whose chat template has no system role (Mistral, Gemma)."""
    schema_tokens: PositiveInt = 4000
    """Most tokens of the BOX schemas."""
    budget: PositiveInt = 7000
    """Most tokens of a prompt; demonstrations are left out first (farthest first), then fields are cut."""

    def settings(self, relations: int = 0, ranked_by: str = "") -> PromptSettings:
        """The record that travels with rows and adapter. ``relations``, ``ranked_by``: R* and what chose
        it."""
        return PromptSettings(
            format=self.format, values=self.values, types=self.types, system_role=self.system_role,
            schema_tokens=self.schema_tokens, relations=relations, encoder=ranked_by,
            templates=template_hash())


@dataclass(frozen=True)
class Question:
    """The question's text and, over a graph, the names of its topic entities as the BOXes write them."""

    text: str
    topics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Demonstration:
    """One (question, BOX schemas, reasoning, code) from memory."""

    id: str
    question: Question
    schema: Schema
    reasoning: str
    code: str


@dataclass(frozen=True)
class Prompt:
    """The parts of a prompt in order, with their texts."""

    parts: tuple[PromptPart, ...]
    texts: dict[str, str]
    """Part key to text."""
    demonstrations: tuple[str, ...]
    """Ids of the demonstrations in the prompt, farthest first."""
    cut: int = 0
    """Demonstrations left out by the budget."""
    system_role: bool = True

    def messages(self, turns: Sequence[tuple[str, str]] = ()) -> list[Message]:
        """The parts of each role joined by an empty line, then the ``(reply, feedback)`` of each turn."""
        joined = {role: "\n\n".join(self.texts[p.key] for p in self.parts if p.role == role)
                  for role in ("system", "user")}
        messages: list[Message] = [{"role": "system", "content": joined["system"]},
                                   {"role": "user", "content": joined["user"]}]
        if not self.system_role:
            messages = [{"role": "user", "content": f"{joined['system']}\n\n{joined['user']}"}]
        for reply, feedback in turns:
            messages += [{"role": "assistant", "content": neutralise(without_thinking(reply))},
                         {"role": "user", "content": neutralise(feedback)}]
        return messages

    @property
    def hash(self) -> str:
        """Content id of the whole prompt."""
        return content_id([p.key for p in self.parts])


def lay_out(config: PromptConfig, schema: Schema, question: Question, demonstrations: Sequence[Demonstration],
            count: TokenCount, hint: tuple[str, str] = ("", "")) -> Prompt:
    """The prompt for one question, within the token budget.

    ``demonstrations`` are nearest first, and stand in the prompt nearest last. ``hint`` is ``(language,
    query)`` for a teacher that may see the label.
    """
    layout = _PromptPieces(config, question, list(demonstrations), hint)

    def text(tokens: int) -> str:
        return schema_text(schema, question.text, lambda shown: len(shown) <= tokens or count(
            [{"role": "user", "content": shown}]) <= tokens)

    whole = text(config.schema_tokens)
    for shown in range(len(demonstrations), -1, -1):
        prompt = layout.prompt(whole, shown)
        if count(prompt.messages()) <= config.budget:
            return prompt
    rest = config.budget - count(layout.prompt("", 0).messages())
    return layout.prompt(text(min(config.schema_tokens, max(rest, LEAST_SCHEMA))), 0)


@dataclass
class _PromptPieces:
    """The pieces of one prompt, put together with more or fewer demonstrations."""

    config: PromptConfig
    question: Question
    demonstrations: list[Demonstration]
    hint: tuple[str, str]

    def prompt(self, schema: str, shown: int) -> Prompt:
        """Instruction, the ``shown`` nearest demonstrations, ``schema`` and question."""
        config, texts = self.config, dict[str, str]()
        parts: list[PromptPart] = []

        def add(kind: Literal["instruction", "demonstration", "boxes", "question"],
                role: Literal["system", "user"], text: str) -> None:
            key = content_id(text)
            texts[key] = text
            parts.append(PromptPart(kind=kind, role=role, key=key))

        nearest = self.demonstrations[:shown]
        add("instruction", "system", render("instruction", format=config.format, values=config.values,
                                            types=config.types))
        for demonstration in reversed(nearest):
            add("demonstration", "system", demonstration_text(demonstration, config.format))
        add("boxes", "user", neutralise(schema))
        add("question", "user", question_text(self.question, self.hint))
        return Prompt(tuple(parts), texts, tuple(d.id for d in reversed(nearest)),
                      len(self.demonstrations) - shown, config.system_role)


def question_text(question: Question, hint: tuple[str, str] = ("", "")) -> str:
    """The question as the prompt shows it, with the label ``(language, query)`` for a teacher."""
    topics = [literal(topic) for topic in question.topics]
    language, query = hint
    text = question.text.strip()
    return neutralise(render("question", question=text, topics=topics, language=language, label=query))


def demonstration_text(demonstration: Demonstration, format: Format) -> str:
    """A demonstration as the prompt shows it."""
    reply = write_reply(demonstration.reasoning, demonstration.code, format)
    question, schema = question_text(demonstration.question), schema_text(demonstration.schema)
    return neutralise(render("demonstration", boxes=schema, question=question, reply=reply))
