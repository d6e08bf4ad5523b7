"""Every attack on every kind of machine ends as it may. One sandbox a machine runs them all."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

_spec = importlib.util.spec_from_file_location("sandbox_conftest", Path(__file__).with_name("conftest.py"))
assert _spec
assert _spec.loader
base = sys.modules.setdefault("sandbox_conftest", importlib.util.module_from_spec(_spec))
if not hasattr(base, "attacked"):
    _spec.loader.exec_module(base)

MACHINES = [pytest.param(("", 0), id="root"), pytest.param(("", base.USER), id="user"),
            pytest.param(("container", 0), id="container", marks=pytest.mark.slow),
            pytest.param(("no_sys_admin", 0), id="no_sys_admin", marks=pytest.mark.slow)]
SHARED = base.shared_attacks()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("name", "code", "expected"), base.own.ATTACKS, ids=[a[0] for a in base.own.ATTACKS])
def test_own_attack_is_contained(machine: tuple[str, int], name: str, code: str, expected: list[str]) -> None:
    execution = base.attacked(*machine)["results"][f"own_{name}"]
    assert base.outcomes(execution) & set(expected), execution


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("attack", SHARED or [pytest.param(None, marks=pytest.mark.skip("no ../shared/sandbox"))],
                         ids=[a["id"] for a in SHARED] or ["absent"])
def test_shared_attack_is_contained(machine: tuple[str, int], attack: dict[str, Any]) -> None:
    found = base.attacked(*machine)
    execution = found["results"][attack["id"]]
    assert base.outcomes(execution) & set(attack["expected"]), execution
    if "line" in attack and execution["error"]:
        lines = attack["line"] if isinstance(attack["line"], list) else [attack["line"]]
        assert execution["error"]["line"] in lines
    if "followup" in attack:
        assert attack["followup_expected"] in base.outcomes(found["followups"][attack["id"]])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", base.own.NUMBERS)
def test_system_call_is_refused(machine: tuple[str, int], name: str) -> None:
    rows = {row[0]: row[1:] for row in base.attacked(*machine)["results"]["syscalls"]["rows"]}
    assert rows[name] == ["-1", "1"]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", base.own.STATE)
def test_nothing_stays_for_the_next_execution(machine: tuple[str, int], name: str) -> None:
    after = base.attacked(*machine)["followups"][f"state_{name}"]
    cells = after["rows"][0]
    assert cells[:6] == ["6", "15.0", "2", "['a', 'b']", "0.8444218515250481", "0.5488135039273248"]
    assert cells[6:] == [None, "28", "60", "1000", "warn", "False"]


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_outside_was_touched(machine: tuple[str, int]) -> None:
    assert base.attacked(*machine)["harm"] == []


@pytest.mark.parametrize("machine", MACHINES)
def test_secrets_are_nowhere_in_the_answers(machine: tuple[str, int]) -> None:
    assert "CANARY" not in json.dumps(base.attacked(*machine)["results"]).replace("CANARY' in v", "")
