"""Refusals before and after a start, and the command line; vLLM itself is in test_server.py."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import save_file

from pandora_train.errors import UserError
from pandora_train.serve import ServeConfig, Server
from pandora_train.serve.checks import check_adapter, check_live, check_tokens
from pandora_train.serve.config import command, environment

KEY = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


def adapter(folder: Path, key: str = KEY, **config: Any) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 8, "bias": "none"} | config))
    save_file({key: np.zeros((8, 4), np.float32)}, folder / "adapter_model.safetensors")
    return str(folder)


@pytest.mark.parametrize(("config", "rank"), [({}, 8), ({"r": 1}, 8), ({"r": 17}, 32),
                                              ({"r": 4, "rank_pattern": {"q_proj": 64}}, 64)])
def test_rank_comes_from_the_adapter(tmp_path: Path, config: dict[str, Any], rank: int) -> None:
    assert check_adapter("a", adapter(tmp_path / "a", **config)) == rank


@pytest.mark.parametrize(("config", "says"), [
    ({"modules_to_save": ["lm_head"]}, "modules_to_save"), ({"use_dora": True}, "use_dora"),
    ({"trainable_token_indices": [1]}, "trainable_token_indices"), ({"bias": "all"}, "biases"),
    ({"peft_type": "IA3"}, "IA3"), ({"r": 1024}, "rank 1024"),
    ({"key": "base_model.model.model.embed_tokens.lora_embedding_A"}, "vocabulary")])
def test_what_vllm_cannot_serve_is_refused(tmp_path: Path, config: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        check_adapter("a", adapter(tmp_path / "a", **config))


def test_half_an_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"adapter_config\.json"):
        check_adapter("a", str(tmp_path))
    adapter(tmp_path)
    (tmp_path / "adapter_model.safetensors").unlink()
    with pytest.raises(UserError, match="whole adapter"):
        check_adapter("a", str(tmp_path))


def client(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> httpx.Client:
    def handle(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=answer(json.loads(request.content)))

    return httpx.Client(base_url="http://server", transport=httpx.MockTransport(handle))


def logprobs(shift: dict[str, float]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda request: {"prompt_logprobs": [None, {"5": {"logprob": -1.0}},
                                                {"7": {"logprob": -2.0 + shift[request["model"]]}}]}


def test_an_adapter_that_answers_as_the_base_does_is_refused() -> None:
    with pytest.raises(UserError, match="not live"):
        check_live(client(logprobs({"base": 0.0, "tuned": 1e-6})), "base", "tuned")
    assert check_live(client(logprobs({"base": 0.0, "tuned": 0.25})), "base", "tuned") == pytest.approx(0.25)


def test_the_base_models_own_noise_is_no_proof() -> None:
    draws = iter([0.0, 0.01, 0.05])
    noisy = client(lambda request: logprobs({request["model"]: next(draws)})(request))
    with pytest.raises(UserError, match="not live"):
        check_live(noisy, "base", "tuned")


def test_other_prompt_tokens_are_refused(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = {t: i for i, t in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    bpe = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe)
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    tokenizer.save_pretrained(tmp_path)
    from pandora_train.llm.tokens import ChatTokenizer
    from pandora_train.serve.checks import PROBE

    ids = ChatTokenizer(tmp_path).ids(PROBE)
    check_tokens(client(lambda _: {"tokens": ids}), "base", tmp_path)
    with pytest.raises(UserError, match="from token 3 on"):
        check_tokens(client(lambda _: {"tokens": [*ids[:3], 0, 0, *ids[5:]]}), "base", tmp_path)
    with pytest.raises(UserError, match=f"from token {len(ids) - 1} on"):
        check_tokens(client(lambda _: {"tokens": ids[:-1]}), "base", tmp_path)


def test_command_and_environment_on_a_cpu(tmp_path: Path) -> None:
    config = ServeConfig(model="m", adapters={"tuned": str(tmp_path)}, threads=1, kv_cache_gb=2, extra=["--seed=3"])
    line = command(config, tmp_path, 8000, 16, gpu=False)
    assert line[line.index("--dtype") + 1] == "float32"
    assert line[line.index("--max-lora-rank") + 1] == "16"
    assert line[line.index("--host") + 1] == "127.0.0.1"
    assert f"tuned={tmp_path}" in line
    assert line[-1] == "--seed=3"
    env = environment(config, tmp_path, gpu=False)
    assert (env["VLLM_CPU_KVCACHE_SPACE"], env["HF_HUB_OFFLINE"]) == ("2", "1")
    assert env["VLLM_CPU_OMP_THREADS_BIND"].isdigit()


def test_command_on_gpus() -> None:
    config = ServeConfig(model="m", tensor_parallel=4, data_parallel=2)
    line = command(config, "org/m", 8000, 0, gpu=True)
    assert line[line.index("--tensor-parallel-size") + 1] == "4"
    assert line[line.index("--data-parallel-size") + 1] == "2"
    assert line[line.index("--dtype") + 1] == "auto"
    assert "--enable-lora" not in line
    assert "--enforce-eager" not in line


def test_without_vllm_the_install_step_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"scripts/setup\.sh"), Server(ServeConfig(model=str(tmp_path))):
        pass


def test_a_taken_port_is_refused_before_its_owner_passes_for_our_server() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(UserError, match="choose another port"):
            Server(ServeConfig(model="m", port=other.getsockname()[1]))


def test_one_name_for_two_models_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("vllm", reason="vLLM is not installed (scripts/setup.sh)")
    config = ServeConfig(model="m", name="x", adapters={"x": adapter(tmp_path / "a")})
    with pytest.raises(UserError, match="names both"), Server(config):
        pass


def test_then_runs_commands_and_returns_their_code(monkeypatch: pytest.MonkeyPatch,
                                                   capfd: pytest.CaptureFixture[str]) -> None:
    from pandora_train.serve import server

    class Up:
        base_url = "http://here/v1"

        def __init__(self, config: ServeConfig) -> None: ...

        def __enter__(self) -> Up:
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(server, "Server", Up)
    say = f"{sys.executable} -c 'import sys; print(sys.argv[1])' url={{base_url}}"
    assert server.serve(ServeConfig(model="m"), [say]) == 0
    assert "url=http://here/v1" in capfd.readouterr().out
    assert server.serve(ServeConfig(model="m"), [f"{sys.executable} -c 'raise SystemExit(3)'", say]) == 3
    assert capfd.readouterr().out == ""
