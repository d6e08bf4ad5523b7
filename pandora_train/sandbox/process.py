"""The host's handle on a zygote: start it, take children, tell it what to do with them, end it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import socket
import subprocess
import sys
import sysconfig
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pandora_train.errors import MachineryError
from pandora_train.sandbox.config import SandboxConfig
from pandora_train.sandbox.gvisor import DOOR, Container

START_SECONDS = 120.0
TAKE_SECONDS = 60.0
_HERE = Path(__file__).resolve().parent
_PACKAGES = ("numpy", "pandas", "dateutil", "six", "tzdata", "pytz")
_BOOT = ("import json, os, sys; os.umask(0o22); sys.path.insert(0, sys.argv[1]); from inside import zygote; "
         "sys.path.pop(0); zygote.start(int(sys.argv[2]), json.loads(sys.argv[3]))")
# The sandbox's whole environment. Fixed seeds, zone and locale; one thread, since more are refused.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1",
                "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PATH": "",
                # freed memory stays in the heap: getting it anew costs a page fault every 4 KiB
                "MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "2000000000",
                "MALLOC_ARENA_MAX": "1"}


@dataclass
class Child:
    """One pre-forked child: its stream, and its exit status once ``ended`` is set."""

    number: int
    stream: socket.socket
    ended: threading.Event = field(default_factory=threading.Event)
    status: int = 0


class Zygote:
    """A running zygote with ``size`` children ready. Thread-safe.

    Raises :class:`MachineryError` when it can't start.
    """

    def __init__(self, config: SandboxConfig, size: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        self._lock = threading.Lock()
        self._next = 0
        self._children: dict[int, Child] = {}
        self._idle: queue.SimpleQueue[Child | None] = queue.SimpleQueue()
        self.dead = threading.Event()
        self._container = Container() if config.runner == "gvisor" else None
        with theirs:
            self._process = _launch(config, theirs.fileno(), self._container)
        self.layers = self._handshake()
        self._reader = threading.Thread(target=self._listen, name="sandbox", daemon=True)
        self._reader.start()
        if self._container is not None:
            door = threading.Thread(target=self._welcome, args=(self._container.listener,), daemon=True)
            door.start()
        for _ in range(size):
            self._send(b"spawn %d" % self._number())

    def _handshake(self) -> dict[str, str]:
        self._control.settimeout(START_SECONDS)
        try:
            kind, _, text = self._control.recv(65536).partition(b" ")
        except OSError as e:
            self.close()
            raise MachineryError(f"the sandbox did not start: {e}") from None
        self._control.settimeout(None)
        if kind != b"ready":
            why = self._container.why() if self._container else ""
            self.close()
            said = text.decode("utf-8", "replace") or why or f"exit code {self._process.returncode}"
            raise MachineryError(f"the sandbox did not start: {said}")
        layers: dict[str, str] = json.loads(text)
        return layers

    def _number(self) -> int:
        with self._lock:
            self._next += 1
            return self._next

    def _send(self, message: bytes) -> None:
        try:
            self._control.send(message)
        except OSError as e:
            self.dead.set()
            raise MachineryError(f"the sandbox's zygote is gone: {e}") from None

    def take(self) -> Child:
        """A child ready for one request."""
        try:
            child = self._idle.get(timeout=TAKE_SECONDS)
        except queue.Empty:
            self.dead.set()
            raise MachineryError("the sandbox had no child ready in time") from None
        if child is None:
            self._idle.put(None)  # for the next caller
            raise MachineryError("the sandbox's zygote ended")
        return child

    def trace(self, child: Child) -> None:
        """Have the child write the line it is at."""
        self._send(b"trace %d" % child.number)

    def allow_cpu(self, child: Child, seconds: int) -> None:
        """Raise the child's limit of processor time."""
        self._send(b"cpu %d %d" % (child.number, seconds))

    def kill(self, child: Child) -> None:
        """End a child whose exit status is still wanted."""
        self._send(b"kill %d" % child.number)

    def replace(self, child: Child) -> None:
        """End a child, whatever it does, and fork another in its stead."""
        child.stream.close()
        with self._lock:
            self._children.pop(child.number, None)
        self._send(b"replace %d %d" % (child.number, self._number()))

    def _arrived(self, number: int, stream: socket.socket) -> None:
        child = Child(number, stream)
        with self._lock:
            self._children[number] = child
        self._idle.put(child)

    def _welcome(self, listener: socket.socket) -> None:
        """Children that connect by themselves, with their number first (its own thread; gVisor only)."""
        while True:
            try:
                stream, _ = listener.accept()
                number = stream.recv(8, socket.MSG_WAITALL)
            except OSError:
                return
            self._arrived(int.from_bytes(number, "little"), stream)

    def _listen(self) -> None:
        """The zygote's messages, until it ends (its own thread)."""
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self._control, 256, 1)
            except OSError:
                data, fds = b"", []
            if not data:
                break
            kind, *numbers = data.split()
            number = int(numbers[0])
            if kind == b"child":
                self._arrived(number, socket.socket(fileno=fds[0]))
            elif kind == b"exit":
                with self._lock:
                    gone = self._children.get(number)
                if gone is not None:
                    gone.status = int(numbers[1])
                    gone.ended.set()
        self.dead.set()
        self._idle.put(None)
        with self._lock:
            for child in self._children.values():
                child.ended.set()

    def close(self) -> None:
        """End the zygote and with it every child."""
        self.dead.set()
        with self._lock:
            children = list(self._children.values())
            self._children.clear()
        with contextlib.suppress(OSError):  # it may be gone already
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if hasattr(self, "_reader") and threading.current_thread() is not self._reader:
            self._reader.join(10)
        self._control.close()
        if self._container is not None:
            self._container.close()
        for child in children:
            child.stream.close()
        while True:  # children that arrived last
            try:
                late = self._idle.get_nowait()
            except queue.Empty:
                break
            if late is not None:
                late.stream.close()
        self._idle.put(None)


