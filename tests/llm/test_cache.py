"""The call cache: on disk before use, shared between objects, blind to nothing that decides a reply."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
    for change in ({"temperature": 0.5}, {"max_tokens": 9}, {"model": "b"}, {"extra_body": {"seed": 1}}):
        CachedLLM(llm, CONFIG.model_copy(update=change)).chat(ASK)
    CachedLLM(llm, CONFIG).chat([{"role": "system", "content": "q"}])
    other = ScriptedLLM(lambda messages, sample: asked.append("other") or "reply", name="another")
    CachedLLM(other, CONFIG).chat(ASK)
    assert len(asked) == 8
    for same in ({"price_in": 3.0, "timeout": 1.0}, {"base_url": "https://api.example.org:8001/v1"}):
        CachedLLM(llm, CONFIG.model_copy(update=same)).chat(ASK)
    assert len(asked) == 8


@pytest.mark.parametrize("damage", ['{"reply"', "[]", '{"reply": {"finish": "no"}}', '{"reply": 5}', "\xff"])
def test_a_damaged_file_is_asked_for_again(tmp_path: Path, damage: str) -> None:
    llm, asked = counting()
    CachedLLM(llm, CONFIG).chat(ASK)
    file = next(tmp_path.rglob("calls/**/*.json"))
    assert json.loads(file.read_text())["request"]["messages"] == ASK
    file.write_bytes(damage.encode("latin-1"))
    assert CachedLLM(llm, CONFIG).chat(ASK).text == "reply 2"
    assert CachedLLM(llm, CONFIG).chat(ASK).text == "reply 2"
    assert len(asked) == 2


@pytest.mark.parametrize("blocked", ["calls", "calls/gpt_4_x"])
def test_a_disk_that_cannot_be_written_loses_no_reply(tmp_path: Path, blocked: str) -> None:
    (tmp_path / blocked).parent.mkdir(exist_ok=True)
    (tmp_path / blocked).write_text("a file where a folder should be")
    llm = CachedLLM(counting()[0], CONFIG)
    with pytest.warns(UserWarning, match="replies are not kept") as warned:
        assert [llm.chat([{"role": "user", "content": q}]).text for q in "abc"] == ["reply 1", "reply 2", "reply 3"]
    assert len(warned) == 1


def test_equal_calls_at_the_same_time_are_made_once() -> None:
    gate = threading.Barrier(2, timeout=60)
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
    ("https://api.example.org/v1", None, True), ("", None, True), ("http://127.0.0.1:1/v1", None, True),
    ("https://api.example.org/v1", False, False), ("http://127.0.0.1:1/v1", True, True)])
def test_on_by_default_for_servers(monkeypatch: pytest.MonkeyPatch, url: str, cache: bool | None,
                                                cached: bool) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    llm = open_llm(LLMConfig(model="m", base_url=url, cache=cache))
    assert isinstance(llm, CachedLLM) is cached
