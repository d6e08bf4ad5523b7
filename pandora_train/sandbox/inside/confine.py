"""Layers that hold for the zygote and all its children: namespaces, an almost empty root, privileges, files.

Each function raises :class:`OSError` where the machine doesn't allow its layer; the zygote records which
held (the host then proves them by canary attacks).
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import stat
from collections.abc import Callable

from . import kernel, landlock

NOBODY = 65534
Layers = dict[str, str]
"""Layer to ``""`` when applied, else why not."""


def attempt(layers: Layers, name: str, step: Callable[[], None]) -> bool:
    """Apply one layer and note the outcome."""
    try:
        step()
    except (OSError, KeyError) as e:
        layers[name] = str(e)
        return False
    layers[name] = ""
    return True


def leave_namespaces(layers: Layers) -> None:
    """Network, IPC, host name and process ids of its own; the latter from the next fork on.

    Without CAP_SYS_ADMIN these need a user namespace, in which the process may do so.
    """
    try:
        kernel.unshare(kernel.CLONE_NEWNET, "network")
    except OSError:
        if not attempt(layers, "user namespace", _own_user_namespace):
            for name in ("network namespace", "pid namespace", "ipc namespace"):
                layers[name] = layers["user namespace"]
            return
        attempt(layers, "network namespace", lambda: kernel.unshare(kernel.CLONE_NEWNET, "network"))
    else:
        layers["network namespace"] = ""
    attempt(layers, "ipc namespace", lambda: kernel.unshare(kernel.CLONE_NEWIPC, "ipc"))
    if attempt(layers, "uts namespace", lambda: kernel.unshare(kernel.CLONE_NEWUTS, "uts")):
        socket.sethostname("sandbox")
    attempt(layers, "pid namespace", lambda: kernel.unshare(kernel.CLONE_NEWPID, "pid"))


def _own_user_namespace() -> None:
    """A user namespace in which this process has all capabilities and is known as :data:`NOBODY`.

    An ordinary user maps itself. Root maps the real nobody too, so that privileges can be dropped to it;
    that takes a process outside.
    """
    uid, gid = os.getuid(), os.getgid()
    if uid != 0:
        kernel.unshare(kernel.CLONE_NEWUSER, "user")
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{NOBODY} {uid} 1")
        _write("/proc/self/gid_map", f"{NOBODY} {gid} 1")
        return
    target = os.getpid()
    wait, ready = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(ready)
        os.read(wait, 1)
        status = 0
        try:
            for kind in ("uid_map", "gid_map"):
                _write(f"/proc/{target}/{kind}", f"0 0 1\n{NOBODY} {NOBODY} 1")
        except OSError as e:
            status = e.errno or 1
        os._exit(status)
    os.close(wait)
    try:
        kernel.unshare(kernel.CLONE_NEWUSER, "user")
        os.write(ready, b".")
    finally:
        os.close(ready)
        _, status = os.waitpid(helper, 0)
    if status:
        raise OSError(os.waitstatus_to_exitcode(status), "writing the user map")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def leave_files(paths: list[str], at: str) -> None:
    """A root of its own: an empty, read-only tmpfs with ``paths`` bound into it read-only; no /proc, no /dev.

    ``at`` is an existing folder to build it on. Call it in the process that stays: after the fork into the
    process namespace.
    """
    kernel.unshare(kernel.CLONE_NEWNS, "mount")
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    sources = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in paths]
    guard = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", at, "tmpfs", guard | kernel.MS_NOEXEC, "size=256k,mode=755")
    for path, fd in sources:
        target = at + path
        if stat.S_ISDIR(os.fstat(fd).st_mode):  # by fd: ``path`` itself may lie under ``at``, hidden by now
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            open(target, "x").close()
        kernel.mount(f"/proc/self/fd/{fd}", target, None, kernel.MS_BIND | kernel.MS_REC)
        # mount flags of the original can't be taken off inside a user namespace, so they're repeated
        kept = os.statvfs(target).f_flag & ~(os.ST_RELATIME)
        kernel.mount("none", target, None,
                     kept | guard | kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY)
        os.close(fd)
    kernel.mount("none", at, None,
                 guard | kernel.MS_NOEXEC | kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY)
    kernel.pivot_to(at)


def open_to_nobody(paths: list[str]) -> bool:
    """Whether every folder on the way to ``paths`` may be passed by anybody."""
    parents = {os.path.join("/", *parts[:n]) for parts in (p.strip("/").split("/") for p in paths)
               for n in range(1, len(parts) + 1)}
    return all(os.stat(p).st_mode & 0o001 for p in parents if os.path.isdir(p))


def drop_privileges(become_nobody: bool) -> None:
    """No capability, now or through an exec; nobody's ids; no dumps, so that no peer may trace it.

    Raises :class:`OSError` after all the rest when root may not become nobody.
    """
    last = 0
    while last < 64:
        try:
            kernel.prctl(kernel.PR_CAPBSET_DROP, last)
        except OSError:
            break  # past the kernel's last capability, or without CAP_SETPCAP (then there are none to gain)
        last += 1
    if os.getuid() == 0 and become_nobody:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    if os.getuid() == 0:
        raise OSError("still root, though without capabilities: Python lies where nobody else may read it")


def read_only(paths: list[str]) -> None:
    """Landlock: read beneath ``paths``, nothing else; no TCP."""
    if landlock.abi() == 0:
        raise OSError("this kernel has no Landlock (Linux 5.13+, enabled in lsm=)")
    landlock.only_read(paths)


def memory_in_use() -> tuple[int, int]:
    """``(address space, data)`` of this process in bytes; needs /proc."""
    with open("/proc/self/status", encoding="ascii") as f:
        sizes = {key: value.split()[0] for key, _, value in (line.partition(":") for line in f)
                 if key in ("VmSize", "VmData")}
    return int(sizes["VmSize"]) * 1024, int(sizes["VmData"]) * 1024


def limit_resources(address_space: int, data: int) -> None:
    """Hard limits of one child, but for processor time (:func:`limit_cpu`). Sizes in bytes, absolute."""
    limits = {
        resource.RLIMIT_AS: address_space, resource.RLIMIT_DATA: data, resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: 16, resource.RLIMIT_NPROC: 0, resource.RLIMIT_CORE: 0,
        resource.RLIMIT_STACK: 8 << 20, resource.RLIMIT_MEMLOCK: 0,
    }
    for which, value in limits.items():
        _, hard = resource.getrlimit(which)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))
    with contextlib.suppress(ValueError):  # gVisor has no message queues, nor this limit
        resource.setrlimit(resource.RLIMIT_MSGQUEUE, (0, 0))


def limit_cpu(pid: int, seconds: int) -> None:
    """Processor time of a child. The zygote alone sets it, so that a limit it raised is never set back."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
    resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, hard))
