"""The keys of a stage, one command away."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from rich.cells import cell_len

from pandora_train.errors import UserError
from pandora_train.keys import STAGES, stage_keys


def shown(stage: str, width: int) -> str:
    done = subprocess.run([sys.executable, "-m", "pandora_train.cli", "keys", stage], capture_output=True, text=True,
                          env=os.environ | {"COLUMNS": str(width)})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("stage", list(STAGES))
def test_every_key_has_a_meaning(stage: str) -> None:
    keys = stage_keys(stage)
    assert keys
    assert [k for k, _, meaning in keys if not meaning] == []
    assert len({k for k, _, _ in keys}) == len(keys)


def test_keys_are_dotted_with_the_defaults_of_their_stage() -> None:
    keys = {key: (default, meaning) for key, default, meaning in stage_keys("evaluate")}
    assert keys["workers"] == ("16", "Questions in flight.")
    assert keys["llm.temperature"][0] == "0.0"
    assert keys["data[].benchmark"][0] == "(required)"
    assert keys["data[].part"][0] == "''"
    assert keys["agent.prompt.format"][0] == "fenced"
    assert "``" not in keys["agent.prompt.format"][1]
    ask = {key: default for key, default, _ in stage_keys("ask")}
    assert ask["agent.rounds"] == "3"


@pytest.mark.parametrize("stage", ["evaluate", "train"])
def test_only_meanings_are_wrapped(stage: str) -> None:
    lines = shown(stage, 80).splitlines()
    assert all(cell_len(line.rstrip()) <= 80 for line in lines)
    first = {line.split()[0] for line in lines if line.strip() and not line.startswith("   ")}
    assert {key for key, _, _ in stage_keys(stage)} <= first


def test_an_unknown_stage_names_the_known() -> None:
    with pytest.raises(UserError, match="did you mean 'evaluate'"):
        stage_keys("evaluat")
