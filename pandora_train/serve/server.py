"""A vLLM server as a context manager: up and checked inside, gone with all its processes outside."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

from pandora_train.config import home
from pandora_train.errors import UserError
from pandora_train.llm.config import LLMConfig
from pandora_train.llm.connect import http_client
from pandora_train.llm.identity import local_folder
from pandora_train.llm.weights import resolve
from pandora_train.serve.check import check_server
from pandora_train.serve.config import ServeConfig, command, environment, on_gpu
from pandora_train.serve.identity import VARIABLE, served
from pandora_train.serve.proof import Proof, refuse
from pandora_train.serve.servable import check_adapter, check_end

PLUGIN_MARK = "pandora_cpu_lora is active"
STOP_SECONDS = 20.0
POLL_SECONDS = 0.5
REPORT_SECONDS = 15.0


class Server:
    """One vLLM server.

    ``with Server(config) as server:`` blocks until the server answers, serves the tokens that training
    used, and each adapter is proven live; ``server.base_url`` is what an OpenAI client needs. Raises
    :class:`UserError` with the log's tail when it does not come up. All its processes end with the block,
    also after an exception, Ctrl-C or SIGTERM.
    """

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        self.models = [config.name, *config.adapters]
        self.proofs: dict[str, list[Proof]] = {}
        """By model: what was proved of it at the start."""
        self._process: subprocess.Popen[bytes] | None = None
        self._old_handler: Any = None
        self._port = _port(config.host, config.port)
        self.log = home() / "logs" / f"vllm-{self._port}.log"

    @property
    def base_url(self) -> str:
        """Root of the OpenAI-compatible interface."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.config.host, self.config.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self._port}/v1"

    def __enter__(self) -> Server:
        try:
            self._catch_sigterm()
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        config = self.config
        if importlib.util.find_spec("vllm") is None:
            raise UserError("vLLM is not installed: run scripts/setup.sh (CPU), or "
                            "pip install -e '.[serve]' (GPU)")
        if config.name in config.adapters:
            raise UserError(f"'{config.name}' names both the base model and an adapter; rename one")
        rank = max([check_adapter(name, path) for name, path in config.adapters.items()], default=0)
        gpu, model = on_gpu(), resolve(config.model)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        _say(f"starting vLLM for {config.model} on the {'GPU' if gpu else 'CPU'} (log: {self.log})")
        folder = local_folder(model)
        check_end(folder)
        weights = served(config, folder)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command(config, model, self._port, rank, gpu),
                env=environment(config, model, gpu) | {VARIABLE: weights.model_dump_json()},
                cwd=self.log.parent, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                start_new_session=True)
        atexit.register(self.stop)
        self._wait()
        if rank and not gpu and PLUGIN_MARK not in self._log_text():
            raise UserError("vLLM did not load pandora_train's plugin, without which adapters on a CPU are "
                            "wrong: install the project again (pip install -e . --no-deps)")
        self._check(model)

    def _wait(self) -> None:
        began = reported = time.monotonic()
        url = self.base_url.removesuffix("/v1") + "/health"
        client = http_client(url, timeout=5)
        while True:
            assert self._process is not None
            if self._process.poll() is not None:
                raise UserError(f"vLLM ended while starting: {self._reason()} (log: {self.log})")
            with contextlib.suppress(httpx.HTTPError):
                if client.get(url).status_code == 200:
                    break
            now = time.monotonic()
            if now - began > self.config.start_timeout:
                raise UserError(f"vLLM was not up after {now - began:.0f} s: raise start_timeout, or see "
                                f"{self.log}; its last line: {self._reason()}")
            if now - reported > REPORT_SECONDS:
                reported = now
                _say(f"{now - began:.0f} s: {self._last_line()}")
            time.sleep(POLL_SECONDS)
        _say(f"up after {time.monotonic() - began:.0f} s at {self.base_url}")

    def _check(self, model: Path | str) -> None:
        for name, path in {self.config.name: "", **self.config.adapters}.items():
            asked = LLMConfig(model=name, base_url=self.base_url, tokenizer=str(model), timeout=300)
            self.proofs[name] = refuse(check_server(asked, path))
            for proof in self.proofs[name]:
                _say(f"{name}: {proof.name} {proof.state}: {proof.detail}")

    def stop(self) -> None:
        """End the server and its workers: asked first, killed after some seconds. Safe to call twice."""
        process, self._process = self._process, None
        self._restore_sigterm()
        if process is None:
            return
        atexit.unregister(self.stop)
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        deadline = time.monotonic() + 2
        while _signal_group(process.pid, 0) and time.monotonic() < deadline:
            time.sleep(0.1)
        _signal_group(process.pid, signal.SIGKILL)  # workers that outlived their parent
        process.wait()

    def _catch_sigterm(self) -> None:
        """SIGTERM would skip the ``with`` block's end; make it an exception (main thread only)."""
        def leave(number: int, frame: FrameType | None) -> None:
            raise SystemExit(128 + number)

        with contextlib.suppress(ValueError):  # not the main thread
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                self._old_handler = signal.signal(signal.SIGTERM, leave)

    def _restore_sigterm(self) -> None:
        if self._old_handler is not None:
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGTERM, self._old_handler)
            self._old_handler = None

    def _log_text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def _last_line(self) -> str:
        """What vLLM last reported, without its prefix."""
        lines = self._log_text().splitlines()
        told = [line.split("] ", 1)[1] for line in lines if " INFO " in line and "] " in line]
        return told[-1].strip()[:100] if told else "loading vLLM"

    def _reason(self) -> str:
        """The last line of the log that names an error, else its last line."""
        lines = [line.strip() for line in self._log_text().splitlines() if line.strip()]
        telling = [line for line in lines if "Error" in line or "error:" in line]
        named = [line for line in telling if "initialization failed" not in line]  # that only points up
        return (named or telling or lines or ["no output"])[-1][-400:]


def serve(config: ServeConfig, then: list[str]) -> int:
    """Serve until Ctrl-C, or run the commands ``then`` one after the other and stop; their exit code.

    ``{base_url}`` in a command becomes the server's address.
    """
    with Server(config) as server:
        if not then:
            _say(f"serving {', '.join(server.models)}; base_url {server.base_url} (Ctrl-C stops)")
            return _until_interrupted(server)
        for line in then:
            words = [word.replace("{base_url}", server.base_url) for word in shlex.split(line)]
            code = subprocess.run(words).returncode
            if code:
                return code
    return 0


def _until_interrupted(server: Server) -> int:
    try:
        while server._process is not None and server._process.poll() is None:
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        _say("stopping")
        return 0
    raise UserError(f"vLLM ended: {server._reason()} (log: {server.log})")


def _signal_group(pid: int, number: int) -> bool:
    """Send a signal to the process group that ``pid`` leads; False when none of it is left."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _port(host: str, port: int) -> int:
    """``port``, or a free one for 0. A taken one is refused: its owner would pass for our server."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((host, port))
        except OSError as e:
            raise UserError(f"cannot listen on {host}:{port} ({e.strerror}): choose another port, or 0 for a "
                            "free one") from None
        return int(s.getsockname()[1])


def _say(text: str) -> None:
    print(f"[serve] {text}", file=sys.stderr, flush=True)
