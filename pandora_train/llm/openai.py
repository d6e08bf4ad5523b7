"""Any OpenAI-compatible server: GPT, vLLM and the like, by the ``openai`` package."""

from __future__ import annotations

import os
import time
from typing import Any

from pandora_train.errors import MachineryError, PromptTooLong, UserError
from pandora_train.llm.backends import LLMConfig
from pandora_train.llm.protocol import Message, Reply
from pandora_train.llm.tokens import estimate, find_tokenizer
from pandora_train.records import Usage

TOO_LONG = ("context length", "context_length", "context window", "maximum model length", "too long",
            "max_model_len", "longer than")


class OpenAILLM:
    """Chat completions; the client retries rate limits, server errors and broken connections."""

    def __init__(self, config: LLMConfig) -> None:
        import openai

        key = os.environ.get(config.api_key_env, "")
        if not key and not config.base_url.startswith("http://"):
            raise UserError(f"no API key: set the environment variable {config.api_key_env}")
        self.name = config.model
        self._config = config
        self._tokenizer = find_tokenizer(config.model, config.tokenizer)
        self._client = openai.OpenAI(api_key=key or "none", base_url=config.base_url or None,
                                     timeout=config.timeout, max_retries=config.retries)

    def chat(self, messages: list[Message], sample: int = 0) -> Reply:
        """One completion; ``sample`` only tells the call cache repeated draws apart."""
        began = time.monotonic()
        try:
            done = self._client.chat.completions.create(**self._request(messages))
        except Exception as e:
            raise self._explained(e) from e
        choice = done.choices[0]
        usage = self._usage(done.usage, time.monotonic() - began)
        return Reply(text=choice.message.content or "", usage=usage,
                     finish="length" if choice.finish_reason == "length" else "stop")

    def count_tokens(self, messages: list[Message]) -> int:
        """Exact with a local tokenizer (``llm.tokenizer``), else an upper estimate."""
        if self._tokenizer:
            return len(self._tokenizer.ids(messages))
        return estimate([message["content"] for message in messages])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _request(self, messages: list[Message]) -> dict[str, Any]:
        # OpenAI's newer models know only the new name of the limit, many other servers only the old one.
        limit = "max_tokens" if self._config.base_url else "max_completion_tokens"
        request: dict[str, Any] = {"model": self._config.model, "messages": messages,
                                   limit: self._config.max_tokens}
        if self._config.temperature is not None:
            request["temperature"] = self._config.temperature
        if self._config.extra_body:
            request["extra_body"] = self._config.extra_body
        return request

    def _usage(self, usage: Any, seconds: float) -> Usage:
        if usage is None:
            return Usage(calls=1, seconds=seconds)
        details = usage.prompt_tokens_details
        cached = (details.cached_tokens or 0) if details else 0
        config = self._config
        price_cached = config.price_in if config.price_cached is None else config.price_cached
        usd = ((usage.prompt_tokens - cached) * config.price_in + cached * price_cached
               + usage.completion_tokens * config.price_out) / 1e6
        return Usage(calls=1, prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens,
                     cached_tokens=cached, seconds=seconds, usd=usd)

    def _explained(self, error: Exception) -> Exception:
        """What went wrong, attributed: to the user, to one prompt, or to the machinery."""
        import openai

        where, tries = self._config.base_url or "the OpenAI API", self._config.retries + 1
        text = str(error).replace("\n", " ")[:400]
        match error:
            case openai.BadRequestError() if any(mark in text.lower() for mark in TOO_LONG):
                return PromptTooLong(f"the prompt does not fit {self.name}: {text}")
            case openai.AuthenticationError() | openai.PermissionDeniedError():
                return UserError(f"{where} refused the key in {self._config.api_key_env}: {text}")
            case openai.NotFoundError():
                return UserError(f"{where} does not know the model '{self.name}': {text}")
            case openai.RateLimitError() if error.code == "insufficient_quota":
                return UserError(f"{where}: the account's quota is used up: {text}")
            case openai.BadRequestError() | openai.UnprocessableEntityError():
                return UserError(f"{where} refused the request: {text}")
            case openai.APIConnectionError():
                return MachineryError(f"{where} cannot be reached after {tries} tries: {text}")
            case openai.APIError():
                return MachineryError(f"{where} failed after {tries} tries: {text}")
        return error
