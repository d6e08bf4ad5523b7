"""Instruction, demonstrations, BOX schemas and question become messages (paper, section 4.2, appendix C).

The order is *instruction, demonstrations, schemas, question*: what many questions share comes first, so that
training pays for it once and the server's prefix cache hits. Demonstrations stand in the system message;
the user message holds the schemas and the question; every assistant message is the model's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import jinja2
from pydantic import PositiveInt

from pandora_train.box import schema_text
from pandora_train.box.box import BoxSet
from pandora_train.box.schema import literal
from pandora_train.config import Config
from pandora_train.llm.protocol import Message
from pandora_train.prompt.reply import Format, write_reply
from pandora_train.records import PromptPart, content_id

Counter = Callable[[list[Message]], int]


class PromptConfig(Config):
    """What the prompt shows."""

    format: Format = "fenced"
    """Reply format: ``json`` is the paper's; ``fenced`` spares small models code inside JSON strings."""
    values: Literal["none", "samples", "matched"] = "none"
    """Cell values beside the schema of the question's own BOXes: none (the paper's), a few samples, or those
    that match words of the question."""
    budget: PositiveInt = 7000
    """Most tokens of a prompt; demonstrations are left out first (farthest first), then fields are cut."""


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
    boxes: str
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

    def messages(self) -> list[Message]:
        """The system and user messages: the parts of each role, joined by an empty line."""
        roles: list[Literal["system", "user"]] = ["system", "user"]
        joined = {r: "\n\n".join(self.texts[p.key] for p in self.parts if p.role == r) for r in roles}
        return [{"role": r, "content": joined[r]} for r in roles]

    @property
    def hash(self) -> str:
        """Content id of the whole prompt."""
        return content_id([p.key for p in self.parts])


def build(
    question: Question,
    boxes: BoxSet,
    demonstrations: Sequence[Demonstration],
    config: PromptConfig,
    count: Counter,
    label: tuple[str, str] = ("", ""),
) -> Prompt:
    """The prompt for one question, within the token budget.

    ``demonstrations`` are nearest first, and stand in the prompt nearest last. ``count`` counts the tokens
    of rendered messages. ``label`` is ``(language, query)`` for a teacher that may see it.
    """
    kept = list(demonstrations)
    schema = schema_text(boxes, values=config.values, question=question.text)
    while True:
        prompt = _assemble(question, schema, kept, config, label, len(demonstrations) - len(kept))
        over = count(prompt.messages()) - config.budget
        if over <= 0:
            return prompt
        if kept:
            kept.pop()
            continue
        return _shorten(question, boxes, config, count, label, len(demonstrations))


def _shorten(question: Question, boxes: BoxSet, config: PromptConfig, count: Counter, label: tuple[str, str],
             cut: int) -> Prompt:
    """No demonstration left and still too long: the schema gets what instruction and question leave."""
    bare = _assemble(question, "", [], config, label, cut)
    room = max(config.budget - count(bare.messages()), 64)

    def tokens(text: str) -> int:
        return count([{"role": "user", "content": text}])

    schema = schema_text(boxes, count=tokens, budget=room, values=config.values, question=question.text)
    return _assemble(question, schema, [], config, label, cut)


def _assemble(question: Question, schema: str, demonstrations: list[Demonstration], config: PromptConfig,
              label: tuple[str, str], cut: int) -> Prompt:
    texts: dict[str, str] = {}
    parts: list[PromptPart] = []

    def add(kind: Literal["instruction", "demonstration", "boxes", "question"],
            role: Literal["system", "user"], text: str) -> None:
        key = content_id(text)
        texts[key] = text
        parts.append(PromptPart(kind=kind, role=role, key=key))

    add("instruction", "system", render("instruction", format=config.format))
    for d in reversed(demonstrations):
        add("demonstration", "system", demonstration_text(d, config.format))
    add("boxes", "user", neutralise(schema))
    add("question", "user", question_text(question, label))
    return Prompt(tuple(parts), texts, tuple(d.id for d in reversed(demonstrations)), cut)


def question_text(question: Question, label: tuple[str, str] = ("", "")) -> str:
    """The question as the prompt shows it, with the label ``(language, query)`` for a teacher."""
    topics = [literal(t) for t in question.topics]
    language, query = label
    text = question.text.strip()
    return neutralise(render("question", question=text, topics=topics, language=language, label=query))


def demonstration_text(demonstration: Demonstration, format: Format) -> str:
    """A demonstration as the prompt shows it."""
    reply = write_reply(demonstration.reasoning, demonstration.code, format)
    question = question_text(demonstration.question)
    return neutralise(render("demonstration", boxes=demonstration.boxes, question=question, reply=reply))


_MARKERS = re.compile(r"<(?=[|\uff5c])|<(?=/?(?:s|bos|eos)>)|<(?=(?:start|end)_of_turn)|\[(?=/?INST\])")


def neutralise(text: str) -> str:
    """Keep text from forging turn markers: a space breaks ``<|im_end|>``, ``</s>``, ``[INST]`` and their kin.

    Done in the text itself, so that training, the local backend and any server see the same tokens.
    """
    return _MARKERS.sub(lambda m: m[0] + " ", text)


def render(template: str, **values: object) -> str:
    """Render one of the templates beside this file; an undefined name is an error."""
    return _environment().get_template(f"{template}.j2").render(**values).strip()


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=False,
        keep_trailing_newline=False,
        autoescape=False,
    )


def template_hash() -> str:
    """Content id of all templates; stored with each run."""
    folder = Path(__file__).parent / "templates"
    return content_id({p.name: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.j2"))})
