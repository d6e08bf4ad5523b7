"""The filter, read by a small interpreter of BPF: on both architectures it allows what the tables say."""

from __future__ import annotations

import mmap
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pandora_train.sandbox.inside import seccomp, syscalls

MACHINES = sorted(syscalls.NUMBERS)
ALLOW, KILL, EPERM = 0x7FFF0000, 0x80000000, 0x00050001
ME = 1234


def verdict(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the filter returns for a call."""
    code = seccomp.instructions(machine)
    words = [number, arch if arch is not None else syscalls.AUDIT_ARCH[machine], 0, 0]
    for argument in (*arguments, *[0] * (6 - len(arguments))):
        words += [argument & 0xFFFFFFFF, (argument >> 32) & 0xFFFFFFFF]
    at = accumulator = 0
    while True:
        kind, true, false, constant = code[at]
        constant = constant if isinstance(constant, int) else ME
        at += 1
        if kind == 0x20:
            accumulator = words[constant // 4]
        elif kind == 0x54:
            accumulator &= constant
        elif kind == 0x15:
            at += true if accumulator == constant else false
        elif kind == 0x35:
            at += true if accumulator >= constant else false
        else:
            return constant


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.integers(0, 2**32 - 1))
def test_a_call_that_is_not_listed_is_refused(machine: str, number: int) -> None:
    if number not in syscalls.NUMBERS[machine].values():
        assert verdict(machine, number) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_every_listed_call_without_conditions_is_allowed(machine: str) -> None:
    for name, number in syscalls.NUMBERS[machine].items():
        if name not in syscalls.CONDITIONS:
            assert verdict(machine, number, 2**64 - 1, 7, 2**40) == ALLOW, name


@pytest.mark.parametrize("machine", MACHINES)
def test_another_architecture_is_killed(machine: str) -> None:
    other = next(m for m in MACHINES if m != machine)
    assert verdict(machine, 0, arch=syscalls.AUDIT_ARCH[other]) == KILL
    assert verdict(machine, 0, arch=0x40000003) == KILL  # i386


def test_x32_calls_are_refused() -> None:
    assert all(verdict("x86_64", 0x40000000 + n) == EPERM for n in syscalls.X86_64.values())


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("flags", "allowed"), [
    (os.O_RDONLY, True), (os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY, True), (os.O_WRONLY, False), (os.O_RDWR, False),
    (os.O_CREAT, False), (os.O_TRUNC, False), (os.O_APPEND, False), (os.O_TMPFILE, False),
    (os.O_RDONLY | 1 << 33, True),
])
def test_files_are_opened_to_read_only(machine: str, flags: int, allowed: bool) -> None:
    assert (verdict(machine, syscalls.NUMBERS[machine]["openat"], 0, 0, flags) == ALLOW) is allowed


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("pid", "allowed"), [(ME, True), (1, False), (0, False), (2**64 - 1, False), (-ME & 2**64 - 1, False)])
def test_it_may_signal_itself_only(machine: str, pid: int, allowed: bool) -> None:
    for name in ("kill", "tgkill"):
        assert (verdict(machine, syscalls.NUMBERS[machine][name], pid, pid, 0) == ALLOW) is allowed


R, W, X = mmap.PROT_READ, mmap.PROT_WRITE, mmap.PROT_EXEC


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("protection", "flags", "allowed"), [
    (R | W, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, True), (R | X, mmap.MAP_PRIVATE, True),
    (R | W | X, mmap.MAP_PRIVATE, False), (R | X, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, False), (W | X, 0, False),
])
def test_memory_is_never_writable_and_executable(machine: str, protection: int, flags: int, allowed: bool) -> None:
    assert (verdict(machine, syscalls.NUMBERS[machine]["mmap"], 0, 4096, protection, flags) == ALLOW) is allowed
    if protection & X:
        assert verdict(machine, syscalls.NUMBERS[machine]["mprotect"], 0, 4096, protection) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_limits_are_read_and_never_set(machine: str) -> None:
    number = syscalls.NUMBERS[machine]["prlimit64"]
    assert verdict(machine, number, 0, 0, 0, 4096) == ALLOW
    assert verdict(machine, number, ME, 0, 0, 4096) == ALLOW
    assert verdict(machine, number, 1, 0, 0, 4096) == EPERM
    assert verdict(machine, number, 0, 0, 4096, 0) == EPERM
    assert verdict(machine, number, 0, 0, 1 << 32, 0) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_descriptors_send_no_signals(machine: str) -> None:
    number = syscalls.NUMBERS[machine]["fcntl"]
    assert verdict(machine, number, 3, 3) == ALLOW
    for command in (8, 10, 15, 1024, 1026):  # SETOWN, SETSIG, SETOWN_EX, SETLEASE, NOTIFY
        assert verdict(machine, number, 3, command) == EPERM


@pytest.mark.parametrize(("machine", "header"), [
    ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "/usr/include/asm-generic/unistd.h")])
def test_numbers_agree_with_the_kernels_headers(machine: str, header: str) -> None:
    if not Path(header).exists():
        pytest.skip(f"no {header}")
    text = re.sub(r"__NR3264_", "__NR_", Path(header).read_text())
    known = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)", text)}
    renamed = {"newfstatat": "fstatat"} if machine == "aarch64" else {}
    for name, number in syscalls.NUMBERS[machine].items():
        assert known[renamed.get(name, name)] == number, name
