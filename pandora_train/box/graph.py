"""Knowledge graph to BOX (paper, section 3.3 and appendix B.3; where that fails taken literally, DESIGN.md).

One BOX per type. Its first field, named after the type, holds the subjects; each further field is a
relation, and what one subject has stands side by side in one row. A relation with several values per subject
is crossed in while the BOX stays within ``ROWS_PER_TRIPLE`` rows per triple; past that it becomes a BOX of
its own, ``<type>_<relation>``, with two fields and a foreign key. So every triple of the neighbourhood is in
exactly one place, and the size of all BOXes is linear in the triples. Counts must be over distinct subjects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from pandora_train.box.box import Box, BoxSet, ForeignKey, identifier
from pandora_train.box.store import open_graph
from pandora_train.box.triples import Graph, Ints
from pandora_train.records import GraphKnowledge

ROWS_PER_TRIPLE = 2
UNTYPED = "entity"
"""Type of subjects about which nothing is declared."""


def graph_boxes(knowledge: GraphKnowledge) -> BoxSet:
    """The BOXes of the topics' ``hops``-hop neighbourhood, over edges in both directions.

    Raises :class:`~pandora_train.errors.UserError` for a store that can't be read. A topic that is not in
    the graph is told in the notes.
    """
    graph = open_graph(knowledge)
    return boxes_of(graph, knowledge.topics, knowledge.hops, knowledge.relations)


def boxes_of(graph: Graph, topics: Iterable[str], hops: int,
             relations: Iterable[str] | None = None) -> BoxSet:
    """As :func:`graph_boxes`, over an open graph."""
    topics = tuple(topics)
    keep = None if relations is None else graph.relation_flags(relations)
    triples = graph.neighbourhood(topics, hops, keep)
    missing = [t for t in topics if not len(graph.start(t))]
    notes = graph.notes + tuple(f"topic '{t}' is not in the graph" for t in missing)
    if not topics:
        notes += ("no topic entity to start from",)
    used, local = np.unique(np.concatenate([graph.heads[triples], graph.tails[triples]]), return_inverse=True)
    heads, tails = local[: len(triples)], local[len(triples):]
    plans = list(_plans(graph, used, heads, graph.relations[triples], tails))
    names = _short({p.kind for p in plans})
    taken: set[str] = set()
    named = {p.kind: identifier(names[p.kind], taken) for p in plans}
    cells = pd.array(graph.nodes[used], dtype="str")
    built = [b for p in plans for b in _Builder(graph, cells, p, named[p.kind], taken).boxes()]
    return BoxSet(tuple(b for b, _ in built), tuple(_foreign_keys(graph, built)), notes)


@dataclass(frozen=True)
class _Field:
    """One relation of one type: subjects (ascending, repeated for several values) and values.

    Nodes are positions among those of the neighbourhood.
    """

    relation: int
    subjects: Ints
    values: Ints
    single: bool


@dataclass(frozen=True)
class _BoxPlan:
    """One type and its relations."""

    kind: str
    fields: list[_Field]


def _plans(graph: Graph, used: Ints, heads: Ints, relations: Ints, tails: Ints) -> Iterator[_BoxPlan]:
    """Group triples by type and relation. ``heads`` ascend, so subjects stay sorted within a group."""
    kinds, kind_names = _kinds(graph, used[heads], relations)
    order = np.lexsort((relations, kinds))
    heads, relations, tails, kinds = heads[order], relations[order], tails[order], kinds[order]
    if not len(heads):
        return
    change = (np.diff(kinds) != 0) | (np.diff(relations) != 0)
    bounds = np.concatenate([[0], np.flatnonzero(change) + 1, [len(heads)]]).tolist()
    repeated = np.concatenate([[False], (np.diff(heads) == 0) & ~change])
    several = np.add.reduceat(repeated, bounds[:-1]) > 0
    group: dict[int, list[_Field]] = {}
    for n, (start, end) in enumerate(pairwise(bounds)):
        one = _Field(int(relations[start]), heads[start:end], tails[start:end], not several[n])
        group.setdefault(int(kinds[start]), []).append(one)
    for kind, fields in sorted(group.items(), key=lambda item: kind_names[item[0]]):
        yield _BoxPlan(kind_names[kind], sorted(fields, key=lambda f: graph.names[f.relation]))


def _kinds(graph: Graph, heads: Ints, relations: Ints) -> tuple[Ints, list[str]]:
    """The type of each triple's subject: the relation's domain, else the subject's own type, else none."""
    names = list(dict.fromkeys([UNTYPED, *graph.types, *graph.domains]))
    position = {n: i for i, n in enumerate(names)}
    of_relation = np.array([position[d] if d else -1 for d in graph.domains], dtype=np.int64)
    kinds = of_relation[relations] if len(relations) else np.empty(0, np.int64)
    if graph.node_type is not None:
        own = np.array([position[t] for t in graph.types] + [-1], dtype=np.int64)
        kinds = np.where(kinds < 0, own[graph.node_type[heads]], kinds)
    return np.where(kinds < 0, 0, kinds), names


