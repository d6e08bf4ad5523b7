"""Language models behind one protocol: OpenAI-compatible servers, in-process transformers, scripted."""

from __future__ import annotations

from pandora_train.llm.backends import LLMConfig, open_llm
from pandora_train.llm.protocol import LLM, Message, Reply
from pandora_train.llm.scripted import ScriptedLLM

__all__ = ["LLM", "LLMConfig", "Message", "Reply", "ScriptedLLM", "open_llm"]
