"""An OpenAI-compatible server that fails as servers do: the fault is chosen by the question.

In a test: ``with FaultServer({"How many singers?": "two"}) as server`` (or the fixture ``fault_server``).
Alone: ``python tests/faults/server.py --answers ANSWERS.json --port-file PORT --log LOG.jsonl``, where
ANSWERS.json maps questions to replies. A request belongs to the question that stands last in its messages.

A question's fault is the one it names itself, ``[fault:html]``, else ``faults[question]``, else one of
``spread`` by the question's hash, for the part ``share`` of the questions. A name followed by ``-once`` strikes
only at the first request of each conversation. The log says of every answer which question it was, its key
(equal for equal conversations), its fault, and whether a complete reply was written: a call is repeated in
vain exactly when its key stands after a line with its key that says so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Messages = list[dict[str, str]]
BROKEN = ("truncated", "cut json", "wrong shape", "html", "empty choices", "null choices", "dropped", "500", "429",
          "slow", "strange 400")
"""Faults without a complete reply: with retries used up, the question stays unfinished."""
ENDINGS = ("null content", "refusal", "content_filter", "400 content_filter", "too long")
"""What ends a question: a cut reply, a refusal, a prompt that does not fit."""
SLOW_SECONDS = 2.0


def chat_completion(text: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "m",
            "choices": [{"index": 0, "finish_reason": finish,
                         "message": {"role": "assistant", "content": text, **message}}],
            "usage": {"prompt_tokens": 40, "completion_tokens": 20, "total_tokens": 60}}


def error(message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, "param": param}}


class FaultServer:
    """See the module. ``answers``: question to reply, or a function of the messages."""

    def __init__(self, answers: Mapping[str, str] | Callable[[Messages], str], log: Path | None = None,
                 faults: Mapping[str, str] | None = None, spread: Sequence[str] = (), share: float = 1.0,
                 pandora: dict[str, Any] | None = None) -> None:
        self.answers, self.faults, self.spread, self.share = answers, dict(faults or {}), tuple(spread), share
        self.pandora = pandora
        """What ``GET /pandora`` says; 404 without."""
        self.calls: list[dict[str, Any]] = []
        """The log, in the order in which requests ended; with their bodies and headers."""
        self._log, self._lock, self._met = log, threading.Lock(), Counter[str]()
        outer = self

        class Handler(_Handler):
            server_of = outer

        self._http = _Http(("127.0.0.1", 0), Handler)
        self.port = int(self._http.server_address[1])
        self.base_url = f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> FaultServer:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def serve_forever(self) -> None:
        self._http.serve_forever()

    def question(self, messages: Messages) -> str:
        """The known question that begins last in the conversation; with a function, the last user turn."""
        if callable(self.answers):
            return next((m["content"] for m in reversed(messages) if m["role"] == "user"), "")
        text = "\n".join(m["content"] for m in messages if m["role"] == "user")
        return max(self.answers, key=lambda q: (text.rfind(q), len(q)) if q in text else (-1, 0), default="")

    def fault(self, question: str, key: str) -> str:
        """The fault of this request; empty for none."""
        named = re.search(r"\[fault:([\w -]+)\]", question)
        name = named[1] if named else self.faults.get(question, "")
        if not name and self.spread:
            digest = int(hashlib.sha256(question.encode()).hexdigest(), 16)
            chosen = (digest // 1000) % 1000 < 1000 * self.share
            name = self.spread[digest % len(self.spread)] if chosen else ""
        with self._lock:
            self._met[key] += 1
            first = self._met[key] == 1
        plain = name.removesuffix("-once")
        if plain and plain not in BROKEN + ENDINGS:
            raise ValueError(f"unknown fault {plain}")
        return plain if first or plain == name else ""

    def reply(self, messages: Messages, question: str) -> str:
        return self.answers(messages) if callable(self.answers) else self.answers[question]

    def note(self, **call: Any) -> None:
        with self._lock:
            self.calls.append(call)
            if self._log:
                line = {k: v for k, v in call.items() if k not in ("request", "headers")}
                with self._log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # many workers connect at once

    def handle_error(self, *_: object) -> None:
        """A client that went away is no news here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: FaultServer

    def do_GET(self) -> None:
        known = self.server_of.pandora if self.path == "/pandora" else None
        self.send(404 if known is None else 200, known or error("not found"))

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.endswith("/chat/completions"):
            self.send(404, error("not found"))
            return
        if "prompt_logprobs" in request or "logprobs" in request:  # as most providers
            self.send(400, error("Unrecognized request argument supplied: logprobs"))
            return
        server, messages = self.server_of, request["messages"]
        question = server.question(messages)
        key = hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:16]
        fault = server.fault(question, key)
        call = {"key": key, "question": question, "fault": fault, "request": request, "headers": dict(self.headers)}
        if fault == "slow":
            time.sleep(SLOW_SECONDS)
        if fault == "dropped":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            self.close_connection = True
            server.note(**call, complete=False)
            return
        plain = chat_completion(server.reply(messages, question)) if fault not in _PLAIN else ""
        status, body, headers = _PLAIN.get(fault, (200, plain, {}))
        complete = fault in ("", "slow", *ENDINGS)
        try:
            self.send(status, body, headers, 0.5 if fault == "truncated" else 1.0,
                      lambda: server.note(**call, complete=complete))
        except OSError:  # the client went away
            self.close_connection = True

    def send(self, status: int, body: dict[str, Any] | str, headers: Mapping[str, str] | None = None,
             part: float = 1.0, note: Callable[[], None] = lambda: None) -> None:
        """Send ``part`` of an answer; ``note`` it before its last byte, so that no client is ahead of the log."""
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        data = data[: int(part * len(data))]
        self.wfile.write(data[:-1])
        note()
        self.wfile.write(data[-1:])
        self.wfile.flush()
        self.close_connection |= part < 1

    def log_message(self, *_: object) -> None:
        pass


