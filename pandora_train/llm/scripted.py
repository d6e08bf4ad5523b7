"""A model that says what it is told to: for tests, demonstrations and dry runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from pandora_train.errors import UserError
from pandora_train.llm.identity import Identity
from pandora_train.llm.protocol import Message, Reply
from pandora_train.llm.tokens import estimate
from pandora_train.records import Record, Usage

ScriptedAnswer = Callable[[list[Message], int], "str | Reply"]


class Line(Record):
    """One scripted reply. ``contains`` restricts it to prompts in which that text occurs."""

    text: str
    contains: str = ""
    finish: Literal["stop", "length", "refused"] = "stop"
    refusal: str = ""


class ScriptedLLM:
    """Replies from a list, each used once, in order; or computed by a function of messages and sample.

    With several threads, give each line the question it belongs to in ``contains``: then order between
    questions does not matter. A prompt that no unused line fits raises :class:`UserError`.
    """

    def __init__(self, replies: Sequence[str | Reply | Line] | ScriptedAnswer,
                 name: str = "scripted") -> None:
        self.name = name
        self.prompts: list[list[Message]] = []
        """Every prompt asked so far, in order."""
        self._lock = threading.Lock()
        self._answer = replies if callable(replies) else None
        self._lines = [] if callable(replies) else [_line(reply) for reply in replies]

    @classmethod
    def from_file(cls, path: str | Path) -> ScriptedLLM:
        """Read a JSONL file: each line ``{"text": …}``, optionally with :class:`Line`'s other fields."""
        file = Path(path)
        if not file.is_file():
            raise UserError(f"no script {file}: give a JSONL file, one {{\"text\": …}} a line")
        lines = []
        for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            try:
                lines.append(Line.model_validate_json(text))
            except ValidationError as e:
                problem = e.errors()[0]
                raise UserError(f"{file}, line {number}: {problem['msg']}") from None
        return cls(lines, name=f"scripted:{file.name}")

    def chat(self, messages: list[Message], sample: int = 0) -> Reply:
        """The next fitting reply; usage is estimated from the text's length."""
        with self._lock:
            self.prompts.append(list(messages))
            said = self._answer(messages, sample) if self._answer else self._next(messages)
        reply = Reply(text=said) if isinstance(said, str) else said
        if reply.usage.calls:
            return reply
        spent = Usage(calls=1, prompt_tokens=self.count_tokens(messages),
                      completion_tokens=estimate([reply.text]))
        return reply.model_copy(update={"usage": spent})

    def _next(self, messages: list[Message]) -> Reply:
        for i, line in enumerate(self._lines):
            if any(line.contains in message["content"] for message in messages):
                del self._lines[i]
                return Reply(text=line.text, finish=line.finish, refusal=line.refusal)
        raise UserError(f"{self.name}: no reply is left for the prompt that ends in "
                        f"'{messages[-1]['content'][-60:]}'")

    def identity(self) -> Identity:
        """Its name."""
        return Identity(kind="name", model=self.name)

    def count_tokens(self, messages: list[Message]) -> int:
        """An upper estimate."""
        return estimate([message["content"] for message in messages])

    def close(self) -> None:
        """Nothing to free."""


def _line(reply: str | Reply | Line) -> Line:
    if isinstance(reply, str):
        return Line(text=reply)
    if isinstance(reply, Line):
        return reply
    return Line(text=reply.text, finish=reply.finish, refusal=reply.refusal)
