"""Who sees a key, and which way requests take."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pandora_train.config import dump
from pandora_train.errors import UserError
from pandora_train.llm import LLMConfig, Message, open_llm
from pandora_train.llm.connect import is_loopback

ASK: list[Message] = [{"role": "user", "content": "q"}]
SECRET = "sk-planted-0123456789"
BODY = {"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "a"}}]}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PANDORA_HOME", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_the_key_of_openai_goes_to_openai_alone(monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Any]) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.example/v1")  # read by OpenAI's own client
    server = serve(lambda request: (200, BODY))
    open_llm(LLMConfig(cache=False, model="m", base_url=server.base_url)).chat(ASK)
    assert SECRET not in json.dumps(server.headers)
    with pytest.raises(UserError, match="alone"):
        open_llm(LLMConfig(cache=False, model="m", base_url=server.base_url, api_key_env="OPENAI_API_KEY"))
    own = open_llm(LLMConfig(model="m", cache=False))
    assert own.connection.url == "https://api.openai.com/v1"  # type: ignore[attr-defined]
    assert own.connection._client.headers["authorization"] == f"Bearer {SECRET}"  # type: ignore[attr-defined]
    for lookalike in ("https://api.openai.com.example.org/v1", "https://api.openai.community/v1"):
        plain = open_llm(LLMConfig(cache=False, model="m", base_url=lookalike))
        assert "authorization" not in plain.connection._client.headers  # type: ignore[attr-defined]


def test_a_key_of_ones_own_goes_to_its_host_and_never_in_the_clear(monkeypatch: pytest.MonkeyPatch,
                                                                   serve: Callable[..., Any]) -> None:
    server = serve(lambda request: (200, BODY))
    with pytest.raises(UserError, match="set the environment variable MY_KEY"):
        open_llm(LLMConfig(cache=False, model="m", base_url=server.base_url, api_key_env="MY_KEY"))
    monkeypatch.setenv("MY_KEY", f" {SECRET}\n")
    open_llm(LLMConfig(cache=False, model="m", base_url=server.base_url, api_key_env="MY_KEY")).chat(ASK)
    assert server.headers[0]["Authorization"] == f"Bearer {SECRET}"
    for url in ("http://10.0.0.7:8000/v1", "http://gpu7/v1", "http://127.0.0.1.example.org/v1", "http://0.0.0.0:80/v1"):
        with pytest.raises(UserError, match="unencrypted"):
            open_llm(LLMConfig(cache=False, model="m", base_url=url, api_key_env="MY_KEY"))
    monkeypatch.setenv("MY_KEY", "schlüssel\n2")
    with pytest.raises(UserError, match="characters") as caught:
        open_llm(LLMConfig(cache=False, model="m", base_url=server.base_url, api_key_env="MY_KEY"))
    assert "schl" not in str(caught.value)


def test_a_redirect_takes_no_key_along(monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Any]) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    server = serve(lambda request: (307, b""))
    with pytest.raises(UserError, match="redirects"):
        open_llm(LLMConfig(cache=False, model="m", base_url=server.base_url, api_key_env="MY_KEY")).chat(ASK)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [200, 400, 401, 404, 500])
def test_a_planted_key_is_in_no_message_file_or_repr(monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Any],
                                                     tmp_path: Path, status: int) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    echo = {"error": {"message": f"the header Bearer {SECRET} is wrong", "code": SECRET}}
    server = serve(lambda request: (status, BODY if status == 200 else echo))
    config = LLMConfig(model="m", base_url=server.base_url, api_key_env="MY_KEY", cache=True, retries=1, pause=0)
    llm = open_llm(config)
    shown = [dump(config), repr(config), repr(llm.__dict__)]
    inner = llm._llm  # type: ignore[attr-defined]
    shown += [repr(inner.__dict__), repr(inner.connection.__dict__), repr(inner.connection._client.headers)]
    try:
        shown.append(llm.chat(ASK).model_dump_json())
        shown.append(llm.identity().model_dump_json())
    except Exception:
        shown.append(traceback.format_exc())
    shown += [f.read_text() for f in tmp_path.rglob("*") if f.is_file()]
    assert not [text for text in shown if SECRET in text]


@pytest.mark.parametrize("url", ["127.0.0.1:8000/v1", "ftp://host/v1", "http://", "http://[::1/v1", "https://user:pw@host/v1"])
def test_what_is_no_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UserError, match=r"llm\.base_url") as caught:
        open_llm(LLMConfig(cache=False, model="m", base_url=url))
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(("url", "here"), [
    ("http://127.0.0.1:8000/v1", True), ("http://127.8.9.1/v1", True), ("http://[::1]:8000/v1", True),
    ("http://localhost:1/v1", True), ("http://LOCALHOST/v1", True), ("http://10.0.0.1/v1", False),
    ("http://127.0.0.1.example.org/v1", False), ("https://api.openai.com/v1", False), ("http://[2001:db8::1]/v1", False)])
def test_what_this_machine_is(url: str, here: bool) -> None:
    assert is_loopback(url) is here


def test_this_machine_is_not_reached_through_a_proxy_and_others_are(monkeypatch: pytest.MonkeyPatch,
                                                                   serve: Callable[..., Any]) -> None:
    proxy, server = serve(lambda request: (200, BODY)), serve(lambda request: (200, BODY))
    monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
    open_llm(LLMConfig(cache=False, model="m", base_url=server.base_url)).chat(ASK)
    assert (len(server.requests), len(proxy.requests)) == (1, 0)
    open_llm(LLMConfig(cache=False, model="m", base_url="http://models.example/v1")).chat(ASK)
    assert proxy.paths == ["http://models.example/v1/chat/completions"]


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "nonsense://x")
    with pytest.raises(UserError, match="proxy"):
        open_llm(LLMConfig(cache=False, model="m", base_url="http://models.example/v1"))


def test_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            data = json.dumps(BODY).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    class Server6(HTTPServer):
        address_family = socket.AF_INET6

    try:
        server = Server6(("::1", 0), Handler)
    except OSError:
        pytest.skip("this machine has no IPv6")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        assert open_llm(LLMConfig(cache=False, model="m", base_url=f"http://[::1]:{server.server_address[1]}/v1")).chat(ASK).text == "a"
    finally:
        server.shutdown()
        server.server_close()
