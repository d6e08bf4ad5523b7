"""seccomp: the kernel refuses every system call that :mod:`.syscalls` doesn't list."""

from __future__ import annotations

import ctypes
import os

from .kernel import PR_SET_SECCOMP, prctl
from .syscalls import AUDIT_ARCH, CONDITIONS, NUMBERS, SELF, ArgumentCheck

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _KILL, _EPERM = 0x7FFF0000, 0x80000000, 0x00050001
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000

Instruction = tuple[int, int, int, object]
"""``(code, jump if true, jump if false, constant)``; the constant may be :data:`SELF`."""


class _SockFilter(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8),
                ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_SockFilter)))


def _check(check: ArgumentCheck) -> list[Instruction]:
    """Two or three instructions that end in a compare; a miss jumps to the block's end (patched)."""
    argument, mask, value = check
    high = 4 if argument < 0 else 0  # both architectures are little-endian
    code: list[Instruction] = [(_LOAD, 0, 0, _ARGUMENTS + 8 * abs(argument) + high)]
    if mask != 0xFFFFFFFF:
        code.append((_AND, 0, 0, mask))
    code.append((_EQUAL, 0, 0, value))
    return code


def _alternative(number: int, checks: tuple[ArgumentCheck, ...]) -> list[Instruction]:
    body = [instruction for check in checks for instruction in _check(check)]
    code: list[Instruction] = [(_EQUAL, 0, len(body) + 1, number)]
    for at, (kind, true, _, constant) in enumerate(body):
        miss = len(body) - at if kind == _EQUAL else 0
        code.append((kind, true, miss, constant))
    code.append((_RETURN, 0, 0, _ALLOW))
    if len(checks):  # the accumulator held an argument: load the number again for what follows
        code.append((_LOAD, 0, 0, _NUMBER))
    return code


def instructions(machine: str) -> list[Instruction]:
    """The filter as BPF. Foreign architectures (32-bit calls) are killed, the rest is refused by EPERM."""
    numbers = NUMBERS[machine]
    code: list[Instruction] = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, AUDIT_ARCH[machine]),
                               (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    if machine == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _EPERM)]
    for name, number in numbers.items():
        for checks in CONDITIONS.get(name, ((),)):
            code += _alternative(number, checks)
    return [*code, (_RETURN, 0, 0, _EPERM)]


class Template:
    """The filter built once; :meth:`install` fills in the process id and hands it to the kernel."""

    def __init__(self) -> None:
        code = instructions(os.uname().machine)
        self._selves = [at for at, (*_, constant) in enumerate(code) if constant is SELF]
        self._code = (_SockFilter * len(code))(*[
            _SockFilter(kind, true, false, constant if isinstance(constant, int) else 0)
            for kind, true, false, constant in code])
        self._program = _Program(len(code), ctypes.cast(self._code, ctypes.POINTER(_SockFilter)))

    def install(self) -> None:
        """For this thread and for good. Needs NO_NEW_PRIVS."""
        for at in self._selves:
            self._code[at].k = os.getpid()
        prctl(PR_SET_SECCOMP, 2, ctypes.byref(self._program))
