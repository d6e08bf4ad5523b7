"""What the sandbox says and does on machines that lack a layer."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from pandora_train.errors import UserError
from pandora_train.sandbox import Sandbox

_spec = importlib.util.spec_from_file_location("sandbox_conftest", Path(__file__).with_name("conftest.py"))
assert _spec
assert _spec.loader
base = sys.modules.setdefault("sandbox_conftest", importlib.util.module_from_spec(_spec))
if not hasattr(base, "attacked"):
    _spec.loader.exec_module(base)


def on(kind: str) -> dict[str, Any]:
    """A harmless program on a machine of this kind, as whoever runs the tests."""
    found: dict[str, Any] = base.run_on(kind, 0, [{"id": "sum", "code": "result=df.x.sum()"}])
    return found


def test_a_whole_machine_has_every_layer_and_no_warning() -> None:
    found = on("")
    assert found["warnings"] == []
    assert all(found["capabilities"].values()), found["capabilities"]


def test_a_container_without_namespaces_warns_and_works() -> None:
    found = on("container")
    assert found["results"]["sum"]["rows"] == [["15.0"]]
    assert not found["capabilities"]["mount namespace"]
    assert found["capabilities"]["files"]
    assert any("mount namespace" in w and "Landlock" in w for w in found["warnings"])


def test_a_kernel_without_landlock_warns_and_works() -> None:
    found = on("no_landlock")
    assert found["results"]["sum"]["rows"] == [["15.0"]]
    assert any("landlock" in w for w in found["warnings"])


def test_without_seccomp_it_is_refused_with_the_way_out() -> None:
    refused = on("no_seccomp")["refused"]
    assert "seccomp" in refused
    assert "sandbox.unsafe=true" in refused


def test_with_nothing_to_guard_files_it_is_refused() -> None:
    assert "files" in on("bare")["refused"]


def test_elsewhere_than_linux_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UserError, match="Linux"):
        Sandbox()
