"""Landlock: a process gives up rights over files, TCP and what is outside its domain (Linux 5.13+)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from .kernel import check, libc

# The numbers are the same on every architecture.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_READ = (1 << 2) | (1 << 3)  # READ_FILE, READ_DIR
_SCOPE_ABSTRACT_UNIX, _SCOPE_SIGNAL = 1, 2


def abi() -> int:
    """Landlock's version in this kernel; 0 where there is none."""
    return max(0, int(libc.syscall(_CREATE, None, 0, 1)))


def _file_rights(version: int) -> int:
    """Every file right this version knows: what isn't granted is denied."""
    bits = 13 + (version >= 2) + (version >= 3) + (version >= 5)
    return (1 << bits) - 1


class _Attributes(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("fd", ctypes.c_int32))


def _ruleset(files: int, net: int, scoped: int) -> int:
    version = abi()
    attributes = _Attributes(files, net if version >= 4 else 0, scoped if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    return check(libc.syscall(_CREATE, ctypes.byref(attributes), size, 0), "landlock_create_ruleset")


def only_read(paths: Iterable[str]) -> None:
    """Only reading, and only beneath ``paths``; no TCP. Needs NO_NEW_PRIVS; holds for all descendants."""
    ruleset = _ruleset(_file_rights(abi()), 3, 0)
    try:
        for path in paths:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rights = _READ if os.path.isdir(path) else 1 << 2
            rule = _Beneath(rights, fd)
            try:
                check(libc.syscall(_ADD, ruleset, 1, ctypes.byref(rule), 0), f"landlock_add_rule {path}")
            finally:
                os.close(fd)
        check(libc.syscall(_RESTRICT, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def isolate() -> None:
    """A domain of its own: no signal and no abstract socket to anything outside it (Linux 6.12+)."""
    ruleset = _ruleset(0, 0, _SCOPE_ABSTRACT_UNIX | _SCOPE_SIGNAL)
    try:
        check(libc.syscall(_RESTRICT, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)
