"""HTTP to one OpenAI-compatible server: who may see the key, which way to it, what is tried again."""

from __future__ import annotations

import ipaddress
import json
import os
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx
from pydantic import SecretStr

from pandora_train.errors import MachineryError, UserError, first_line
from pandora_train.llm.config import LLMConfig

T = TypeVar("T")
OPENAI = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"
RETRIED = {408, 409, 425, 429}
"""Statuses below 500 that another try may cure."""
QUOTA = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
LONGEST_WAIT = 120.0
"""Most seconds that a server's ``Retry-After`` is obeyed; the question stays unfinished beyond it."""
BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""What reading a body of another shape raises."""


class Rejected(Exception):
    """The server understood the request and refused it."""

    def __init__(self, status: int, codes: frozenset[str], param: str, text: str) -> None:
        super().__init__(text)
        self.status, self.codes, self.param, self.text = status, codes, param, text

    @property
    def passing(self) -> bool:
        """Whether another try may cure it."""
        return (self.status >= 500 or self.status in RETRIED) and not self.codes & QUOTA


class Connection:
    """One server, spoken to from several threads."""

    def __init__(self, config: LLMConfig) -> None:
        self.url = server_url(config)
        self.host = httpx.URL(self.url).host
        self.where = config.base_url or "the OpenAI API"
        self._config = config
        self._key = SecretStr(_key(config, self.url))
        key = self._key.get_secret_value()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = http_client(self.url, config.timeout, headers)

    @property
    def root(self) -> str:
        """The server's address without ``/v1``: where vLLM has what is not OpenAI's."""
        return self.url.removesuffix("/v1")

    def post(self, url: str, body: dict[str, Any], read: Callable[[bytes], T]) -> T:
        """What ``read`` makes of the answer's body; :data:`BROKEN` errors in it count as a broken answer.

        Rate limits, server errors, broken answers and connections are tried again. Raises :class:`Rejected`
        for other statuses, and :class:`MachineryError` when no try brought a whole answer.
        """
        return self._ask("POST", url, json.dumps(body, default=str).encode(), read)

    def get(self, url: str, read: Callable[[bytes], T]) -> T:
        """As :meth:`post`, without a body."""
        return self._ask("GET", url, None, read)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, method: str, url: str, content: bytes | None, read: Callable[[bytes], T]) -> T:
        tries = self._config.retries + 1
        problem, wait = "", 0.0
        for done in range(tries):
            if done:
                time.sleep(wait)
            wait = self._config.pause * min(2**done, 16) * random.uniform(0.75, 1.0)
            try:
                response = self._client.request(method, url, content=content,
                                                headers={"Content-Type": "application/json"})
                if response.status_code == 200:
                    return read(response.content)
            except httpx.TimeoutException:
                problem = f"no answer within {self._config.timeout:g} s (llm.timeout)"
            except httpx.HTTPError as e:
                problem = f"cannot be reached: {self._clean(str(e)) or type(e).__name__}"
            except BROKEN as e:
                problem = f"a broken answer ({self._clean(first_line(e))})"
            else:
                rejected = self._rejected(response)
                if not rejected.passing:
                    raise rejected
                problem = f"status {rejected.status}: {rejected.text}"
                wait = max(wait, _retry_after(response))
                if wait > LONGEST_WAIT:
                    raise MachineryError(f"{self.where} asks to wait {wait:.0f} s: {problem}")
        raise MachineryError(f"{self.where} failed after {tries} tries: {problem}")

    def _rejected(self, response: httpx.Response) -> Rejected:
        try:
            body = response.json()
        except BROKEN:
            body = None
        error = body.get("error", body) if isinstance(body, dict) else None
        if not isinstance(error, dict):
            error = {"message": error} if isinstance(error, str) else {}
        text = str(error.get("message") or error.get("detail") or response.text)
        codes = frozenset(str(error[name]) for name in ("code", "type") if error.get(name) is not None)
        return Rejected(response.status_code, codes, str(error.get("param") or ""), self._clean(text))

    def _clean(self, text: str) -> str:
        """One line of a server's words, in which it may repeat our key."""
        key = self._key.get_secret_value()
        return " ".join((text.replace(key, "[key]") if key else text).split())[:400]


def http_client(url: str, timeout: float, headers: dict[str, str] | None = None) -> httpx.Client:
    """A client for ``url``; to this machine it never goes through a proxy that the environment names."""
    try:
        return httpx.Client(headers=headers, timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)),
                            limits=httpx.Limits(max_connections=None), trust_env=not is_loopback(url))
    except (ValueError, ImportError, httpx.InvalidURL) as e:
        raise UserError(f"the proxy that the environment names cannot be used: {first_line(e)}") from None


def is_loopback(url: str) -> bool:
    """Whether ``url`` is on this machine: localhost, 127.0.0.0/8 or ::1."""
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def server_url(config: LLMConfig) -> str:
    """Root of the interface, as ``https://host/v1``. Raises :class:`UserError` for what is no address."""
    text = config.base_url.rstrip("/") or OPENAI
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise UserError("llm.base_url is no address: give one such as http://127.0.0.1:8000/v1 or "
                        "http://[::1]:8000/v1")
    if url.userinfo:
        raise UserError("llm.base_url holds a password: name a key's variable in llm.api_key_env instead")
    return text


def _key(config: LLMConfig, url: str) -> str:
    """The key to send with each request, if any; see ``LLMConfig.api_key_env``."""
    host, own = httpx.URL(url).host, url.startswith("https://api.openai.com/")
    name = config.api_key_env or (OPENAI_KEY if own else "")
    if not name:
        return ""
    if name == OPENAI_KEY and not own:
        raise UserError(f"{OPENAI_KEY} goes to https://api.openai.com alone: put the key for {host} into a "
                        "variable of its own and name that in llm.api_key_env")
    if url.startswith("http://") and not is_loopback(url):
        raise UserError(f"the key in {name} would go to {host} unencrypted: use https, or leave "
                        "llm.api_key_env empty")
    key = os.environ.get(name, "").strip()
    if not key:
        raise UserError(f"no API key: set the environment variable {name}")
    if not (key.isascii() and key.isprintable()):
        raise UserError(f"the environment variable {name} holds characters that no key has")
    return key


def _retry_after(response: httpx.Response) -> float:
    """Seconds that the server asks to wait; 0 when it says nothing that is understood."""
    for header, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(response.headers[header]) / unit)
        except (KeyError, ValueError):  # missing, or a date
            continue
    return 0.0
