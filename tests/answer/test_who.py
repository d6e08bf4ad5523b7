"""Who answered, and how it was asked: an adapter meets the settings it was trained with, a run one model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pandora_train.ask import AskConfig, column_names
from pandora_train.ask import answer as asked
from pandora_train.box import Schema
from pandora_train.errors import UserError
from pandora_train.evaluate.results import read_results
from pandora_train.evaluate.run import EvaluateConfig, evaluate
from pandora_train.llm import LLMConfig
from pandora_train.memory import Entry, Turn
from pandora_train.prompt import PromptConfig
from pandora_train.retrieval import RetrievalConfig
from pandora_train.runs import Run, append_line
from pandora_train.sources import DataConfig
from pandora_train.systems.pandora import AgentConfig

QUESTION = "How many towns?"
REPLY = "1. Count.\n```python\nresult = [[len(towns)]]\n```"
MATCHED = PromptConfig(values="matched")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PANDORA_HOME", str(tmp_path / "home"))


@pytest.fixture
def towns(tmp_path: Path) -> Path:
    (tmp_path / "towns.csv").write_text("name,size\nA,3\nB,5\n")
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(
        {"id": n, "question": QUESTION, "knowledge": "towns.csv", "answers": ["2"]}) + "\n" for n in range(3)))
    return tmp_path


def weights(adapter: str, settings: PromptConfig = MATCHED) -> dict[str, Any]:
    """What our own server says of itself."""
    return {"name": "base", "base": "b" * 64,
            "adapters": {"student": {"sha256": adapter * 64, "prompt": settings.settings().model_dump()}}}


def evaluation(towns: Path, url: str, prompt: PromptConfig = MATCHED, **fields: Any) -> EvaluateConfig:
    return EvaluateConfig(data=[DataConfig(benchmark="files", path=str(towns / "questions.jsonl"))], workers=1,
                          llm=LLMConfig(model="student", base_url=url), agent=AgentConfig(prompt=prompt), **fields)


def test_an_adapter_trained_with_values_and_asked_without(towns: Path, fault_server: Callable[..., Any]) -> None:
    server = fault_server({QUESTION: REPLY}, pandora=weights("a"))
    plain = evaluation(towns, server.base_url, PromptConfig())
    with pytest.raises(UserError, match=r"agent\.prompt\.values=matched \(here none\)"):
        evaluate(plain, Run("evaluate", "t", plain, towns / "refused"))
    with pytest.raises(UserError, match=r"agent\.prompt\.values=matched"):
        asked(AskConfig(llm=plain.llm), QUESTION, str(towns / "towns.csv"), ())
    assert not server.calls
    meant = plain.model_copy(update={"other_settings": True})
    assert evaluate(meant, Run("evaluate", "t", meant, towns / "meant")).complete
    fits = evaluation(towns, server.base_url)
    results = evaluate(fits, Run("evaluate", "t", fits, towns / "fits"))
    assert results.prompt == MATCHED.settings()
    assert results.identity is not None
    assert results.identity.adapter_sha256 == "a" * 64
    assert results == read_results(towns / "fits" / "results.json")


def test_an_adapter_exchanged_under_the_same_name_is_not_taken_for_the_old_one(
        towns: Path, fault_server: Callable[..., Any]) -> None:
    first = fault_server({QUESTION: REPLY}, pandora=weights("a"), faults={QUESTION: "500"})
    config = evaluation(towns, first.base_url).model_copy(update={
        "llm": LLMConfig(model="student", base_url=first.base_url, retries=0)})
    assert not evaluate(config, Run("evaluate", "t", config, towns / "run")).complete
    other = fault_server({QUESTION: REPLY}, pandora=weights("c"))
    moved = config.model_copy(update={"llm": config.llm.model_copy(update={"base_url": other.base_url})})
    with pytest.raises(UserError, match="answers changed since"):
        evaluate(moved, Run("evaluate", "t", moved, towns / "run", resume=True))
    assert not other.calls
    same = fault_server({QUESTION: REPLY}, pandora=weights("a"))
    back = config.model_copy(update={"llm": config.llm.model_copy(update={"base_url": same.base_url})})
    assert evaluate(back, Run("evaluate", "t", back, towns / "run", resume=True)).complete


def test_a_reply_of_one_adapter_is_never_anothers(towns: Path, fault_server: Callable[..., Any]) -> None:
    for adapter, calls in (("a", 1), ("a", 0), ("c", 1)):
        server = fault_server({QUESTION: REPLY}, pandora=weights(adapter))
        config = evaluation(towns, server.base_url)
        evaluate(config, Run("evaluate", "t", config, towns / f"run-{adapter}-{calls}"))
        assert len(server.calls) == calls  # three questions with one prompt: one call, once and for all


def test_a_memory_of_other_settings_or_an_exchanged_one(towns: Path, fault_server: Callable[..., Any]) -> None:
    def memory(code: str) -> None:
        (towns / "memory.jsonl").unlink(missing_ok=True)
        append_line(towns / "memory.jsonl", Entry(
            id="m", benchmark="spider", group="g", question="How many lakes are there?", boxes=Schema(boxes=()),
            turns=(Turn(reasoning="1. a", code=code),), settings=MATCHED.settings()).model_dump_json())

    memory("result = 1")
    shown = {"retrieval": RetrievalConfig(memory=str(towns / "memory.jsonl"), k=1)}
    server = fault_server({QUESTION: REPLY}, pandora=weights("a"), faults={QUESTION: "500"})
    plain = evaluation(towns, server.base_url, PromptConfig(), **shown)
    with pytest.raises(UserError, match=r"the memory was annotated .* agent\.prompt\.values=matched"):
        evaluate(plain, Run("evaluate", "t", plain, towns / "refused"))
    config = evaluation(towns, server.base_url, **shown)
    config = config.model_copy(update={"llm": config.llm.model_copy(update={"retries": 0})})
    evaluate(config, Run("evaluate", "t", config, towns / "run"))
    memory("result = 2")
    with pytest.raises(UserError, match="memory changed since"):
        evaluate(config, Run("evaluate", "t", config, towns / "run", resume=True))


@pytest.mark.parametrize(("code", "width", "names"), [
    ("result = t[['a', 'b']].values.tolist()", 2, ["a", "b"]),
    ("x = t[t['c'] > 1]\nresult = x['a'].unique().tolist()", 1, ["a"]),
    ("found = t[['a', 'b']]\nfound = found.head(3)\nresult = found.values.tolist()", 2, ["a", "b"]),
    ("result = [[len(t)]]", 1, []), ("result = t.values.tolist()", 3, []), ("not python", 1, [])])
def test_ask_names_the_columns_that_the_code_spells(code: str, width: int, names: list[str]) -> None:
    assert column_names(code, width) == names
