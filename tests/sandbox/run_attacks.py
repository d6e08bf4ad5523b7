"""Runs attacks on a machine of a given kind; prints what came of each as JSON.

``run_attacks.py KIND UID``: ``KIND`` takes something away from this process and all its descendants before
the sandbox starts (see :data:`KINDS`), ``UID`` is the user to become first (0: stay). Attacks come as a JSON
list of ``{id, code, wall, followup}`` on standard input.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import socket
import sys
import tempfile
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

X86 = platform.machine() == "x86_64"
NUMBERS = {"unshare": 272 if X86 else 97, "mount": 165 if X86 else 40, "prctl": 157 if X86 else 167,
           "seccomp": 317 if X86 else 277, "landlock_create_ruleset": 444}
PR_SET_SECCOMP = 22
KINDS = {
    "": (), "container": ("unshare", "mount"), "no_landlock": ("landlock_create_ruleset",),
    "bare": ("unshare", "mount", "landlock_create_ruleset"), "no_seccomp": ("seccomp", "prctl"),
}
DROP_SYS_ADMIN = "no_sys_admin"
SECRET = Path(tempfile.gettempdir()) / "sandbox_escape_secret.txt"


def deny(names: tuple[str, ...]) -> None:
    """Have the kernel refuse system calls by EPERM (prctl: only the installing of filters)."""
    code = [(0x20, 0, 0, 0)]
    for name in names:
        if name == "prctl":
            code += [(0x15, 0, 4, NUMBERS[name]), (0x20, 0, 0, 16), (0x15, 0, 1, PR_SET_SECCOMP),
                     (0x06, 0, 0, 0x00050001), (0x20, 0, 0, 0)]
        else:
            code += [(0x15, 0, 1, NUMBERS[name]), (0x06, 0, 0, 0x00050001)]
    code.append((0x06, 0, 0, 0x7FFF0000))

    class Filter(ctypes.Structure):
        _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter)))

    filters = (Filter * len(code))(*[Filter(*c) for c in code])
    program = Program(len(code), filters)
    libc = ctypes.CDLL(None, use_errno=True)
    # no NO_NEW_PRIVS for root: only what a container would take is taken
    if os.geteuid() != 0:
        libc.prctl(38, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def drop_sys_admin() -> None:
    """Take CAP_SYS_ADMIN from this process and, through the bounding set, from all it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(24, 21, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    number = 125 if X86 else 90
    libc.syscall(number, header, data)
    data[0] &= ~(1 << 21)
    data[1] &= ~(1 << 21)
    if libc.syscall(number + 1, header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def become(uid: int) -> None:
    if uid and os.getuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


class Bait:
    """What must not be reached: a secret file, an environment variable, listeners. ``hits``: who came."""

    def __init__(self) -> None:
        SECRET.write_text("CANARY")
        SECRET.chmod(0o644)
        os.environ["PANDORA_API_KEY"] = "CANARY"
        self.hits: list[str] = []
        self.sockets = []
        for family, kind, address in ((socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 48765)),
                                      (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 48765)),
                                      (socket.AF_UNIX, socket.SOCK_STREAM, "\0sandbox_escape_sock")):
            s = socket.socket(family, kind)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(address)
            except OSError:  # another run of these tests listens there
                s.close()
                continue
            if kind == socket.SOCK_STREAM:
                s.listen()
            self.sockets.append(s)
            threading.Thread(target=self._watch, args=(s, str(address)), daemon=True).start()

    def _watch(self, s: socket.socket, name: str) -> None:
        try:
            s.accept() if s.type == socket.SOCK_STREAM else s.recv(1)
            self.hits.append(name)
        except OSError:
            pass

    def harm(self) -> list[str]:
        """Everything that shouldn't have happened."""
        found = [f"reached {name}" for name in self.hits]
        if not SECRET.exists() or SECRET.read_text() != "CANARY":
            found.append("secret changed")
        found += [f"left {p.name}" for p in SECRET.parent.glob("sandbox_escape*") if p != SECRET]
        return found


def main() -> None:
    kind, uid = sys.argv[1], int(sys.argv[2])
    attacks = json.load(sys.stdin)
    bait = Bait()
    become(uid)
    if kind == DROP_SYS_ADMIN:
        drop_sys_admin()
    elif KINDS.get(kind):
        deny(KINDS[kind])
    runner = "gvisor" if kind == "gvisor" else "local"

    import pandas as pd

    from pandora_train.box.box import Box, BoxSet
    from pandora_train.errors import UserError
    from pandora_train.sandbox import Sandbox, SandboxConfig

    boxes = BoxSet((Box("df", pd.DataFrame({"k": list("ababab"), "x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]})),))
    out: dict[str, object] = {"results": {}, "followups": {}}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            sandbox = Sandbox(SandboxConfig(memory_mb=300, workers=6, runner=runner))
        except UserError as e:
            print(json.dumps({"refused": str(e)}))
            return
    out["warnings"] = [str(w.message) for w in warned]
    out["capabilities"] = {c.name: c.active for c in sandbox.capabilities()}

    def one(attack: dict[str, object]) -> tuple[str, object, object]:
        first = sandbox.run(boxes, str(attack["code"]), wall=float(str(attack.get("wall", 8))))
        then = sandbox.run(boxes, str(attack["followup"])) if attack.get("followup") else None
        return str(attack["id"]), first.model_dump(mode="json"), then and then.model_dump(mode="json")

    with sandbox, ThreadPoolExecutor(6) as pool:
        results, followups = {}, {}
        for name, first, then in pool.map(one, attacks):
            results[name] = first
            followups[name] = then
        out["results"], out["followups"] = results, followups
    out["harm"] = bait.harm()
    print(json.dumps(out))


if __name__ == "__main__":
    main()
