"""What the sandbox's tests share: one running sandbox, and attack runs on machines of every kind."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from pandora_train.box.box import Box, BoxSet
from pandora_train.sandbox import Sandbox, SandboxConfig

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
USER = 1000


def load(name: str) -> ModuleType:
    """A module beside the tests (they are no package)."""
    spec = importlib.util.spec_from_file_location(f"sandbox_tests_{name}", HERE / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


own = load("own_attacks")
SHARED_FILE = ROOT.parent / "shared" / "sandbox" / "attacks.jsonl"


def shared_attacks() -> list[dict[str, Any]]:
    """The measured attacks handed down with the design, where they are at hand."""
    if not SHARED_FILE.exists():
        return []
    return [json.loads(line) for line in SHARED_FILE.read_text(encoding="utf-8").splitlines()]


def _everybodys_python() -> str | None:
    """An interpreter of this version that an ordinary user may run."""
    for path in (os.path.realpath(sys.executable), f"/usr/bin/python3.{sys.version_info.minor}"):
        if os.path.exists(path) and all(p.stat().st_mode & 1 for p in Path(path).parents):
            return path
    return None


@functools.cache
def attacked(kind: str, uid: int) -> dict[str, Any]:
    """All attacks on a machine of ``kind`` (see run_attacks.py) as user ``uid``; skips where it can't be made."""
    if os.getuid() != 0 and (uid != USER or kind == "no_sys_admin"):
        pytest.skip("needs root to start from")
    python = _everybodys_python()
    if python is None:
        pytest.skip("no Python here that an ordinary user may run")
    attacks: list[dict[str, Any]] = [{"id": "syscalls", "code": own.SYSCALLS}]
    attacks += [{"id": a["id"], "code": a["code"], "followup": a.get("followup"), "wall": _wall(a["expected"])}
                for a in shared_attacks()]
    attacks += [{"id": f"own_{name}", "code": code, "wall": _wall(expected)} for name, code, expected in own.ATTACKS]
    attacks += [{"id": f"state_{name}", "code": code, "followup": own.FOLLOWUP} for name, code in own.STATE.items()]
    return run_on(kind, uid, attacks, python)


def _wall(expected: list[str]) -> float:
    return 0.8 if expected[0] == "timeout" else 30  # generous: machines of many tests are slow


def run_on(kind: str, uid: int, attacks: list[dict[str, Any]], python: str | None = None) -> dict[str, Any]:
    """Run attacks in a process of their own."""
    folders = [str(ROOT), sysconfig.get_paths()["purelib"]]
    done = subprocess.run(
        [python or sys.executable, str(HERE / "run_attacks.py"), kind, str(uid)], input=json.dumps(attacks),
        capture_output=True, text=True, timeout=600, cwd="/", env={"PYTHONPATH": ":".join(folders), "PATH": "/usr/bin"})
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def outcomes(execution: dict[str, Any]) -> set[str]:
    """Every name by which an attack may list this outcome as acceptable."""
    kind = execution["outcome"]
    names = {kind}
    if kind == "result":
        names.add("value:" + json.dumps(execution["rows"]))
        if execution["rows"] and execution["rows"][0][:1] == ["BLOCKED"]:
            names.add("blocked")
    elif kind == "error":
        names.add("error:" + execution["error"]["type"])
    elif kind in ("signal", "exit"):
        names.add(f"{kind}:{execution['code']}")
    return names


def tiny_boxes() -> BoxSet:
    """The frame that the attacks expect."""
    frame = pd.DataFrame({"k": list("ababab"), "x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]})
    return BoxSet((Box("df", frame),))


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(SandboxConfig(wall=20, memory_mb=500, workers=2)) as running:
        yield running


@pytest.fixture(scope="session")
def boxes() -> BoxSet:
    return tiny_boxes()
