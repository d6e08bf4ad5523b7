"""Proofs about servers that somebody else started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pandora_train.cli import app
from pandora_train.errors import UserError
from pandora_train.llm import LLMConfig
from pandora_train.serve import check_server, prove

ROWS = [{"messages": [{"role": "user", "content": "How many cities?"}], "completion": "result = len(city)"},
        {"messages": [{"role": "user", "content": "Largest?"}], "completion": "result = city['name'].max()"}]


def config(double: Any, tokenizer: Path | str = "", model: str = "tuned", **fields: Any) -> LLMConfig:
    return LLMConfig(model=model, base_url=double.base_url, tokenizer=str(tokenizer), retries=0, pause=0, **fields)


def adapter(folder: Path, rows: list[dict[str, Any]] | None = None) -> Path:
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(b"weights")
    if rows is not None:
        (folder / "probes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def states(double: Any, tokenizer: Path | str = "", folder: Path | str = "", **fields: Any) -> list[str]:
    return [proof.state for proof in check_server(config(double, tokenizer, **fields), folder)]


def test_a_server_as_it_should_be(vllm_double: Any, tokenizer_folder: Path, tmp_path: Path) -> None:
    assert states(vllm_double, tokenizer_folder, adapter(tmp_path / "a", ROWS)) == ["proved"] * 3
    assert prove(config(vllm_double, tokenizer_folder))[0].state == "proved"


def test_other_prompt_tokens(vllm_double: Any, tokenizer_folder: Path) -> None:
    template = vllm_double.tokenizer.chat_template
    vllm_double.tokenizer.chat_template = template.replace(": ", "; ", 1)
    with pytest.raises(UserError, match="prompts differ from token 6 on"):
        prove(config(vllm_double, tokenizer_folder))
    vllm_double.tokenizer.chat_template = template.replace("assistant: ", "")
    assert states(vllm_double, tokenizer_folder)[0] == "refuted"


def test_a_penalty_of_the_models_folder(vllm_double: Any, tokenizer_folder: Path) -> None:
    vllm_double.penalty = 1.1
    with pytest.raises(UserError, match="--generation-config vllm"):
        prove(config(vllm_double, tokenizer_folder))
    assert states(vllm_double, tokenizer_folder, extra_body={"repetition_penalty": 1.0}) == ["proved", "proved"]


def test_replies_that_show_no_penalty_or_vary_prove_nothing(vllm_double: Any) -> None:
    answer = vllm_double.answer
    vllm_double.answer = lambda path, request: answer(path, request | {"repetition_penalty": 1.0})
    assert states(vllm_double) == ["untested", "untested"]
    turns = iter(range(1000))
    vllm_double.answer = lambda path, request: {"choices": [{"message": {"content": str(next(turns))}}]}
    assert states(vllm_double) == ["untested", "untested"]


@pytest.mark.parametrize(("gain", "state"), [(0.3, "proved"), (0.001, "refuted"), (-0.4, "refuted")])
def test_an_adapter_finds_its_own_rows_likelier(vllm_double: Any, tmp_path: Path, gain: float, state: str) -> None:
    vllm_double.gain["tuned"] = gain
    vllm_double.shift["tuned"] = 0.7  # it does differ from the base
    assert states(vllm_double, folder=adapter(tmp_path / "a", ROWS))[-1] == state


@pytest.mark.parametrize(("shift", "state"), [(0.25, "proved"), (1e-6, "refuted")])
def test_without_rows_it_must_differ(vllm_double: Any, tmp_path: Path, shift: float, state: str) -> None:
    vllm_double.shift["tuned"] = shift
    assert states(vllm_double, folder=adapter(tmp_path / "a"))[-1] == state


def test_the_bases_own_noise_is_no_proof(vllm_double: Any, tmp_path: Path) -> None:
    draws = iter([0.0, 0.01, 0.05])
    answer = vllm_double.answer

    def noisy(path: str, request: dict[str, Any]) -> dict[str, Any]:
        if "prompt_logprobs" in request:
            vllm_double.shift[request["model"]] = next(draws)
        return dict(answer(path, request))

    vllm_double.answer = noisy
    assert states(vllm_double, folder=adapter(tmp_path / "a"))[-1] == "refuted"


def test_a_provider_without_these_paths_passes_with_notes(vllm_double: Any, tokenizer_folder: Path, tmp_path: Path) -> None:
    vllm_double.missing = {"/tokenize", "repetition_penalty", "prompt_logprobs"}
    assert states(vllm_double, tokenizer_folder, adapter(tmp_path / "a", ROWS)) == ["untested"] * 3
    assert [proof.state for proof in prove(config(vllm_double))] == ["untested"] * 2
    assert prove(LLMConfig(model="gpt")) == prove(LLMConfig(kind="scripted")) == []


def test_our_own_server_is_not_asked_again_and_names_other_weights(vllm_double: Any, tmp_path: Path) -> None:
    folder = adapter(tmp_path / "a", ROWS)
    vllm_double.pandora = {"name": "base", "base": "b", "adapters": {"tuned": {"sha256": "other"}}}
    vllm_double.penalty = 1.1
    assert [proof.detail for proof in prove(config(vllm_double))] == ["by pandora serve, at its start"]
    assert [p.name for p in check_server(config(vllm_double), folder) if p.state == "refuted"] == [
        "generation defaults", "adapter weights"]


def test_damaged_rows_are_named(vllm_double: Any, tmp_path: Path) -> None:
    for rows in ([{"messages": []}], [{"messages": ROWS[0]["messages"], "completion": ""}]):
        folder = adapter(tmp_path / str(len(str(rows))), rows)
        with pytest.raises(UserError, match=r"probes\.jsonl"):
            check_server(config(vllm_double), folder)


def test_the_command(vllm_double: Any, tokenizer_folder: Path, tmp_path: Path) -> None:
    line = ["check", vllm_double.base_url, "--tokenizer", str(tokenizer_folder), "--adapter", str(adapter(tmp_path / "a", ROWS))]
    done = CliRunner().invoke(app, [*line, "--model", "tuned"])
    assert done.exit_code == 0, done.output
    assert done.output.count("proved") == 3
    with pytest.raises(UserError, match="base, tuned"):
        CliRunner().invoke(app, line, catch_exceptions=False)
    vllm_double.gain["tuned"] = 0.0
    done = CliRunner().invoke(app, [*line, "--model", "tuned"])
    assert done.exit_code == 1
    assert "refuted" in done.output
