"""Frames in the neutral form of :mod:`.inside.wire`, encoded once per BOX set."""

from __future__ import annotations

import datetime as dt
import decimal
import marshal
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pandora_train.box.box import BoxSet
from pandora_train.errors import UserError
from pandora_train.sandbox.inside.wire import WireColumn

_OBJECTS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    decimal.Decimal: ("Decimal", str), dt.date: ("date", dt.date.isoformat),
    dt.time: ("time", dt.time.isoformat), dt.datetime: ("datetime", dt.datetime.isoformat),
    pd.Timestamp: ("Timestamp", pd.Timestamp.isoformat),
    pd.Timedelta: ("Timedelta", str), type(pd.NaT): ("NaT", str), type(pd.NA): ("NA", str),
}
_PLAIN = (str, int, float, bool, bytes, type(None))


@dataclass(frozen=True)
class Encoded:
    """A BOX set as it is sent: marshalled description, block of buffers."""

    description: bytes
    block: bytes


@dataclass
class _Block:
    """Buffers one after the other, each at a multiple of 8."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, values: Any) -> WireColumn:
        """Store a one-dimensional numpy array of plain values."""
        data = np.ascontiguousarray(values)
        at = self.size
        raw = data.tobytes()
        pad = -len(raw) % 8
        self.parts += [raw, b"\0" * pad]
        self.size += len(raw) + pad
        return "plain", data.dtype.str, len(data), at


class BoxEncoder:
    """Encodes BOX sets and remembers each for as long as it lives. Frames must not change meanwhile."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[BoxSet, Encoded] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def __call__(self, boxes: BoxSet) -> Encoded:
        """The encoded set. Raises :class:`UserError` for cells that have no neutral form."""
        with self._lock:
            found = self._known.get(boxes)
            if found is None:
                found = self._known[boxes] = encode(boxes.frames())
            return found


def encode(frames: dict[str, pd.DataFrame]) -> Encoded:
    """Encode frames by name."""
    block = _Block()
    description = []
    for name, frame in frames.items():
        labels = [str(label) for label in frame.columns]
        if len(set(labels)) != len(labels):
            raise UserError(f"BOX '{name}' has two columns of the same name: rename one")
        standard = isinstance(frame.index, pd.RangeIndex) and frame.index.start == 0 and frame.index.step == 1
        try:
            index = None if standard else _column(pd.Series(frame.index), block)
            columns = [_column(frame.iloc[:, at], block) for at in range(len(labels))]
        except TypeError as e:
            raise UserError(f"BOX '{name}': {e}; convert it to text or numbers") from None
        description.append((name, len(frame), index, labels, columns))
    # version 2 has no references, so that equal frames give equal bytes
    return Encoded(marshal.dumps(description, 2), b"".join(block.parts))


def _column(values: pd.Series[Any], block: _Block) -> WireColumn:
    dtype = values.dtype
    if isinstance(dtype, pd.StringDtype):
        codes, texts = pd.factorize(values)
        return "text", [str(t) for t in texts], block.add(codes.astype(np.int32))
    if isinstance(dtype, np.dtype) and dtype.kind in "iufbMmc":
        return block.add(values.to_numpy())
    if isinstance(dtype, pd.DatetimeTZDtype):
        return "zoned", str(dtype.tz), block.add(values.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if isinstance(dtype, pd.CategoricalDtype):
        categories = _column(pd.Series(dtype.categories), block)
        return "category", categories, block.add(values.cat.codes.to_numpy()), bool(dtype.ordered)
    array: Any = values.array
    if hasattr(array, "_mask") and hasattr(array, "_data"):  # pandas' nullable numbers and bools
        return "masked", dtype.name, block.add(array._data), block.add(array._mask)
    return "objects", [_object(value, str(values.name)) for value in values.astype(object)]


def _object(value: Any, column: str) -> tuple[str, Any]:
    if type(value) in _PLAIN:
        return "", value
    if isinstance(value, np.generic):
        return _object(value.item(), column)
    if type(value) not in _OBJECTS:
        raise TypeError(f"column '{column}' holds a {type(value).__name__}")
    name, spell = _OBJECTS[type(value)]
    return name, spell(value)
