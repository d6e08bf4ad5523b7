"""A server that has what vLLM has and ours needs: token ids, models with their bases, log-probabilities."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


class VllmDouble:
    """Base model ``base`` and adapter ``tuned``. What a test changes are its attributes."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.gain: dict[str, float] = {"tuned": 0.5}
        """Added to each log-probability of an assistant's words, by model."""
        self.shift: dict[str, float] = {}
        """Added to the log-probability of each prompt's second token, by model."""
        self.penalty = 1.0
        """The server's own default."""
        self.missing: set[str] = set()
        """Paths and fields that it does not have."""
        self.pandora: dict[str, Any] | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = {"/v1/models": {"data": [{"id": "base"}, {"id": "tuned", "parent": "base"}]},
                         "/pandora": outer.pandora}
                self.answer(known.get(self.path))

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                wanting = outer.missing & {self.path, *request}
                self.answer(None if wanting else outer.answer(self.path, request), 404 if self.path in wanting else 400)

            def answer(self, body: Any, status: int = 404) -> None:
                data = json.dumps(body or {"error": {"message": "no such thing"}}).encode()
                self.send_response(200 if body else status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def ids(self, request: dict[str, Any]) -> list[int]:
        return list(self.tokenizer.apply_chat_template(request["messages"], return_dict=False,
                                                       add_generation_prompt=request.get("add_generation_prompt", True),
                                                       continue_final_message=request.get("continue_final_message", False)))

    def answer(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        if path == "/tokenize":
            return {"tokens": self.ids(request)}
        penalty = request.get("repetition_penalty", self.penalty)
        text = "a river, " + ("and a river" if penalty == 1.0 else "then the sea")
        body: dict[str, Any] = {"choices": [{"finish_reason": "length", "message": {"content": text}}]}
        if "prompt_logprobs" in request:
            ids, model = self.ids(request), request["model"]
            spoken = request["messages"][-1]["role"] == "assistant"
            values = [-1.0 - i % 7 / 10 + (self.gain.get(model, 0.0) if spoken else 0.0) for i in range(len(ids))]
            values[1] += self.shift.get(model, 0.0)
            body["prompt_logprobs"] = [None, *({str(i): {"logprob": v}} for i, v in zip(ids[1:], values[1:], strict=True))]
        return body


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Byte-level, one token a byte, with a plain chat template."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = {t: i for i, t in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    bpe = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe)
    tokenizer.chat_template = ("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
                               "{% if add_generation_prompt %}assistant: {% endif %}")
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def vllm_double(tokenizer_folder: Path) -> Iterator[VllmDouble]:
    """One, for one test."""
    from transformers import AutoTokenizer

    double = VllmDouble(AutoTokenizer.from_pretrained(tokenizer_folder))
    yield double
    double.http.shutdown()
    double.http.server_close()


