"""Which layers really hold on this machine: found by attacks on the running sandbox, not by reading flags."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from pandora_train.box.box import Box, BoxSet
from pandora_train.errors import MachineryError, UserError
from pandora_train.records import Execution
from pandora_train.sandbox.config import SandboxConfig


class SandboxWarning(UserWarning):
    """A layer is missing on this machine; others still stand in for it."""


@dataclass(frozen=True)
class Capability:
    """One layer: whether it holds, and if not, why and what to do."""

    name: str
    active: bool
    detail: str = ""


# Each attack leaves True where it was stopped by exactly the layer it is named after.
_ATTACKS = """
import colorsys, errno, mmap, os, resource, socket

def stopped(attack, *numbers):
    try:
        attack()
    except OSError as e:
        return e.errno in numbers
    return False

secret = canary['path'].iloc[0]
result = [
    ['seccomp', stopped(os.pipe, errno.EPERM) and stopped(socket.socketpair, errno.EPERM)
                and stopped(lambda: os.memfd_create('x'), errno.EPERM)],
    ['mount namespace', stopped(lambda: os.stat(secret), errno.ENOENT)],
    ['landlock', stopped(lambda: os.listdir('/'), errno.EACCES)],
    ['files', stopped(lambda: open(secret), errno.ENOENT, errno.EACCES, errno.EPERM)],
    ['pid namespace', os.getppid() == 1],
    ['privileges', os.geteuid() != 0 and stopped(lambda: os.setuid(0), errno.EPERM)],
    ['environment', not any('PANDORA_CANARY' in k for k in os.environ)],
    ['limits', stopped(lambda: mmap.mmap(-1, int(canary['memory'].iloc[0])), errno.ENOMEM)
               and resource.getrlimit(resource.RLIMIT_NPROC) == (0, 0)],
    ['gvisor', list(os.uname()[2:4]) != canary['kernel'].iloc[0].split('|')],
]
"""
_MEND = {
    "user namespace": "on Ubuntu allow it by sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    "mount namespace": "needs CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN) or user namespaces; "
                       "meanwhile Landlock guards the files",
    "landlock": "needs Linux 5.13 or newer with lsm=landlock; meanwhile the mount namespace guards the files",
    "seccomp": "needs a Linux kernel with CONFIG_SECCOMP_FILTER on x86_64 or aarch64",
    "landlock scope": "needs Linux 6.12 or newer; meanwhile seccomp forbids signals and sockets",
}
_UNPROVEN = ("network namespace", "ipc namespace", "uts namespace", "landlock scope", "user namespace")


def probe(config: SandboxConfig, applied: dict[str, str],
          run: Callable[[BoxSet, str], Execution]) -> list[Capability]:
    """Attack the sandbox once. ``applied`` is what the zygote reports: layer to why not, empty if applied."""
    with tempfile.NamedTemporaryFile("w", prefix="pandora_canary_", suffix=".txt") as secret:
        secret.write("CANARY")
        secret.flush()
        os.chmod(secret.name, 0o644)
        beyond = (config.memory_mb + 64) << 20
        kernel = "|".join(os.uname()[2:4])
        frame = pd.DataFrame({"path": [secret.name], "memory": [beyond], "kernel": [kernel]})
        execution = run(BoxSet((Box("canary", frame),)), _ATTACKS)
    if execution.rows is None:
        raise MachineryError(f"the sandbox's self-test did not run: {execution.error}")
    proven = {str(name): held == "True" for name, held in execution.rows}
    if config.runner == "gvisor":
        applied = {n: r for n, r in applied.items() if not n.startswith("landlock")}
        del proven["landlock"]  # gVisor has none; its own file server gives the container's files alone
    else:
        del proven["gvisor"]
    found = [_judge(name, held, applied.get(name, "")) for name, held in proven.items()]
    found += [_judge(name, not applied[name], applied[name]) for name in _UNPROVEN if name in applied]
    return found


def _judge(name: str, held: bool, reason: str) -> Capability:
    if held and not reason:
        return Capability(name, True)
    why = reason or "an attack on it got through"
    return Capability(name, False, f"{why}; {_MEND[name]}" if name in _MEND else why)


def insist(config: SandboxConfig, found: list[Capability]) -> None:
    """Refuse or warn, as the missing layers ask for."""
    missing = {c.name: c.detail for c in found if not c.active}
    deadly = [n for n in ("seccomp", "files", "limits", "environment", "gvisor") if n in missing]
    if deadly and not config.unsafe:
        reasons = "; ".join(f"{n}: {missing[n]}" for n in deadly)
        raise UserError(f"this machine can't contain generated code ({reasons}); use another machine or a "
                        "container, or accept the risk with sandbox.unsafe=true")
    for name in ("mount namespace", "landlock", "pid namespace", "privileges", "network namespace", *deadly):
        if name in missing:
            text = f"sandbox without its layer '{name}': {missing[name]}"
            warnings.warn(text, SandboxWarning, stacklevel=4)