def _short(names: Iterable[str]) -> dict[str, str]:
    """The last segment of each dotted name, with as many of those before it as tell the names apart."""
    parts = {n: n.split(".") for n in names}
    short = {n: p[-1] for n, p in parts.items()}
    for size in range(2, 1 + max((len(p) for p in parts.values()), default=0)):
        clash = {s for s in short.values() if list(short.values()).count(s) > 1}
        if not clash:
            break
        short = {n: "_".join(parts[n][-size:]) if s in clash else s for n, s in short.items()}
    return short


class _Builder:
    """Lays the relations of one type into one BOX, and those with too many values into BOXes of their own."""

    def __init__(self, graph: Graph, cells: Any, plan: _BoxPlan, name: str, taken: set[str]) -> None:
        self.graph, self.cells, self.plan, self.name, self.taken = graph, cells, plan, name, taken
        subjects = np.unique(np.concatenate([f.subjects for f in plan.fields]))
        self.rows = subjects  # the subject of each row
        self.columns: list[tuple[_Field, Ints]] = []
        self.limit = ROWS_PER_TRIPLE * sum(len(f.values) for f in plan.fields)
        self.apart: list[_Field] = []

    def boxes(self) -> Iterator[tuple[Box, list[_Field]]]:
        """The type's BOX, then the two-column ones; each with the fields in the order of its columns."""
        subjects = self.rows
        for field in sorted((f for f in self.plan.fields if not f.single), key=lambda f: len(f.values)):
            self._cross(field)
        row = np.searchsorted(subjects, self.rows)
        for field in (f for f in self.plan.fields if f.single):
            value = np.full(len(subjects), -1, dtype=np.int64)
            value[np.searchsorted(subjects, field.subjects)] = field.values
            self.columns.append((field, value[row]))
        self.columns.sort(key=lambda item: self.graph.names[item[0].relation])
        labels = _short(self.graph.names[f.relation] for f in self.plan.fields)
        if self.columns:
            yield self._box(self.name, self.rows, self.columns, labels), [f for f, _ in self.columns]
        for field in self.apart:
            label = labels[self.graph.names[field.relation]]
            name = identifier(f"{self.name}_{label}", self.taken)
            yield self._box(name, field.subjects, [(field, field.values)], labels), [field]

    def _cross(self, field: _Field) -> None:
        """Combine each row with each value of its subject, unless that makes too many rows."""
        first = np.searchsorted(field.subjects, self.rows)
        count = np.searchsorted(field.subjects, self.rows, side="right") - first
        times = np.maximum(count, 1)
        if times.sum() > self.limit:
            self.apart.append(field)
            return
        row = np.repeat(np.arange(len(self.rows)), times)
        offset = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times)
        position = np.minimum(first[row] + offset, len(field.values) - 1)
        value = np.where(count[row] > 0, field.values[position], -1)
        self.rows = self.rows[row]
        self.columns = [(f, v[row]) for f, v in self.columns] + [(field, value)]

    def _box(self, name: str, rows: Ints, columns: list[tuple[_Field, Ints]], labels: dict[str, str]) -> Box:
        taken: set[str] = set()
        subject = _unused(self.name, taken)
        data = {subject: self.cells.take(rows)}
        original = {subject: self.plan.kind}
        for field, values in columns:
            relation = self.graph.names[field.relation]
            label = _unused(labels[relation], taken)
            original[label] = relation
            cells = self.cells.take(values, allow_fill=True)  # -1 is a missing value
            data[label] = _number(cells) if self.graph.numeric[field.relation] else cells
        return Box(name, pd.DataFrame(data, copy=False), self.plan.kind, original)


def _unused(name: str, taken: set[str]) -> str:
    base, n = name, 2
    while name in taken:
        name, n = f"{base}_{n}", n + 1
    taken.add(name)
    return name


def _number(cells: Any) -> Any:
    """Numbers as ``int64``, ``Int64`` or ``float64``; the cells as they are unless all are numbers."""
    text = pd.Series(cells)
    try:
        number = pd.to_numeric(text)
    except ValueError:
        return text
    whole = ~text.str.contains(r"[.eE]", regex=True, na=False).any()
    if whole and number.isna().any():
        return number.astype("Int64")
    return number


def _foreign_keys(graph: Graph, built: list[tuple[Box, list[_Field]]]) -> Iterator[ForeignKey]:
    """Fields whose values are subjects of another BOX: by the relation's range, else by a shared node."""
    mains = {b.original: b for b, _ in reversed(built)}
    subjects: dict[str, Ints] = {}
    for box, fields in built:
        subjects.setdefault(box.original, np.concatenate([f.subjects for f in fields]))
    for box, fields in built:
        main = mains[box.original]
        own = str(box.frame.columns[0])
        if main is not box:
            yield ForeignKey(box.name, own, main.name, own)
        for label, field in zip(map(str, box.frame.columns[1:]), fields, strict=True):
            kind = graph.ranges[field.relation] or (box.original if len(mains) == 1 else "")
            if kind in mains and np.isin(field.values, subjects[kind]).any():
                target = mains[kind]
                yield ForeignKey(box.name, label, target.name, str(target.frame.columns[0]))
