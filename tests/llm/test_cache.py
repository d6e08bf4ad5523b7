"""The call cache: on disk before use, shared between objects, blind to nothing that decides a reply."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pandora_train.llm import LLMConfig, Message, ScriptedLLM, open_llm
from pandora_train.llm.cache import CachedLLM

ASK: list[Message] = [{"role": "user", "content": "q"}]
CONFIG = LLMConfig(model="gpt/4:x", base_url="https://api.example.org/v1")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PANDORA_HOME", str(tmp_path))


def counting() -> tuple[ScriptedLLM, list[str]]:
    asked: list[str] = []

    def answer(messages: list[Message], sample: int) -> str:
        asked.append(messages[-1]["content"])
        return f"reply {len(asked)}"

    return ScriptedLLM(answer), asked


def test_a_rerun_repeats_no_call_and_keeps_usage() -> None:
    llm, asked = counting()
    first = CachedLLM(llm, CONFIG).chat(ASK)
    again = CachedLLM(llm, CONFIG)
    assert again.chat(ASK) == first
    assert (len(asked), again.hits, first.usage.calls) == (1, 1, 1)


def test_what_decides_a_reply_is_in_the_key() -> None:
    llm, asked = counting()
    CachedLLM(llm, CONFIG).chat(ASK)
    CachedLLM(llm, CONFIG).chat(ASK, sample=1)
    for change in ({"temperature": 0.5}, {"max_tokens": 9}, {"model": "b"}, {"base_url": "https://b.org"},
                   {"extra_body": {"seed": 1}}):
        CachedLLM(llm, CONFIG.model_copy(update=change)).chat(ASK)
    CachedLLM(llm, CONFIG).chat([{"role": "system", "content": "q"}])
    assert len(asked) == 8
    CachedLLM(llm, CONFIG.model_copy(update={"price_in": 3.0, "timeout": 1.0})).chat(ASK)
    assert len(asked) == 8


def test_a_damaged_file_is_asked_for_again(tmp_path: Path) -> None:
    llm, asked = counting()
    CachedLLM(llm, CONFIG).chat(ASK)
    file = next(tmp_path.rglob("calls/**/*.json"))
    assert json.loads(file.read_text())["request"]["messages"] == ASK
    file.write_text('{"reply"')
    CachedLLM(llm, CONFIG).chat(ASK)
    assert len(asked) == 2


def test_equal_calls_at_the_same_time_are_made_once() -> None:
    gate = threading.Barrier(2, timeout=5)
    asked: list[int] = []

    def answer(messages: list[Message], sample: int) -> str:
        asked.append(sample)
        return "r"

    llm = CachedLLM(ScriptedLLM(answer), CONFIG)

    def ask() -> str:
        gate.wait()
        return llm.chat(ASK).text

    with ThreadPoolExecutor(2) as pool:
        assert [f.result() for f in [pool.submit(ask), pool.submit(ask)]] == ["r", "r"]
    assert len(asked) == 1


@pytest.mark.parametrize(("url", "cache", "cached"), [
    ("https://api.example.org/v1", None, True), ("", None, True), ("http://127.0.0.1:1/v1", None, False),
    ("https://api.example.org/v1", False, False), ("http://127.0.0.1:1/v1", True, True)])
def test_on_by_default_where_a_call_costs_money(monkeypatch: pytest.MonkeyPatch, url: str, cache: bool | None,
                                                cached: bool) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    llm = open_llm(LLMConfig(model="m", base_url=url, cache=cache))
    assert isinstance(llm, CachedLLM) is cached


def test_no_key_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, serve: Callable[..., Any]) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "usage": None,
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "a"}}]}
    server = serve(lambda request: (200, body))
    open_llm(LLMConfig(model="m", base_url=server.base_url, cache=True)).chat(ASK)
    texts = [f.read_text() for f in tmp_path.rglob("*.json")]
    assert len(texts) == 1
    assert "sk-secret" not in texts[0]
