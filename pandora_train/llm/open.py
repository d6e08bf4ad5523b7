"""The one place that opens a model."""

from __future__ import annotations

from pandora_train.errors import UserError
from pandora_train.llm.config import LLMConfig
from pandora_train.llm.protocol import LLM


def open_llm(config: LLMConfig) -> LLM:
    """The model ``config`` describes, with the call store around it where that is on.

    Raises :class:`UserError` when something is missing: the model's name, a key, weights, the script.
    """
    if config.kind == "scripted":
        from pandora_train.llm.scripted import ScriptedLLM

        if not config.script:
            raise UserError("a scripted model needs llm.script, a JSONL file with one reply a line")
        llm: LLM = ScriptedLLM.from_file(config.script)
    elif not config.model:
        raise UserError("llm.model is empty: name the model on the server, or a model id for transformers")
    elif config.kind == "openai":
        if config.adapter:
            raise UserError("llm.adapter works with kind=transformers; a vLLM server serves an adapter under "
                            "its own name: give that as llm.model")
        from pandora_train.llm.openai import OpenAILLM

        llm = OpenAILLM(config)
    else:
        from pandora_train.llm.local import LocalLLM

        llm = LocalLLM(config)
    if config.kind == "openai" if config.cache is None else config.cache:
        from pandora_train.llm.cache import CachedLLM

        return CachedLLM(llm, config)
    return llm