def _launch(config: SandboxConfig, control: int, container: Container | None) -> subprocess.Popen[bytes]:
    settings = {**_paths(), "memory_mb": config.memory_mb, "cpu_seconds": int(config.wall) + 2,
                "max_rows": config.max_rows, "max_bytes": config.max_bytes}
    environment = dict(_ENVIRONMENT)
    if _package("tzdata"):
        environment["PYTHONTZPATH"] = ""  # the package's zones: the same on every machine
    arguments = ["-s", "-P", "-S", "-c", _BOOT, str(_HERE)]
    if container is not None:
        settings["door"] = f"{DOOR}/children"
        return container.start([*arguments, "0", json.dumps(settings)], environment,
                               [*settings["readable"], str(_HERE / "inside")], control)
    command = [sys.executable, *arguments, str(control), json.dumps(settings)]
    return subprocess.Popen(command, env=environment, pass_fds=[control], cwd="/", stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _package(name: str) -> Path | None:
    """The folder or file of an installed package."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin)
    return origin.parent if origin.name == "__init__.py" else origin


def _paths() -> dict[str, Any]:
    """What the sandbox may read: the standard library and the packages pandas needs, nothing beside them."""
    packages = {name: path for name in _PACKAGES if (path := _package(name))}
    readable = {str(path) for path in packages.values()}
    for path in packages.values():  # shared libraries of wheels lie in a folder beside the package
        readable |= {str(p) for p in path.parent.glob(f"{path.stem}.libs")}
    library = sysconfig.get_paths()
    readable |= {library["stdlib"], library["platstdlib"], str(Path(json.__file__).resolve().parent.parent)}
    zones = Path("/usr/share/zoneinfo")
    if "tzdata" not in packages and zones.is_dir():
        readable.add(str(zones))
    folders = list(dict.fromkeys(str(path.parent) for path in packages.values()))
    new_root = next((p for p in ("/tmp", "/mnt", "/run", "/var") if os.path.isdir(p)), "/")
    return {"packages": sorted(packages), "package_folders": folders, "readable": sorted(readable),
            "new_root": new_root}
