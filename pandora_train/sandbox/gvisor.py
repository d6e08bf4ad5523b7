"""The stronger runner: the same zygote inside gVisor, a kernel of its own between code and ours.

The container (OCI) holds the interpreter, its libraries and what the sandbox may read anyway, no network; the
zygote's own layers apply inside it as far as gVisor knows them. Descriptors can't be handed out of gVisor, so
children connect to a socket in the container instead; that is the only thing shared with the host.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pandora_train.errors import UserError

DOOR = "/run/sandbox"


class Container:
    """One gVisor container, ready to be started, and the door through which its children come.

    Raises :class:`UserError` when ``runsc`` isn't there.
    """

    def __init__(self) -> None:
        found = shutil.which("runsc")
        if found is None:
            raise UserError("sandbox.runner=gvisor needs runsc on the PATH "
                            "(https://gvisor.dev/docs/user_guide/install); or leave runner at local")
        self._runsc, self._id = found, f"pandora-{uuid.uuid4().hex[:12]}"
        self._folder = Path(tempfile.mkdtemp(prefix="pandora_gvisor_"))
        door = self._folder / "door"
        for path in (self._folder / "rootfs", self._folder / "state", door):
            path.mkdir(mode=0o755)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(door / "children"))
        (door / "children").chmod(0o777)
        self.listener.listen(128)

    def start(self, arguments: list[str], environment: Mapping[str, str], readable: list[str],
              control: int) -> subprocess.Popen[bytes]:
        """Start ``python *arguments`` in the container with ``control`` as its standard input."""
        interpreter = os.path.realpath(sys.executable)
        shown = sorted({*readable, interpreter, *_libraries()})
        spec = _spec([interpreter, *arguments], environment, shown, str(self._folder / "door"))
        (self._folder / "config.json").write_text(json.dumps(spec), encoding="utf-8")
        command = [*self._command(), "run", "--bundle", str(self._folder), self._id]
        with (self._folder / "log").open("wb") as log:
            return subprocess.Popen(command, stdin=control, stdout=subprocess.DEVNULL, stderr=log)

    def _command(self) -> list[str]:
        flags = subprocess.run([self._runsc, "flags"], capture_output=True, text=True, check=False)
        new = re.search(r"(?m)^\s*-host-uds\b", flags.stdout + flags.stderr)
        door = "--host-uds=open" if new else "--fsgofer-host-uds"  # the latter before 2023
        user = [] if os.geteuid() == 0 else ["--rootless"]
        state = str(self._folder / "state")
        return [self._runsc, "--root", state, "--network=none", "--ignore-cgroups", door, *user]

    def why(self) -> str:
        """The last thing that runsc said."""
        with contextlib.suppress(OSError):
            lines = (self._folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""

    def close(self) -> None:
        """Remove the container and everything of it."""
        self.listener.close()
        subprocess.run([*self._command(), "delete", "--force", self._id], capture_output=True, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)


def _libraries() -> set[str]:
    """Folders of the system's shared libraries under each of their names, and Python's own library."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as f:
        mapped = {line.split(maxsplit=5)[-1].strip() for line in f if ".so" in line}
    folders = {os.path.dirname(path) for path in mapped if path.startswith(("/lib", "/usr/lib"))}
    folders = {p for p in folders if "python" not in p}
    names = folders | {p.removeprefix("/usr") for p in folders} | {"/lib64", "/usr/lib64"}
    own = {path for path in mapped if os.path.basename(path).startswith("libpython")}
    return {p for p in names if os.path.isdir(p)} | own


def _spec(arguments: list[str], environment: Mapping[str, str], shown: list[str],
          door: str) -> dict[str, Any]:
    """The container's OCI description (https://github.com/opencontainers/runtime-spec)."""
    shared = [*((os.path.realpath(path), path) for path in shown), (door, DOOR)]
    mounts: list[dict[str, Any]] = [{"destination": "/proc", "type": "proc", "source": "proc"}]
    mounts += [{"destination": there, "source": here, "type": "bind", "options": ["bind", "ro"]}
               for here, there in shared]
    return {
        "ociVersion": "1.0.2", "hostname": "sandbox", "root": {"path": "rootfs", "readonly": True},
        "process": {"terminal": False, "user": {"uid": 65534, "gid": 65534}, "args": arguments, "cwd": "/",
                    "env": [f"{k}={v}" for k, v in environment.items()], "noNewPrivileges": True},
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")]},
    }