_PLAIN: dict[str, tuple[int, dict[str, Any] | str, dict[str, str]]] = {
    "cut json": (200, json.dumps(chat_completion("half a"))[:-40], {}),
    "wrong shape": (200, {"choices": [{"message": "text"}]}, {}),
    "html": (200, "<html><body>Bad gateway</body></html>", {}),
    "empty choices": (200, chat_completion("") | {"choices": []}, {}),
    "null choices": (200, chat_completion("") | {"choices": None}, {}),
    "500": (500, error("boom"), {}),
    "429": (429, error("slow down"), {"Retry-After": "0.01"}),
    "strange 400": (400, error("the request could not be understood"), {}),
    "null content": (200, chat_completion(None, "length"), {}),
    "refusal": (200, chat_completion(None, refusal="I can't help with that."), {}),
    "content_filter": (200, chat_completion("", "content_filter"), {}),
    "400 content_filter": (400, error("The prompt triggered a filter.", "content_filter"), {}),
    "too long": (400, error("This model's maximum context length is 8192 tokens", "context_length_exceeded"), {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=Path, required=True, help="JSON: question to reply")
    parser.add_argument("--port-file", type=Path, required=True, help="where the port is written when it is up")
    parser.add_argument("--log", type=Path, help="JSONL of requests")
    parser.add_argument("--faults", type=Path, help="JSON: question to fault")
    parser.add_argument("--spread", default="", help="faults by the question's hash, separated by commas")
    parser.add_argument("--share", type=float, default=1.0, help="part of the questions that --spread strikes")
    arguments = parser.parse_args()
    faults = json.loads(arguments.faults.read_text()) if arguments.faults else {}
    server = FaultServer(json.loads(arguments.answers.read_text()), arguments.log, faults,
                         [name for name in arguments.spread.split(",") if name], arguments.share)
    temporary = arguments.port_file.with_suffix(".tmp")
    temporary.write_text(str(server.port))
    temporary.replace(arguments.port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
