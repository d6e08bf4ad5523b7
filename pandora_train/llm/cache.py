"""Each call on disk before its reply is used: a rerun, or a run that crashed, pays for none twice.

One JSON file a call under ``<home>/calls/<model>/``, named by a hash of everything that decides the
reply; written aside and renamed, so that several processes and machines can share the folder.
"""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from pydantic import ValidationError

from pandora_train.config import home
from pandora_train.llm.backends import LLMConfig
from pandora_train.llm.protocol import LLM, Message, Reply
from pandora_train.records import content_id
from pandora_train.runs import write_json

DECIDING = ("kind", "model", "adapter", "base_url", "temperature", "max_tokens", "extra_body")
"""Config fields that change what a model replies; prices and time-outs do not."""


class CachedLLM:
    """A model with a memory. A reply from disk keeps the usage it had when it was paid for."""

    def __init__(self, llm: LLM, config: LLMConfig) -> None:
        self.name = llm.name
        self.hits = 0
        """Replies that came from disk."""
        self._llm = llm
        self._fields = {name: getattr(config, name) for name in DECIDING}
        self._folder = home() / "calls" / (re.sub(r"[^\w.-]+", "_", config.model) or config.kind)
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def chat(self, messages: list[Message], sample: int = 0) -> Reply:
        """The stored reply, else a new one, stored first. Equal calls at the same time are made once."""
        request = {**self._fields, "messages": messages, "sample": sample}
        key = content_id(request, size=32)
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            file = self._folder / key[:2] / f"{key}.json"
            stored = _read(file)
            if stored:
                self.hits += 1
                return stored
            reply = self._llm.chat(messages, sample)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, {"request": request, "reply": reply.model_dump()})
        return reply

    def count_tokens(self, messages: list[Message]) -> int:
        """As the model counts them."""
        return self._llm.count_tokens(messages)

    def close(self) -> None:
        """Close the model; what is on disk stays."""
        self._llm.close()


def _read(file: Path) -> Reply | None:
    """The reply in ``file``; none if it is missing or was damaged (then it is asked for again)."""
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return Reply.model_validate(data["reply"])
    except (FileNotFoundError, json.JSONDecodeError, KeyError, ValidationError):
        return None
