"""Any OpenAI-compatible server: GPT, vLLM and the like.

Whatever a server answers ends in a reply, in an error that concerns all questions (:class:`UserError`: key,
model, quota, a field of the request), or in one question's (:class:`PromptTooLong`, :class:`MachineryError`).
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pandora_train.errors import MachineryError, PromptTooLong, UserError
from pandora_train.llm.config import LLMConfig
from pandora_train.llm.connect import OPENAI_KEY, QUOTA, Connection, Rejected
from pandora_train.llm.fingerprint import who_answers
from pandora_train.llm.identity import Identity
from pandora_train.llm.protocol import Message, Reply
from pandora_train.llm.tokens import estimate, find_tokenizer
from pandora_train.records import Usage

T = TypeVar("T")
TOO_LONG = ("context length", "context_length", "context window", "maximum model length", "too long",
            "max_model_len", "longer than")
FILTERED = {"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"}
"""Codes of a request that a provider's policy refuses, as a model may refuse it."""
ABORTED = {"abort", "error"}
"""Ends of a reply that the server broke off."""


class OpenAILLM:
    """Chat completions of one model on one server."""

    def __init__(self, config: LLMConfig) -> None:
        self.name = config.model
        self.connection = Connection(config)
        self._config = config
        self._tokenizer = find_tokenizer(config.model, config.tokenizer)
        # OpenAI's newer models know only the new name of the limit, many other servers only the old one.
        self._limit = "max_tokens" if config.base_url else "max_completion_tokens"
        self._identity: Identity | None = None
        self._identifying = threading.Lock()

    def chat(self, messages: list[Message], sample: int = 0) -> Reply:
        """One completion; ``sample`` only tells the call store repeated draws apart."""
        began = time.monotonic()
        request: dict[str, Any] = {} if self._config.temperature is None else {
            "temperature": self._config.temperature}
        request |= self._config.extra_body
        try:
            reply, usage = self.complete(messages, _read_reply, self._config.max_tokens, **request)
        except Rejected as e:
            if not _filtered(e):
                raise self._attributed(e, request, messages) from None
            reply, usage = Reply(text="", finish="refused", refusal=e.text or "content_filter"), None
        return reply.model_copy(update={"usage": self._usage(usage, time.monotonic() - began)})

    def complete(self, messages: Sequence[Message], read: Callable[[bytes], T], max_tokens: int,
                 **fields: Any) -> T:
        """What ``read`` makes of a completion with these ``fields`` of the request.

        Raises :class:`~pandora_train.llm.connect.Rejected` and :class:`MachineryError`. The name that the
        server has for the token limit is learnt from its first refusal.
        """
        while True:
            limit = self._limit
            body = {"model": self._config.model, "messages": messages, limit: max_tokens, **fields}
            try:
                return self.connection.post(f"{self.connection.url}/chat/completions", body, read)
            except Rejected as e:
                if limit != "max_tokens" or _too_long(e, messages) or not _wants_other_limit(e):
                    raise
                self._limit = "max_completion_tokens"

    def identity(self) -> Identity:
        """See :mod:`~pandora_train.llm.fingerprint`; asked for once."""
        with self._identifying:
            if self._identity is None:
                try:
                    self._identity = who_answers(self.name, self.connection, self.complete)
                except Rejected as e:
                    raise self._attributed(e, {}, []) from None
            return self._identity

    def count_tokens(self, messages: list[Message]) -> int:
        """Exact with a local tokenizer (``llm.tokenizer``), else an upper estimate."""
        if self._tokenizer:
            return len(self._tokenizer.ids(messages))
        return estimate([message["content"] for message in messages])

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    def _usage(self, usage: Any, seconds: float) -> Usage:
        """Cost of a call. A server that counts nothing, or nonsense, costs no reply."""
        usage = usage if isinstance(usage, dict) else {}
        details = usage.get("prompt_tokens_details")
        prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
        cached = min(prompt, _count(details if isinstance(details, dict) else {}, "cached_tokens"))
        config = self._config
        price_cached = config.price_in if config.price_cached is None else config.price_cached
        usd = (prompt - cached) * config.price_in + cached * price_cached + completion * config.price_out
        return Usage(calls=1, prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached,
                     seconds=seconds, usd=usd / 1e6)

    def _attributed(self, e: Rejected, request: dict[str, Any], messages: list[Message]) -> Exception:
        """Whom a refused request concerns: the user and all questions, or this one."""
        where = self.connection.where
        if _too_long(e, messages):
            return PromptTooLong(f"the prompt does not fit {self.name}: {e.text}")
        if e.status in (401, 403):
            key = self._config.api_key_env or ("" if self._config.base_url else OPENAI_KEY)
            return UserError(f"{where} refused the key in {key}: {e.text}" if key else
                             f"{where} asks for a key (name its variable in llm.api_key_env): {e.text}")
        if e.status == 402 or e.codes & QUOTA:
            return UserError(f"{where}: the account's quota is used up: {e.text}")
        if e.status == 404 or e.param == "model":
            return UserError(f"{where} does not know the model '{self.name}': {e.text}")
        if 300 <= e.status < 400:
            return UserError(f"{where} redirects: give the address that it redirects to as llm.base_url")
        field = _refused_field(e, [self._limit, *request], messages)
        if field:
            remedy = {"temperature": "set llm.temperature=null", "max_tokens": "set llm.max_tokens",
                      "max_completion_tokens": "set llm.max_tokens"}.get(field, "change llm.extra_body")
            return UserError(f"{where} refused the request's {field} ({remedy}): {e.text}")
        return MachineryError(f"{where} refused this request (status {e.status}): {e.text}")


