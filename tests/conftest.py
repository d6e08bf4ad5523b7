"""For all tests: hypothesis without a deadline, since a busy machine is no failure of the code; W&B's offline files."""

import importlib.util
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import setuptools  # noqa: F401  (before anything imports distutils: vLLM's own import of it fails otherwise)
from hypothesis import Phase, settings

from pandora_train.config import home

settings.register_profile("no_deadline", deadline=None)
settings.register_profile("find_only", deadline=None, phases=(Phase.explicit, Phase.generate))  # scripts/mutants.py
settings.load_profile("no_deadline")

BLOCK, HEADER = 32768, 7


def _load_faults() -> Any:
    """``tests/faults/server.py``, which also runs alone, as a module."""
    spec = importlib.util.spec_from_file_location("faults_server", Path(__file__).parent / "faults" / "server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fault_server() -> Iterator[Callable[..., Any]]:
    """Start fault servers with the arguments of ``FaultServer``; all end with the test."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(_load_faults().FaultServer(*args, **kwargs))


@pytest.fixture(scope="session", autouse=True)
def fresh_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No replies, fingerprints or embeddings that an earlier session kept; only the models are the user's."""
    models = home() / "models"
    models.mkdir(parents=True, exist_ok=True)
    folder = tmp_path_factory.mktemp("home")
    (folder / "models").symlink_to(models)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PANDORA_HOME", str(folder))
        yield


@pytest.fixture
def wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], dict[Path, list[Any]]]:
    """A reader of all offline W&B runs under a run folder: file to records. W&B keeps to the test's folder."""
    for name in ("data", "config", "cache", "artifact"):
        monkeypatch.setenv(f"WANDB_{name.upper()}_DIR", str(tmp_path / name))
    return lambda run: {f: _closed(f) for f in sorted((run / "wandb").glob("offline-run-*/run-*.wandb"))}


def _closed(file: Path, seconds: float = 60) -> list[Any]:
    """All records, once W&B's own process has written the last one."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = list(_records(file))
        if any(r.HasField("exit") for r in found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{file} was never closed")


def _records(file: Path) -> Iterator[Any]:
    """The records of a ``.wandb`` file: LevelDB's log format after seven bytes."""
    from wandb.proto import wandb_internal_pb2

    data = file.read_bytes()
    assert data[:4] == b":W&B"
    at, parts = HEADER, b""
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + HEADER])
        if at + HEADER + size > len(data):
            return  # W&B is still writing this piece
        parts += data[at + HEADER : at + HEADER + size]
        at += HEADER + size
        if kind in (1, 4):  # full, last
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record
