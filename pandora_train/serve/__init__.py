"""Serving by vLLM: start, prove that tokens and adapters are right, stop."""

from __future__ import annotations

from pandora_train.serve.config import ServeConfig
from pandora_train.serve.server import Server, serve

__all__ = ["ServeConfig", "Server", "serve"]
