"""One execution: a forked child that gives up everything, takes one request, answers once and ends."""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import json
import mmap
import os
import random
import signal
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.errors import ChainedAssignmentError  # type: ignore[attr-defined]

from . import cells, confine, hints, kernel, landlock, warmup, wire
from .seccomp import Template

CODE_FILE = "<code>"
EXIT_NO_REPLY = 70

# Kept apart from the modules that generated code may patch. Not a guard: it only forges its own result.
_exit, _write, _dumps, _builtins = os._exit, os.write, json.dumps, dict(vars(builtins))


@dataclass(frozen=True)
class Limits:
    """What one execution may use; memory is absolute (what the zygote has, plus the budget)."""

    address_space: int
    data: int
    cpu_seconds: int
    max_rows: int
    max_bytes: int


@dataclass(frozen=True)
class ChildLayers:
    """Which per-child layers this machine has."""

    scope: bool
    seccomp: Template | None


def main(reply: int, parent: int, limits: Limits, layers: ChildLayers) -> None:
    """The child's whole life; never returns."""
    status = EXIT_NO_REPLY
    try:
        try:
            lock_down(reply, parent, limits, layers)
            code, frames = receive(3)
        except Exception as e:  # the machinery's fault: the host is told and tries again
            write(3, wire.FAILED + f"{type(e).__name__}: {e}".encode()[:1000])
            os._exit(EXIT_NO_REPLY)
        write(3, wire.RECEIVED)
        answer = respond(code, frames, limits)
        write(3, b"J%10d" % len(answer) + answer)
        status = 0
    except BaseException:  # the host sees a child that ended without an answer
        pass
    finally:
        _exit(status)


def lock_down(reply: int, parent: int, limits: Limits, layers: ChildLayers) -> None:
    """All layers of one child, strictest last."""
    warmup.touch()
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if reply != 3:
        os.dup2(reply, 3)
    os.closerange(4, 1024)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_NO_REPLY)
    faulthandler.enable(3, all_threads=False)  # a crash tells its line
    faulthandler.register(signal.SIGUSR1, 3, all_threads=False)  # and so does a time-out, also inside C
    seed()
    confine.limit_resources(limits.address_space, limits.data)
    if layers.scope:
        landlock.isolate()
    if layers.seccomp is not None:
        layers.seccomp.install()


def seed() -> None:
    """Every source of chance that numpy, pandas and random draw from by default."""
    random.seed(0)
    np.random.seed(0)
    vars(np.random.bit_generator)["randbits"] = lambda bits: 0  # the seed of default_rng()


def receive(reply: int) -> tuple[str, dict[str, pd.DataFrame]]:
    """The request: code and frames."""
    sizes = wire.REQUEST.unpack(_exactly(reply, wire.REQUEST.size))
    code, description, block = (_exactly(reply, size) for size in sizes)
    return code.decode("utf-8", "surrogatepass"), wire.frames(bytes(description), block)


def _exactly(fd: int, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        got = os.readv(fd, [view])
        if got == 0:
            raise EOFError
        view = view[got:]
    return data


def write(fd: int, data: bytes) -> None:
    """All of ``data``."""
    view = memoryview(data)
    while view:
        view = view[_write(fd, view):]


def respond(code: str, frames: dict[str, pd.DataFrame], limits: Limits) -> bytes:
    """Run ``code``; the answer as JSON (see :func:`pandora_train.sandbox.verdict.read_reply`)."""
    ballast = mmap.mmap(-1, 8 << 20)  # given back when memory runs out, so that the error can be told
    names: dict[str, Any] = {
        "__name__": "__main__", "__builtins__": __builtins__, "pd": pd, "np": np, **frames}
    try:
        answer = evaluate(code, names, frames, limits)
    except BaseException as e:  # SystemExit and KeyboardInterrupt too: whatever the code raised
        ballast.close()
        vars(builtins).update(_builtins)
        answer = describe(e, code, names, frames)
    return _dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass")


def evaluate(code: str, names: dict[str, Any], frames: dict[str, pd.DataFrame],
             limits: Limits) -> dict[str, Any]:
    """The rows of ``result``, or that they are too many."""
    warnings.simplefilter("ignore")
    # in pandas 3 a chained assignment silently does nothing: an error that can be fed back
    warnings.simplefilter("error", ChainedAssignmentError)
    exec(compile(code, CODE_FILE, "exec", dont_inherit=True), names)
    vars(builtins).update(_builtins)
    if "result" not in names:
        raise NameError("name 'result' is not defined")
    try:
        rows, types, shape = cells.rows(names["result"], limits.max_rows, limits.max_bytes)
    except cells.TooMuch as e:
        return {"outcome": "output_limit", "message": str(e)}
    empty = all(cell is None for row in rows for cell in row)
    hint = hints.for_empty(code, names, frames) if empty else ""
    return {"outcome": "result", "rows": rows, "types": types, "shape": shape, "hint": hint}


def describe(error: BaseException, code: str, names: dict[str, Any],
             frames: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """Type, message, line and hint of what the code raised."""
    line = None
    if isinstance(error, SyntaxError) and error.filename == CODE_FILE:
        line = error.lineno
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == CODE_FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    error.__traceback__ = None  # frees what the frames of the failed call hold
    try:
        message = str(error.msg if isinstance(error, SyntaxError) else error)[:2000]
    except BaseException:
        message = "(the message could not be read)"
    hint = ""
    with contextlib.suppress(BaseException):
        hint = hints.for_error(error, message, line, code, names, frames)
    name = type(error).__name__[:200]
    if name == "SystemError" and ("without setting an exception" in message
                                    or "without exception set" in message):
        name, message = "MemoryError", "out of memory"  # so CPython tells some failed allocations
    return {"outcome": "error", "type": name, "message": message, "line": line, "hint": hint}
