"""The same zygote under gVisor, where ``runsc`` is installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from pandora_train.box.box import BoxSet
from pandora_train.errors import UserError
from pandora_train.sandbox import Sandbox, SandboxConfig


def test_without_runsc_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UserError, match="needs runsc on the PATH"):
        Sandbox(SandboxConfig(runner="gvisor"))


@pytest.fixture(scope="module")
def inside() -> Iterator[Sandbox]:
    if shutil.which("runsc") is None:
        pytest.skip("runsc isn't installed")
    with Sandbox(SandboxConfig(runner="gvisor", workers=2, wall=60)) as running:
        yield running


def test_every_layer_of_the_container_holds(inside: Sandbox) -> None:
    found = {c.name: c.active for c in inside.capabilities()}
    assert found["gvisor"]
    assert all(found.values()), found


def test_it_gives_the_same_answers(inside: Sandbox, sandbox: Sandbox, boxes: BoxSet) -> None:
    for code in ("result = df.groupby('k').x.sum().reset_index()", "result = np.random.rand()", "result = df['nope']",
                 "import ctypes\nctypes.string_at(0)", "import os\nos._exit(3)"):
        ours, theirs = (s.run(boxes, code).model_copy(update={"seconds": 0.0}) for s in (sandbox, inside))
        assert ours == theirs


def test_time_is_limited_and_the_line_told(inside: Sandbox, boxes: BoxSet) -> None:
    execution = inside.run(boxes, "x = 0\nwhile True: x += 1", wall=1)
    assert execution.outcome == "timeout"


@pytest.mark.parametrize("attack", [
    "open('/etc/passwd')", "open('/tmp/x', 'w')", "import socket; socket.socket()", "import os; os.fork()",
    "import os; os.kill(1, 0)", "import os; os.listdir('/root/.ssh')",
])
def test_attacks_are_refused(inside: Sandbox, boxes: BoxSet, attack: str) -> None:
    assert inside.run(boxes, attack).outcome == "error"


def test_standard_input_leads_nowhere(inside: Sandbox, boxes: BoxSet) -> None:
    error = inside.run(boxes, "result = input()").error
    assert error
    assert error.type == "EOFError"
