"""Raw knowledge to BOX sets, and what a prompt shows of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from pandora_train.box.box import Box, BoxSet, ForeignKey, identifier
from pandora_train.box.schema import Schema, schema_of, schema_text
from pandora_train.errors import reading
from pandora_train.records import DatabaseKnowledge, GraphKnowledge, Knowledge, TableKnowledge

__all__ = ["Box", "BoxSet", "ForeignKey", "Schema", "boxes_for", "identifier", "schema_of", "schema_text"]

KEPT = 64
_cache: OrderedDict[object, BoxSet] = OrderedDict()
_building: dict[object, threading.Lock] = {}
_lock = threading.Lock()


def boxes_for(knowledge: Knowledge) -> BoxSet:
    """The BOXes of a table, a database or a graph's neighbourhood.

    The last ``KEPT`` sets are remembered: equal knowledge over an unchanged file gives the identical object,
    from any thread, built once. Its frames are shared, so nobody may write to them. Raises
    :class:`~pandora_train.errors.ReadingError` for what is missing or cannot be read, whatever the reader
    stumbled over, and :class:`~pandora_train.errors.MachineryError` for an endpoint that is away.
    """
    key = (knowledge, _stamp(knowledge))
    with _lock:
        if key in _cache:
            _cache.move_to_end(key)
            return _cache[key]
        building = _building.setdefault(key, threading.Lock())
    with building:
        with _lock:
            if key in _cache:  # another thread built it meanwhile
                return _cache[key]
        boxes: BoxSet | None = None
        try:
            with reading(knowledge.store if knowledge.kind == "graph" else knowledge.path):
                boxes = _build(knowledge)
            return boxes
        finally:
            with _lock:
                _building.pop(key, None)
                if boxes is not None:
                    _cache[key] = boxes
                while len(_cache) > KEPT:
                    _cache.popitem(last=False)


def _build(knowledge: Knowledge) -> BoxSet:
    if isinstance(knowledge, TableKnowledge):
        from pandora_train.box.table import table_boxes

        return table_boxes(knowledge)
    if isinstance(knowledge, DatabaseKnowledge):
        from pandora_train.box.database import database_boxes

        return database_boxes(knowledge)
    from pandora_train.box.graph import graph_boxes

    return graph_boxes(knowledge)


def _stamp(knowledge: Knowledge) -> tuple[int, int]:
    """Time and size of the file behind a table or database, so that a changed file is read again."""
    if isinstance(knowledge, GraphKnowledge) or not Path(knowledge.path).is_file():
        return 0, 0
    status = Path(knowledge.path).stat()
    return status.st_mtime_ns, status.st_size
