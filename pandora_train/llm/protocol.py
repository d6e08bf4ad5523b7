"""One protocol for every model: messages in, one reply out."""

from __future__ import annotations

from typing import Literal, Protocol

from typing_extensions import TypedDict  # typing's own, before 3.12, cannot be a field of a record

from pandora_train.llm.identity import Identity
from pandora_train.records import Record, Usage


class Message(TypedDict):
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


class Reply(Record):
    """What the model wrote, and how it ended."""

    text: str
    finish: Literal["stop", "length", "refused"] = "stop"
    """``length``: cut at its token limit; ``refused``: by the model's policy or the provider's filter."""
    refusal: str = ""
    """What the model or provider said, where it refused."""
    usage: Usage = Usage()


class LLM(Protocol):
    """A language model. ``chat`` is called from several threads at once and must allow it."""

    name: str

    def chat(self, messages: list[Message], sample: int = 0) -> Reply:
        """One reply to ``messages``. ``sample`` numbers repeated draws at temperature above 0.

        Raises :class:`~pandora_train.errors.PromptTooLong` for one sample's prompt, another
        :class:`~pandora_train.errors.UserError` for what concerns all questions (no key, unknown model) and
        :class:`~pandora_train.errors.MachineryError` when this question got no whole reply after retries.
        """
        ...

    def identity(self) -> Identity:
        """Who answers. Asked of a server once; raises as :meth:`chat` does."""
        ...

    def count_tokens(self, messages: list[Message]) -> int:
        """Tokens of the rendered prompt (exact where the tokenizer is local, else an upper estimate)."""
        ...

    def close(self) -> None:
        """Free the model or connection."""
        ...