def _read_reply(body: bytes) -> tuple[Reply, Any]:
    """Reply, without its usage, and the usage object; a ``BROKEN`` error for a body of another shape."""
    data = json.loads(body)
    choice = data["choices"][0]
    message, finish = choice["message"], choice.get("finish_reason")
    text, refusal = message.get("content"), message.get("refusal")
    if not isinstance(text, str | None) or not isinstance(refusal, str | None) or finish in ABORTED:
        raise ValueError(f"content {text!r:.40}, finish_reason {finish!r:.40}")
    text, refusal = _encodable(text or ""), _encodable(refusal or "")
    if finish == "content_filter" or (refusal and not text):
        return Reply(text=text, finish="refused", refusal=refusal or "content_filter"), data.get("usage")
    return Reply(text=text, finish="length" if finish == "length" else "stop"), data.get("usage")


def _encodable(text: str) -> str:
    """``text`` without lone surrogates (JSON's ``\\ud800``), which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _count(usage: dict[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _filtered(e: Rejected) -> bool:
    """A refusal of this prompt's content; OpenRouter gives 403, which otherwise means the key."""
    return bool(e.codes & FILTERED) or (e.status == 403 and "flagged" in e.text.lower())


def _too_long(e: Rejected, messages: Sequence[Message]) -> bool:
    return e.status == 413 or (e.status in (400, 422) and _says(e, TOO_LONG, messages))


def _wants_other_limit(e: Rejected) -> bool:
    named = e.param == "max_tokens" and "unsupported_parameter" in e.codes
    return e.status in (400, 422) and (named or "max_completion_tokens" in e.text)


def _refused_field(e: Rejected, names: list[str], messages: list[Message]) -> str:
    """The field of our request that the server refuses, if that is what it says."""
    named = re.split(r"[.\[]", e.param)[0]
    if named in names:
        return named
    return next((name for name in names if len(name) > 3 and re.search(rf"\b{re.escape(name)}\b", e.text)
                 and _says(e, [name], messages)), "")


def _says(e: Rejected, marks: Sequence[str], messages: Sequence[Message]) -> bool:
    """Whether the server's own words hold one of ``marks``.

    Servers quote prompts in their errors: what stands in this prompt too proves nothing.
    """
    prompt = " ".join(message["content"] for message in messages).lower()
    return any(mark in e.text.lower() and mark not in prompt for mark in marks)
