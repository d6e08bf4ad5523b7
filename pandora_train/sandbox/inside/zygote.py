"""The zygote: a warm, locked-down process whose forks are the executions.

It is started by the host as a fresh interpreter with one socket (``SOCK_SEQPACKET``). Datagrams in:
``spawn N`` | ``kill N`` (and fork a child in its stead: ``replace N M``) | ``trace N`` (the child tells its
line) | ``cpu N SECONDS``. Out: ``ready JSON`` | ``failed TEXT`` | ``child N`` with a descriptor of the
child's stream | ``exit N STATUS``. When the host closes the socket, everything ends.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from . import confine, kernel, landlock

# What generated code imports; loaded here so that children find it warm, with its shared libraries.
WARM = (
    "ast", "bisect", "calendar", "collections", "copy", "csv", "ctypes", "dataclasses", "datetime", "decimal",
    "difflib", "enum", "faulthandler", "fractions", "functools", "hashlib", "heapq", "io", "itertools",
    "json", "math", "operator", "random", "re", "sqlite3", "statistics", "string", "textwrap", "time",
    "traceback", "typing", "unicodedata", "urllib.parse", "urllib.request", "uuid", "warnings", "zoneinfo",
    "numpy", "pandas",
)


class OnlyThese(MetaPathFinder):
    """Refuses every package beside the standard library and ``allowed``.

    Not a guard: it keeps optional imports the same on every host. pandas would import pyarrow where it is
    installed, which starts threads and changes answers.
    """

    def __init__(self, allowed: set[str]) -> None:
        self.allowed = allowed | set(sys.stdlib_module_names) | {__name__.partition(".")[0]}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """``None`` (ask the next finder) or ModuleNotFoundError."""
        name = fullname.partition(".")[0]
        if path is None and name not in self.allowed and not name.startswith("_sysconfigdata"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return None


def start(control: int, settings: dict[str, Any]) -> None:
    """Take every layer, tell the host which held, then serve it.

    With a ``door`` among the settings a gVisor container has given the namespaces and the root already.
    """
    host = _apart(control)
    layers: confine.Layers = {}
    try:
        if not settings.get("door"):
            confine.leave_namespaces(layers)
    except BaseException as e:
        _fail(host, e)
        raise
    # the fork is process 1 of the new namespace
    inner = os.fork() if layers.get("pid namespace") == "" else 0
    if inner:
        host.close()
        _, status = os.waitpid(inner, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    try:
        children = _prepare(settings, layers)
        host.send(b"ready " + json.dumps(layers).encode())
    except BaseException as e:
        _fail(host, e)
        os._exit(1)
    children.serve(host)


def _apart(control: int) -> socket.socket:
    """The control socket under a number that children close; 0 to 2, which they keep, lead nowhere."""
    host = socket.socket(fileno=fcntl.fcntl(control, fcntl.F_DUPFD_CLOEXEC, 10))
    os.close(control)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    if nowhere > 2:
        os.close(nowhere)
    return host


def _fail(host: socket.socket, error: BaseException) -> None:
    host.send(b"failed " + f"{type(error).__name__}: {error}".encode()[:4000])


def _prepare(settings: dict[str, Any], layers: confine.Layers) -> Children:
    sys.meta_path.insert(0, OnlyThese(set(settings["packages"])))
    sys.path.extend(settings["package_folders"])
    for name in (*WARM, *settings["packages"]):
        importlib.import_module(name)
    from . import child, warmup
    from .seccomp import Template

    warmup.load()
    readable = [p for p in settings["readable"] if os.path.exists(p)]
    address_space, data = confine.memory_in_use()
    own_root = bool(settings.get("door")) or confine.attempt(
        layers, "mount namespace", lambda: confine.leave_files(readable, settings["new_root"]))
    become_nobody = own_root or confine.open_to_nobody(readable)
    confine.attempt(layers, "privileges", lambda: confine.drop_privileges(become_nobody))
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # after the change of ids, which clears it
    confine.attempt(layers, "landlock", lambda: confine.read_only([p for p in readable if os.path.exists(p)]))
    scope = landlock.abi() >= 6 and not layers["landlock"]
    layers["landlock scope"] = "" if scope else "this kernel has no Landlock scopes (Linux 6.12+)"
    template = Template() if confine.attempt(layers, "seccomp", _seccomp_works) else None
    gc.collect()
    gc.freeze()  # keeps collections in children from touching, and so copying, every page
    budget = settings["memory_mb"] << 20
    limits = child.Limits(address_space + budget, data + budget, settings["cpu_seconds"],
                          settings["max_rows"], settings["max_bytes"])
    return Children(limits, child.ChildLayers(scope, template), settings.get("door", ""))


def _seccomp_works() -> None:
    """Try the filter in a throw-away child."""
    from .seccomp import Template

    template = Template()
    pid = os.fork()
    if pid == 0:
        try:
            template.install()
            os._exit(0)
        except OSError as e:
            os._exit(e.errno or 1)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise OSError(code, f"seccomp filter refused ({os.strerror(code) if code > 0 else code})")


class Children:
    """Forks, watches and ends the executions."""

    def __init__(self, limits: Any, layers: Any, door: str = "") -> None:
        self.limits, self.layers, self.door = limits, layers, door
        self.pids: dict[int, int] = {}  # number -> process id
        self.numbers: dict[int, int] = {}  # the other way round

    def serve(self, host: socket.socket) -> None:
        """Until the host closes its end."""
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(host, select.POLLIN)
        poll.register(wake, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == wake:
                    os.read(wake, 4096)
                    self.reap(host)
                    continue
                message = host.recv(256)
                if not message:
                    for pid in self.numbers:
                        os.kill(pid, signal.SIGKILL)
                    os._exit(0)
                self.obey(message.decode().split(), host)

    def obey(self, words: list[str], host: socket.socket) -> None:
        """One message of the host."""
        order, number = words[0], int(words[1])
        pid = self.pids.get(number)
        if order == "spawn":
            self.spawn(number, host)
        elif order == "replace":
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
            self.spawn(int(words[2]), host)
        elif pid is not None and order == "kill":
            os.kill(pid, signal.SIGKILL)
        elif pid is not None and order == "trace":
            os.kill(pid, signal.SIGUSR1)
        elif pid is not None and order == "cpu":
            confine.limit_cpu(pid, int(words[2]))

    def spawn(self, number: int, host: socket.socket) -> None:
        """Fork child ``number`` and send the host its stream."""
        from . import child

        ours, theirs = socket.socketpair()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            stream = self.connect(number) if self.door else theirs
            child.main(stream.detach(), parent, self.limits, self.layers)
        self.pids[number], self.numbers[pid] = pid, number
        confine.limit_cpu(pid, self.limits.cpu_seconds)
        with ours, theirs:
            if not self.door:
                socket.send_fds(host, [b"child %d" % number], [ours.fileno()])

    def connect(self, number: int) -> socket.socket:
        """The child's own way to the host, where descriptors can't be handed out (gVisor)."""
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(self.door)
        stream.sendall(number.to_bytes(8, "little"))
        return stream

    def reap(self, host: socket.socket) -> None:
        """Tell the host of every child that ended."""
        while self.numbers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            number = self.numbers.pop(pid)
            del self.pids[number]
            host.send(b"exit %d %d" % (number, os.waitstatus_to_exitcode(status)))
