"""Which system calls a program may make, by name, and their numbers on each architecture.

Everything that isn't here fails with EPERM. Numbers: Linux ``arch/x86/entry/syscalls/syscall_64.tbl`` and
``include/uapi/asm-generic/unistd.h`` (aarch64, which never had the older calls).
"""

from __future__ import annotations

import mmap
import os

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

X86_64 = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8,
    "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14,
    "rt_sigreturn": 15, "pread64": 17, "readv": 19, "writev": 20, "access": 21, "select": 23,
    "sched_yield": 24, "mremap": 25, "madvise": 28, "dup": 32, "dup2": 33, "nanosleep": 35, "getpid": 39,
    "exit": 60, "kill": 62, "uname": 63, "fcntl": 72, "getcwd": 79, "readlink": 89, "gettimeofday": 96,
    "getrlimit": 97, "getrusage": 98, "times": 100, "getuid": 102, "getgid": 104, "geteuid": 107,
    "getegid": 108, "getppid": 110, "getgroups": 115, "getresuid": 118, "getresgid": 120, "sigaltstack": 131,
    "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204, "getdents64": 217,
    "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230,
    "exit_group": 231, "tgkill": 234, "openat": 257, "newfstatat": 262, "readlinkat": 267, "faccessat": 269,
    "pselect6": 270, "ppoll": 271, "dup3": 292, "prlimit64": 302, "getrandom": 318, "statx": 332,
    "faccessat2": 439,
}
AARCH64 = {
    "getcwd": 17, "dup": 23, "dup3": 24, "fcntl": 25, "faccessat": 48, "openat": 56, "close": 57,
    "getdents64": 61, "lseek": 62, "read": 63, "write": 64, "readv": 65, "writev": 66, "pread64": 67,
    "pselect6": 72, "ppoll": 73, "readlinkat": 78, "newfstatat": 79, "fstat": 80, "exit": 93,
    "exit_group": 94, "futex": 98, "nanosleep": 101, "clock_gettime": 113, "clock_getres": 114,
    "clock_nanosleep": 115, "sched_getaffinity": 123, "sched_yield": 124, "restart_syscall": 128,
    "kill": 129, "tgkill": 131, "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135,
    "rt_sigreturn": 139, "getresuid": 148, "getresgid": 150, "times": 153, "getgroups": 158, "uname": 160,
    "getrlimit": 163, "getrusage": 165, "gettimeofday": 169, "getpid": 172, "getppid": 173, "getuid": 174,
    "geteuid": 175, "getgid": 176, "getegid": 177, "gettid": 178, "brk": 214, "munmap": 215, "mremap": 216,
    "mmap": 222, "mprotect": 226, "madvise": 233, "prlimit64": 261, "getrandom": 278, "statx": 291,
    "faccessat2": 439,
}
NUMBERS = {"x86_64": X86_64, "aarch64": AARCH64}

SELF = object()
"""Stands for the process's own id in :data:`CONDITIONS`; filled in when the filter is installed."""

ArgumentCheck = tuple[int, int, object]
"""``(argument number, mask, value)``: the low half of the argument, masked, must equal the value."""

__O_TMPFILE = 0o20000000  # os.O_TMPFILE without O_DIRECTORY
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | __O_TMPFILE
_W, _X = mmap.PROT_WRITE, mmap.PROT_EXEC

CONDITIONS: dict[str, tuple[tuple[ArgumentCheck, ...], ...]] = {
    # a call is allowed when all checks of one of its alternatives hold
    "open": (((1, _WRITES, 0),),),
    "openat": (((2, _WRITES, 0),),),
    # no page is writable and executable, and code comes from files (which Landlock chooses) alone
    "mmap": (((2, _X, 0),), ((2, _W | _X, _X), (3, mmap.MAP_ANONYMOUS, 0))),
    "mprotect": (((2, _X, 0),),),
    # only itself: not 0 (the group), not -1 (all)
    "kill": (((0, 0xFFFFFFFF, SELF),),),
    "tgkill": (((0, 0xFFFFFFFF, SELF),),),
    # reading limits, never setting them (the pointer to the new limit is null in both halves)
    "prlimit64": (((0, 0xFFFFFFFF, 0), (2, 0xFFFFFFFF, 0), (-2, 0xFFFFFFFF, 0)),
                  ((0, 0xFFFFFFFF, SELF), (2, 0xFFFFFFFF, 0), (-2, 0xFFFFFFFF, 0))),
    # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC; not F_SETOWN (signals), F_SETLEASE, F_NOTIFY
    "fcntl": tuple(((1, 0xFFFFFFFF, command),) for command in (0, 1, 2, 3, 1030)),
}
