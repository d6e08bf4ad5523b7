"""A tiny model folder (random weights, real byte-level tokenizer) and a small OpenAI-compatible server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer llama with random weights and 259 tokens: the bytes and three marks."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    bpe = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(marks + alphabet)}, merges=[]))
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                                        additional_special_tokens=["<|im_start|>"])
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=259, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, eos_token_id=2, pad_token_id=0, max_position_embeddings=2048, initializer_range=0.5))
    folder = tmp_path_factory.mktemp("tiny")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class FakeServer:
    """Answers POST requests with what ``answer(request)`` gives: (status, body as JSON or bytes)."""

    def __init__(self, answer: Callable[[dict[str, Any]], tuple[int, dict[str, Any] | bytes]]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.retry_after_ms = "5"
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(request)
                outer.headers.append(dict(self.headers))
                outer.paths.append(self.path)
                status, body = answer(request)
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("retry-after-ms", outer.retry_after_ms)
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                self.send_error(404)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[dict[str, Any]], tuple[int, dict[str, Any] | bytes]]], FakeServer]]:
    """Start fake servers; all are closed after the test."""
    started: list[FakeServer] = []

    def start(answer: Callable[[dict[str, Any]], tuple[int, dict[str, Any] | bytes]]) -> FakeServer:
        started.append(FakeServer(answer))
        return started[-1]

    yield start
    for server in started:
        server.close()


class Always:
    """A server that says what ``answer`` holds: status and body."""

    def __init__(self) -> None:
        self.answer: tuple[int, bytes] = 200, b""
        self.server = FakeServer(lambda request: self.answer)


@pytest.fixture(scope="session")
def always() -> Iterator[Always]:
    """One for a whole session, for tests that ask hundreds of times."""
    one = Always()
    yield one
    one.server.close()
