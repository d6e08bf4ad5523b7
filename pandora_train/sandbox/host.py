"""The sandbox as the rest of the project sees it."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
from types import TracebackType

from pandora_train.box.box import BoxSet
from pandora_train.errors import MachineryError, UserError
from pandora_train.records import Execution
from pandora_train.sandbox import probes, verdict
from pandora_train.sandbox.config import SandboxConfig
from pandora_train.sandbox.frames import BoxEncoder, Encoded
from pandora_train.sandbox.inside.wire import RECEIVED, REQUEST
from pandora_train.sandbox.process import Child, Zygote

TRIES = 3
"""Executions begun for one request before the machinery counts as broken."""
UNTAKEN = 100
"""Children found dead for one request before the pool counts as one that can't be refilled. They are no
tries: the OOM killer may sweep all that idle, at any time, as often as it likes."""
SPARE = 2
SEND_SECONDS = 60.0
_TRACE_SECONDS = 0.3
_HEADER = 11
_GARBAGE = 65536


class NotTaken(MachineryError):
    """A child ended before it took its request: nothing of it was run."""


class Sandbox:
    """Runs generated code over BOX sets; implements :class:`~pandora_train.sandbox.protocol.Runner`.

    Thread-safe: ``config.workers`` executions at once, further callers wait.
    """

    def __init__(self, config: SandboxConfig | None = None) -> None:
        if sys.platform != "linux":
            raise UserError("generated code is run on Linux only: use a Linux container or virtual machine")
        self.config = config or SandboxConfig()
        self._encode = BoxEncoder()
        self.workers = self.config.workers or max(2, os.cpu_count() or 2)
        self._slots = threading.BoundedSemaphore(self.workers)
        self._lock = threading.Lock()
        self._closed = False
        self._zygote = self._start()
        try:
            patient = functools.partial(self.run, wall=max(60.0, self.config.wall))  # also on a busy machine
            self._capabilities = probes.probe(self.config, self._zygote.layers, patient)
            probes.insist(self.config, self._capabilities)
        except BaseException:
            self.close()
            raise

    def capabilities(self) -> list[probes.Capability]:
        """The layers and whether they hold here, as the attacks at start found."""
        return list(self._capabilities)

    def _start(self) -> Zygote:
        return Zygote(self.config, self.workers + SPARE)

    def _living(self) -> Zygote:
        with self._lock:
            if self._closed:
                raise MachineryError("the sandbox is closed")
            if self._zygote.dead.is_set():
                self._zygote.close()
                self._zygote = self._start()
            return self._zygote

    def run(self, boxes: BoxSet, code: str, wall: float | None = None) -> Execution:
        """Run ``code`` with each BOX predefined; see :class:`~pandora_train.sandbox.protocol.Runner`."""
        encoded = self._encode(boxes)
        wall = self.config.wall if wall is None else wall
        tries = untaken = 0
        with self._slots:
            while True:
                try:
                    return self._once(encoded, code, wall)
                except NotTaken:
                    untaken += 1
                    if untaken == UNTAKEN or self._closed:
                        raise
                except MachineryError:
                    tries += 1
                    if tries == TRIES or self._closed:
                        raise

    def _once(self, encoded: Encoded, code: str, wall: float) -> Execution:
        zygote = self._living()
        child = zygote.take()
        try:
            if wall > self.config.wall:
                zygote.allow_cpu(child, int(wall) + 2)
            start = time.monotonic()
            execution = self._follow(zygote, child, _hand_over(child, encoded, code), wall)
            return execution.model_copy(update={"seconds": time.monotonic() - start})
        finally:
            with contextlib.suppress(MachineryError):  # noticed by the next run
                zygote.replace(child)

    def _follow(self, zygote: Zygote, child: Child, start: float, wall: float) -> Execution:
        data = bytearray()
        while True:
            left = start + wall - time.monotonic()
            if left <= 0:  # also for a child that never stops writing
                return _stop(zygote, child, wall)
            try:
                child.stream.settimeout(left)
                chunk = child.stream.recv(1 << 16)
            except TimeoutError:
                return _stop(zygote, child, wall)
            except OSError:  # the child is gone, or the sandbox is being closed
                chunk = b""
            data += chunk
            if not chunk:
                return self._ended(zygote, child, data)
            if data[:1] != b"J":
                if len(data) > _GARBAGE:
                    return verdict.bad_payload()
                continue
            if len(data) < _HEADER:
                continue
            try:
                size = int(data[1:_HEADER])
            except ValueError:
                return verdict.bad_payload()
            # JSON of max_bytes of text: quotation marks are escaped, rows have brackets, hints are short
            if size > 2 * self.config.max_bytes + 8 * self.config.max_rows + 20_000:
                return verdict.output_limit(f"the reply is {size:,} bytes long")
            if len(data) >= _HEADER + size:
                return self._reply(bytes(data[_HEADER:_HEADER + size]))

    def _reply(self, data: bytes) -> Execution:
        try:
            return verdict.read_reply(data, self.config.max_rows, self.config.max_bytes)
        except verdict.BadPayload:
            return verdict.bad_payload()

    def _ended(self, zygote: Zygote, child: Child, data: bytearray) -> Execution:
        if not child.ended.wait(1):  # it closed its stream and lives on
            zygote.kill(child)
            if not child.ended.wait(30):
                raise MachineryError("a sandbox child could not be ended")
        if zygote.dead.is_set():
            raise MachineryError("the sandbox's zygote ended")
        return verdict.ended(child.status, bytes(data))

    def close(self) -> None:
        """End all processes of the sandbox."""
        with self._lock:
            self._closed = True
            self._zygote.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def _hand_over(child: Child, encoded: Encoded, code: str) -> float:
    """Send the request; the time at which the child had it. What fails here is the machinery's fault."""
    text = code.encode("utf-8", "surrogatepass")
    head = REQUEST.pack(len(text), len(encoded.description), len(encoded.block))
    try:
        child.stream.settimeout(SEND_SECONDS)
        # in one piece: each further one could wake the child for nothing
        child.stream.sendall(b"".join([head, text, encoded.description, encoded.block]))
    except TimeoutError:
        raise MachineryError("a sandbox child did not take its request in time") from None
    except OSError:
        pass  # it ended: it may have said why
    try:
        said = child.stream.recv(1)
        reason = b"" if said in (RECEIVED, b"") else child.stream.recv(1000)
    except ConnectionError:
        said = b""
    except OSError as e:
        raise MachineryError(f"a sandbox child did not take its request: {e}") from None
    if not said:
        raise NotTaken("sandbox children end before they take a request: is there memory left?")
    if said != RECEIVED:
        raise MachineryError(f"a sandbox child did not take its request: {reason.decode('utf-8', 'replace')}")
    return time.monotonic()


def _stop(zygote: Zygote, child: Child, wall: float) -> Execution:
    """Time is up: learn the line if the child still tells it."""
    zygote.trace(child)
    deadline = time.monotonic() + _TRACE_SECONDS
    trace = bytearray()
    while verdict.trace_line(trace) is None and (left := deadline - time.monotonic()) > 0:
        try:
            child.stream.settimeout(left)
            chunk = child.stream.recv(1 << 14)
        except OSError:
            break
        trace += chunk
        if not chunk or len(trace) > _GARBAGE:
            break
    return verdict.timed_out(wall, trace)
