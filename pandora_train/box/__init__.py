"""Raw knowledge to BOX sets, and what a prompt shows of them."""

from __future__ import annotations

import threading
from collections import OrderedDict

from pandora_train.box.box import Box, BoxSet, ForeignKey, identifier
from pandora_train.box.database import database_boxes
from pandora_train.box.graph import graph_boxes
from pandora_train.box.schema import Schema, schema_of, schema_text
from pandora_train.box.table import table_boxes
from pandora_train.errors import ReadingError
from pandora_train.records import DatabaseKnowledge, GraphKnowledge, Knowledge, TableKnowledge
from pandora_train.sources.reading import readable, stamp

__all__ = ["Box", "BoxSet", "ForeignKey", "Schema", "boxes_for", "identifier", "schema_of", "schema_text"]

KEPT = 64
_cache: OrderedDict[object, BoxSet] = OrderedDict()
_building: dict[object, threading.Lock] = {}
_lock = threading.Lock()


def boxes_for(knowledge: Knowledge) -> BoxSet:
    """The BOXes of a table, a database or a graph's neighbourhood.

    The last ``KEPT`` sets are remembered: equal knowledge over an unchanged file gives the identical object,
    from any thread, built once. Its frames are shared, so nobody may write to them. Raises
    :class:`~pandora_train.errors.ReadingError` for data that is missing, cannot be read or holds no field,
    :class:`~pandora_train.errors.MachineryError` for a SPARQL endpoint that is down or broken.
    """
    source = knowledge.store if isinstance(knowledge, GraphKnowledge) else knowledge.path
    with readable(source):
        key = (knowledge, stamp(source))
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
            boxes = _read(knowledge, source)
            return boxes
        finally:
            with _lock:
                _building.pop(key, None)
                if boxes is not None:
                    _cache[key] = boxes
                while len(_cache) > KEPT:
                    _cache.popitem(last=False)


def _read(knowledge: Knowledge, source: str) -> BoxSet:
    """The BOXes, at least one of them with a field."""
    with readable(source):
        boxes = _build(knowledge)
    if not any(len(box.frame.columns) for box in boxes):
        raise ReadingError("; ".join([f"{source} holds no table for this question", *boxes.notes]))
    return boxes


def _build(knowledge: Knowledge) -> BoxSet:
    if isinstance(knowledge, TableKnowledge):
        return table_boxes(knowledge)
    if isinstance(knowledge, DatabaseKnowledge):
        return database_boxes(knowledge)
    return graph_boxes(knowledge)
