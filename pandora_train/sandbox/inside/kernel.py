"""Thin ctypes calls into the kernel: the few that Python 3.11 has no name for."""

from __future__ import annotations

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 22, 38
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPSET = {"x86_64": 126, "aarch64": 91}


def check(result: int, what: str) -> int:
    """Raise :class:`OSError` naming ``what`` when a call returned a negative number."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int, what: str) -> None:
    """Leave the namespaces in ``flags``."""
    check(libc.unshare(flags), f"unshare {what}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2)."""
    encode = [None if s is None else os.fsencode(s) for s in (source, target, kind)]
    check(libc.mount(*encode, ctypes.c_ulong(flags), None if data is None else data.encode()),
          f"mount {target}")


def pivot_to(new_root: str) -> None:
    """Make ``new_root`` the root and let the old one go."""
    os.chdir(new_root)
    check(libc.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    check(libc.umount2(b".", MNT_DETACH), "umount old root")
    os.chdir("/")


def prctl(option: int, argument: int = 0, pointer: object = 0) -> None:
    """prctl(2) with two arguments."""
    second = ctypes.c_ulong(pointer) if isinstance(pointer, int) else pointer
    check(libc.prctl(option, ctypes.c_ulong(argument), second, ctypes.c_ulong(0), ctypes.c_ulong(0)),
          f"prctl {option}")


def drop_capabilities() -> None:
    """Empty the permitted, effective and inheritable sets."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this thread
    data = (ctypes.c_uint32 * 6)()
    check(libc.syscall(_CAPSET[os.uname().machine], header, data), "capset")
