"""Refusals before a start, the command line and what it says of itself; vLLM itself is in test_server.py."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from transformers import AutoTokenizer

from pandora_train.errors import UserError
from pandora_train.llm.fingerprint import ServedAdapter, ServedWeights
from pandora_train.records import PromptSettings
from pandora_train.runs import file_hash
from pandora_train.serve import ServeConfig, Server
from pandora_train.serve.config import command, environment
from pandora_train.serve.identity import VARIABLE, IdentityMiddleware, served
from pandora_train.serve.servable import check_adapter, check_end

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


def test_a_model_that_would_run_on_after_its_turn_is_refused(tokenizer_folder: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    check_end(tokenizer_folder)  # its turns end with no special token
    tokenizer.add_special_tokens({"eos_token": "<|end|>", "additional_special_tokens": ["<|turn|>"]})
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}<|turn|>\n{% endfor %}"
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"<\|turn\|>, at which vLLM would not stop"):
        check_end(tmp_path)
    turn = tokenizer.convert_tokens_to_ids("<|turn|>")
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, turn]}))
    check_end(tmp_path)


def test_half_an_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"adapter_config\.json"):
        check_adapter("a", str(tmp_path))
    adapter(tmp_path)
    (tmp_path / "adapter_model.safetensors").unlink()
    with pytest.raises(UserError, match="whole adapter"):
        check_adapter("a", str(tmp_path))


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


def test_hosts_in_addresses() -> None:
    pairs = {"127.0.0.1": "127.0.0.1", "0.0.0.0": "127.0.0.1", "localhost": "localhost"}
    if socket.has_ipv6 and Path("/proc/net/if_inet6").exists():
        pairs |= {"::1": "[::1]", "::": "[::1]"}
    for host, shown in pairs.items():
        assert re.fullmatch(rf"http://{re.escape(shown)}:\d+/v1", Server(ServeConfig(model="m", host=host)).base_url)


def test_our_server_says_which_weights_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PANDORA_HOME", str(tmp_path / "home"))
    model = tmp_path / "model"
    model.mkdir()
    save_file({"w": np.zeros(3, np.float32)}, model / "model.safetensors")
    folder = Path(adapter(tmp_path / "a"))
    (folder / "prompt_settings.json").write_text(PromptSettings(types=True).model_dump_json())
    weights = served(ServeConfig(model="m", adapters={"tuned": str(folder)}), model)
    assert weights.base == file_hash(model / "model.safetensors")
    assert weights.adapters["tuned"] == ServedAdapter(sha256=file_hash(folder / "adapter_model.safetensors"),
                                                      prompt=PromptSettings(types=True))
    monkeypatch.setenv(VARIABLE, weights.model_dump_json())
    assert ServedWeights.model_validate_json(call(IdentityMiddleware(other), "/pandora")) == weights
    assert call(IdentityMiddleware(other), "/health") == b"other"
    assert call(IdentityMiddleware(other), "/pandora", "POST") == b"other"


async def other(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.body", "body": b"other"})


def call(app: Any, path: str, method: str = "GET") -> bytes:
    """The body of one request to an ASGI app."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any: ...

    asyncio.run(app({"type": "http", "path": path, "method": method}, receive, send))
    return bytes(sent[-1]["body"])


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
