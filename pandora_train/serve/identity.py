"""``GET /pandora`` on our vLLM server: which weights it serves, and how each adapter's prompts are laid out.

vLLM imports the middleware by name (``--middleware``) into its own process, so what it says comes through an
environment variable, set before the start. Nothing heavy is imported here.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from pandora_train.llm.adapter import WEIGHTS
from pandora_train.llm.fingerprint import ServedAdapter, ServedWeights
from pandora_train.llm.identity import base_hash, read_prompt_settings, sha256
from pandora_train.serve.config import ServeConfig

VARIABLE = "PANDORA_SERVED"
Event = MutableMapping[str, Any]
Receiver = Callable[[], Awaitable[Event]]
Sender = Callable[[Event], Awaitable[None]]
Application = Callable[[Event, Receiver, Sender], Awaitable[None]]
"""ASGI's shapes."""


def served(config: ServeConfig, folder: Path) -> ServedWeights:
    """Hashes of what ``config`` serves, the base model from ``folder``; a large one takes minutes, once."""
    folders = {name: Path(path) for name, path in config.adapters.items()}
    adapters = {name: ServedAdapter(sha256=sha256(path / WEIGHTS), prompt=read_prompt_settings(path))
                for name, path in folders.items()}
    return ServedWeights(name=config.name, base=base_hash(folder), adapters=adapters,
                         prompt=read_prompt_settings(folder))


class IdentityMiddleware:
    """ASGI middleware: ``GET /pandora`` is answered here, all else by the server."""

    def __init__(self, app: Application) -> None:
        self._app, self._body = app, os.environ[VARIABLE].encode()

    async def __call__(self, scope: Event, receive: Receiver, send: Sender) -> None:
        """One request."""
        if scope["type"] != "http" or scope["path"] != "/pandora" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(self._body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self._body})
