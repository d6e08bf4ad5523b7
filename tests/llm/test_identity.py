"""Who answered: weights on disk, weights that a server names, fingerprints within noise, names."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pandora_train.errors import MachineryError, UserError
from pandora_train.llm import Identity, LLMConfig, Message, ScriptedLLM, open_llm
from pandora_train.llm.identity import sha256, weights_identity
from pandora_train.records import PromptSettings
from pandora_train.runs import file_hash

ASK: list[Message] = [{"role": "user", "content": "q"}]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("PANDORA_HOME", str(folder))
    return folder


class Model:
    """Answers with log-probabilities: of prompt tokens as vLLM does, or of the reply only."""

    def __init__(self, level: float, noise: float = 0.0, measure: str = "prompt") -> None:
        self.level, self.noise, self.measure, self.random = level, noise, measure, random.Random(0)

    def __call__(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        def value(i: int) -> float:
            return -self.level - len(request["messages"][0]["content"]) / 30 - i / 10 + self.random.gauss(0, self.noise)

        choice: dict[str, Any] = {"finish_reason": "length", "message": {"content": "a"}}
        body: dict[str, Any] = {"choices": [choice]}
        if "prompt_logprobs" in request and self.measure == "prompt":
            body["prompt_logprobs"] = [None, *({str(i): {"logprob": value(i)}} for i in range(40))]
        elif "prompt_logprobs" in request and self.measure == "first":
            return 400, {"error": {"message": "Unrecognized request argument: prompt_logprobs"}}
        elif "logprobs" in request and self.measure == "first":
            choice["logprobs"] = {"content": [{"token": "a", "logprob": value(0)}]}
        return 200, body


def identity(serve: Callable[..., Any], model: Model, name: str = "m") -> Identity:
    return open_llm(LLMConfig(model=name, base_url=serve(model).base_url, retries=1, pause=0)).identity()


@pytest.mark.parametrize(("measure", "noise", "change"), [("prompt", 0.03, 0.05), ("first", 0.1, 0.5)])
def test_a_fingerprint_keeps_its_key_through_noise_and_tells_models_apart(
        serve: Callable[..., Any], measure: str, noise: float, change: float, home: Path) -> None:
    first = identity(serve, Model(1.0, noise, measure))
    assert (first.kind, first.measure, len(first.fingerprint)) == ("fingerprint", measure, 8)
    model = Model(1.0, noise, measure)
    model.random.seed(1)
    assert identity(serve, model) == first
    other = identity(serve, Model(1.0 + change, noise, measure))
    assert other.key != first.key
    assert not other.same(first)
    assert identity(serve, Model(1.0, noise, measure), "renamed").key != first.key
    lines = (home / "fingerprints.jsonl").read_text().splitlines()
    assert len(lines) == 3
    assert Identity.model_validate_json(lines[0]) == first


def test_another_machines_fingerprint_is_the_same_model(serve: Callable[..., Any], home: Path) -> None:
    first = identity(serve, Model(1.0, 0.03))
    shutil.rmtree(home)
    model = Model(1.0, 0.03)
    model.random.seed(1)
    again = identity(serve, model)
    assert again.key != first.key
    assert again.same(first)


def test_a_damaged_store_and_one_that_cannot_be_written_cost_nothing(serve: Callable[..., Any], home: Path) -> None:
    home.mkdir()
    (home / "fingerprints.jsonl").write_text('{"kind": "finger\n[]\n')
    first = identity(serve, Model(1.0))
    assert identity(serve, Model(1.0)) == first
    shutil.rmtree(home)
    home.write_text("a file")
    with pytest.warns(UserWarning, match="may not recognise"):
        assert identity(serve, Model(1.0)).same(first)


def test_without_log_probabilities_it_is_a_name_at_a_host(serve: Callable[..., Any]) -> None:
    assert identity(serve, Model(1.0, measure="none")) == Identity(kind="name", model="127.0.0.1/m")
    assert ScriptedLLM([]).identity() == Identity(kind="name", model="scripted")


def test_our_own_server_names_its_weights(fault_server: Callable[..., Any]) -> None:
    settings = PromptSettings(values="matched")
    server = fault_server({}, pandora={"name": "base", "base": "b1", "adapters": {
        "tuned": {"sha256": "a1", "prompt": settings.model_dump()}, "old": {"sha256": "a2"}}})

    def ask(name: str) -> Identity:
        return open_llm(LLMConfig(model=name, base_url=server.base_url)).identity()

    assert ask("base") == Identity(kind="weights", model="base", base_sha256="b1")
    assert ask("tuned") == Identity(kind="weights", model="tuned", base_sha256="b1", adapter_sha256="a1", prompt=settings)
    assert len({ask(name).key for name in ("base", "tuned", "old")}) == 3
    assert ask("stranger").kind == "name"
    server.pandora = {"pandora": "a page of somebody else's"}
    assert ask("tuned").kind == "name"


def test_a_server_that_is_away_or_refuses_the_key_is_no_name(serve: Callable[..., Any]) -> None:
    away = serve(lambda request: (503, {}))
    with pytest.raises(MachineryError):
        open_llm(LLMConfig(cache=False, model="m", base_url=away.base_url, retries=0)).identity()
    for status, says in ((401, "key"), (404, "does not know")):
        server = serve(lambda request, status=status: (status, {"error": {"message": "no"}}))
        with pytest.raises(UserError, match=says):
            open_llm(LLMConfig(cache=False, model="m", base_url=server.base_url, retries=0)).identity()


def test_weights_on_disk_whatever_they_are_called(tiny_model: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(b"one")
    (adapter / "prompt_settings.json").write_text(PromptSettings(types=True).model_dump_json())
    base, tuned = weights_identity("a", tiny_model), weights_identity("b", tiny_model, adapter)
    assert base.base_sha256 == tuned.base_sha256 == file_hash(tiny_model / "model.safetensors")
    assert tuned.adapter_sha256 == file_hash(adapter / "adapter_model.safetensors")
    assert tuned.prompt == PromptSettings(types=True)
    assert base.key == weights_identity("renamed", tiny_model).key != tuned.key
    (adapter / "adapter_model.safetensors").write_bytes(b"two")
    assert not weights_identity("b", tiny_model, adapter).same(tuned)
    (adapter / "prompt_settings.json").write_text('{"values": "some"}')
    with pytest.raises(UserError, match=r"prompt_settings\.json"):
        weights_identity("b", tiny_model, adapter)


def test_a_model_in_this_process_is_its_weights(tiny_model: Path) -> None:
    llm = open_llm(LLMConfig(kind="transformers", model=str(tiny_model)))
    assert llm.identity().key == weights_identity("x", tiny_model).key
    llm.close()


def test_hashes_are_remembered_until_the_file_changes(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    first = sha256(file)
    store = home / "hashes.json"
    entry = json.loads(store.read_text())[str(file)]
    store.write_text(json.dumps({str(file): [*entry[:2], "remembered"]}))
    assert sha256(file) == "remembered"
    file.write_bytes(b"longer")
    assert sha256(file) == file_hash(file) != first
    for damage in ("{", "[]", '{"x": 1}', f'{{"{file}": ["a"]}}'):
        store.write_text(damage)
        assert sha256(file) == file_hash(file)
    assert sha256(tmp_path / "missing") == ""
    shutil.rmtree(home)
    home.write_text("a file")
    assert sha256(file) == file_hash(file)
