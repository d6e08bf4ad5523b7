"""Runs SQL read-only, in processes that are killed when their time is up.

A time-out inside the process can't be trusted (``progress_handler`` isn't called within one long function,
a thread can't be killed), so each statement runs in a worker process and the clock is the parent's.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pandora_train.errors import MachineryError, ReadingError
from pandora_train.sources.reading import stamp

Cell = int | float | str | bytes | None
Cells = list[tuple[Cell, ...]]
"""Typed rows, as SQLite returned them."""
MAX_ROWS = 1_000_000
WORKER = Path(__file__).with_name("sqlworker.py")


@dataclass(frozen=True)
class SqlResult:
    """What became of one statement; ``rows`` is set exactly when ``outcome`` is ``result``."""

    outcome: Literal["result", "error", "timeout"]
    rows: Cells | None = None
    columns: tuple[str, ...] = ()
    error: str = ""
    seconds: float = 0.0


class _Worker:
    """One ``sqlworker`` process, used by one thread at a time."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-I", str(WORKER)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ask(self, request: bytes, timeout: float) -> bytes | None:
        """The answer line, ``None`` when the time is up; ``b""`` when the process died."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert isinstance(stdout, io.BufferedReader)
        end = time.monotonic() + timeout
        try:
            stdin.write(request)
            stdin.flush()
        except BrokenPipeError:
            return b""
        chunks: list[bytes] = []
        while (left := end - time.monotonic()) > 0:
            if select.select([stdout], [], [], left)[0]:
                chunk = stdout.read1(1 << 20)
                chunks.append(chunk)
                if not chunk or chunk.endswith(b"\n"):
                    return b"".join(chunks) if chunk else b""
        return None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):  # a request that the process never read
                if pipe is not None:
                    pipe.close()


class SqlPool:
    """Runs statements from several threads, each in one of at most ``processes`` processes."""

    def __init__(self, processes: int = 4) -> None:
        self._idle: list[_Worker] = []
        self._free = threading.Semaphore(processes)
        self._lock = threading.Lock()

    def run(self, db: str | Path, sql: str, timeout: float = 30.0, max_rows: int = MAX_ROWS,
            seed: int | None = None) -> SqlResult:
        """Run one statement on one SQLite file, or with a ``seed`` on a copy with its rows shuffled.

        ``timeout`` in seconds from when a process is free, kept by killing it. A statement that ends its
        process is an error of the statement. Raises :class:`ReadingError` when there is no such file,
        :class:`MachineryError` when no process can be had.
        """
        if not Path(db).is_file():
            raise ReadingError(f"no database {db}: check the data folder")
        order = {"db": str(db), "sql": sql, "max_rows": max_rows, "seed": seed, "stamp": str(stamp(db))}
        request = json.dumps(order).encode() + b"\n"
        with self._free:
            return self._ask(request, timeout)

    def _ask(self, request: bytes, timeout: float) -> SqlResult:
        start = time.monotonic()
        for _ in range(2):
            worker = self._take()
            try:
                reply = worker.ask(request, timeout)
            except BaseException:
                worker.kill()
                raise
            if reply:
                with self._lock:
                    self._idle.append(worker)
                return _result(reply, time.monotonic() - start)
            worker.kill()
            if reply is None:
                return SqlResult("timeout", error=f"no answer within {timeout:g} s",
                                 seconds=time.monotonic() - start)
        if not _starts():
            raise MachineryError(f"no process for SQL starts here ({sys.executable})")
        return SqlResult("error", error="the statement ended its process", seconds=time.monotonic() - start)

    def close(self) -> None:
        """End all idle processes."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.kill()

    def _take(self) -> _Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _Worker()


def _starts() -> bool:
    """Whether a fresh process answers at all."""
    worker = _Worker()
    try:
        return bool(worker.ask(b'{"db": "", "sql": "SELECT 1", "max_rows": 1}\n', 60.0))
    finally:
        worker.kill()


def _result(reply: bytes, seconds: float) -> SqlResult:
    data = json.loads(reply)
    if "error" in data:
        return SqlResult("error", error=data["error"], seconds=seconds)
    rows = [tuple(bytes.fromhex(c["blob"]) if isinstance(c, dict) else c for c in row)
            for row in data["rows"]]
    return SqlResult("result", rows, tuple(data["columns"]), seconds=seconds)


POOL = SqlPool()
"""The process-wide pool; its processes start when first used."""
atexit.register(POOL.close)
