"""Serving by vLLM: start, prove that tokens and adapters are right, stop."""

from __future__ import annotations

from pandora_train.serve.check import check, check_server, prove
from pandora_train.serve.config import ServeConfig
from pandora_train.serve.proof import Proof
from pandora_train.serve.server import Server, serve

__all__ = ["Proof", "ServeConfig", "Server", "check", "check_server", "prove", "serve"]
