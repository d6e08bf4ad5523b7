"""Language models behind one protocol: OpenAI-compatible servers, in-process transformers, scripted."""

from __future__ import annotations

from pandora_train.llm.config import LLMConfig
from pandora_train.llm.identity import Identity
from pandora_train.llm.open import open_llm
from pandora_train.llm.protocol import LLM, Message, Reply
from pandora_train.llm.scripted import ScriptedLLM

__all__ = ["LLM", "Identity", "LLMConfig", "Message", "Reply", "ScriptedLLM", "open_llm"]
