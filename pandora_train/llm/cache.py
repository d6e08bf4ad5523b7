"""Each call on disk before its reply is used: a rerun, or a run that crashed, pays for none twice.

One JSON file a call under ``<home>/calls/<model>/``, named by a hash of everything that decides the reply;
written aside and renamed, so that several processes and machines can share the folder without locks. A disk
that cannot be read or written costs the saving, never a reply.
"""

from __future__ import annotations

import json
import re
import threading
import warnings
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from pandora_train.config import home
from pandora_train.llm.config import LLMConfig
from pandora_train.llm.identity import Identity
from pandora_train.llm.protocol import LLM, Message, Reply
from pandora_train.records import content_id
from pandora_train.runs import write_json

DECIDING = ("model", "temperature", "max_tokens", "extra_body")
"""Config fields that change what a model replies, beside its identity; prices and time-outs do not."""


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
        self._warned = False
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    def chat(self, messages: list[Message], sample: int = 0) -> Reply:
        """The stored reply, else a new one, stored first. Equal calls at the same time are made once."""
        request = {**self._fields, "identity": self.identity().key, "messages": messages, "sample": sample}
        key = content_id(request, size=32)
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            file = self._folder / key[:2] / f"{key}.json"
            stored = _read(file)
            if stored:
                with self._guard:
                    self.hits += 1
                return stored
            reply = self._llm.chat(messages, sample)
            self._store(file, {"request": request, "reply": reply.model_dump()})
        return reply

    def identity(self) -> Identity:
        """The model's."""
        return self._llm.identity()

    def count_tokens(self, messages: list[Message]) -> int:
        """As the model counts them."""
        return self._llm.count_tokens(messages)

    def close(self) -> None:
        """Close the model; what is on disk stays."""
        self._llm.close()

    def _store(self, file: Path, call: dict[str, Any]) -> None:
        """Write ``call``; a disk that refuses it is told once, since the reply is paid for."""
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, call)
        except OSError as e:
            with self._guard:
                first, self._warned = not self._warned, True
            if first:
                warnings.warn(f"replies are not kept: {e.strerror or e} ({self._folder}); a rerun pays "
                              "again (set PANDORA_HOME to a folder you may write to, or llm.cache=false)",
                              stacklevel=2)


def _read(file: Path) -> Reply | None:
    """The reply in ``file``; none if it is missing, damaged or closed to us (then it is asked for again)."""
    try:
        return Reply.model_validate(json.loads(file.read_text(encoding="utf-8"))["reply"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
