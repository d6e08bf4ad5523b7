"""Reading other people's files: each failure is one line that names the file and the line or entry."""

from __future__ import annotations

import csv
import errno
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pandora_train.errors import MachineryError, ReadingError, UserError, did_you_mean, first_line
from pandora_train.records import Example


@dataclass(frozen=True)
class Loaded:
    """The examples of one split in file order, and the questions that cannot be used, with the reason."""

    examples: list[Example]
    unusable: dict[str, str] = field(default_factory=dict)


class MissingFile(UserError):
    """A file that a layout may lack, such as a split that was not downloaded."""


def folder(path: str) -> Path:
    """``path`` as an existing folder."""
    root = Path(os.path.expanduser(path))  # Path.expanduser raises where there is no such home
    if not root.is_dir():
        hint = did_you_mean(root.name, [p.name for p in root.parent.glob("*") if p.is_dir()])
        raise UserError(f"no folder {root}{hint}")
    return root


def inside(root: Path, relative: str) -> Path:
    """``root / relative``, refused when it leaves ``root`` (absolute, ``..``, or a link out of it)."""
    path = root / relative
    if not path.resolve().is_relative_to(root.resolve()):
        raise UserError(f"'{relative}' leaves the folder {root}: paths in data files must stay inside it")
    return path


def first_file(root: Path, names: list[str]) -> Path:
    """The first of ``names`` that exists in ``root``. Raises :class:`MissingFile` naming all of them."""
    for name in names:
        if (root / name).is_file():
            return root / name
    raise MissingFile(f"{root} has no {' or '.join(names)}; `pandora data` tells where the original is")


Stamp = tuple[tuple[str, int, int, int, int], ...]


def stamp(path: str | Path) -> Stamp:
    """What makes a file the same: name, inode, size and times. Whatever is remembered of a file's content
    is remembered under its stamp.

    A folder's is that of the files in it; a database's write-ahead log counts with it. Empty for what is
    no path.
    """
    place = os.path.expanduser(path)
    names = [place, f"{place}-wal"]
    if os.path.isdir(place):
        names = [os.path.join(place, name) for name in sorted(os.listdir(place))]
    states = [(name, os.stat(name)) for name in names if os.path.isfile(name)]
    return tuple((name, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in states)


def text(path: Path) -> str:
    """A UTF-8 file's text, without a byte order mark."""
    try:
        data = path.read_bytes()
    except OSError as e:
        raise UserError(f"cannot read {path}: {e.strerror or e}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise UserError(f"{path}, line {line}: not UTF-8; convert it (iconv -f latin1 -t utf-8)") from None


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines (from 1) without their ends, blank ones left out; split at line feeds only."""
    for number, line in enumerate(text(path).split("\n"), 1):
        if line.strip():
            yield number, line.rstrip("\r")


def read_json(path: Path) -> Any:
    """A JSON file."""
    try:
        return json.loads(text(path))
    except ValueError as e:
        raise UserError(f"{path}: not valid JSON ({e})") from None


def checked(path: Path, entries: Any, required: list[str]) -> list[dict[str, Any]]:
    """``entries`` as a list of objects that all have the ``required`` keys."""
    if not isinstance(entries, list):
        raise UserError(f"{path} must hold a JSON list, not {type(entries).__name__}")
    for number, entry in enumerate(entries, 1):
        missing = [k for k in required if not isinstance(entry, dict) or k not in entry]
        if missing:
            raise UserError(f"{path}, entry {number}: no {', '.join(missing)}")
    return entries


def records(path: Path, required: list[str]) -> list[dict[str, Any]]:
    """A JSON file that holds a list of objects with the ``required`` keys."""
    return checked(path, read_json(path), required)


@contextmanager
def entry(path: Path, number: int) -> Iterator[None]:
    """What goes wrong inside because entry ``number`` is out of form becomes one :class:`UserError`."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as e:
        problem = " ".join(str(e).split())[:160]
        message = f"{path}, entry {number}: not in the expected form ({type(e).__name__}: {problem})"
        raise UserError(message) from None


@contextmanager
def readable(source: str) -> Iterator[None]:
    """What goes wrong inside because ``source`` can't be read becomes one :class:`ReadingError`.

    A database that another program holds locked is no fault of its data: :class:`MachineryError`.
    """
    try:
        yield
    except ReadingError:
        raise
    except UserError as e:
        raise ReadingError(first_line(e)) from None
    except sqlite3.Error as e:
        if getattr(e, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise MachineryError(f"{source} is locked by another program") from None
        raise ReadingError(f"{source} cannot be read as a SQLite database: {first_line(e)}") from None
    except OSError as e:
        if e.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO):  # no fault of the file's
            raise MachineryError(f"{source}: {first_line(e)}") from None
        raise ReadingError(f"{source} cannot be read: {first_line(e)}") from None
    except (SyntaxError, ValueError, OverflowError, csv.Error) as e:
        raise ReadingError(f"{source} cannot be read: {first_line(e)}") from None


def numbered(ids: dict[str, int], base: str) -> str:
    """``base``, or ``base-2``, ``base-3`` … when it was given before (``ids`` keeps count)."""
    ids[base] = ids.get(base, 0) + 1
    return base if ids[base] == 1 else f"{base}-{ids[base]}"
