"""Triples in memory, indexed by head and by tail, ready for H-hop neighbourhoods.

Pairs of inverse relations that the ontology
declares are *one* edge here, kept in the direction with fewer values per subject, so that what belongs to
one node stands side by side in one BOX row; a query may name either direction (:meth:`Graph.locate`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Strings = Sequence[str] | npt.NDArray[np.object_]
LITERAL_RANGES = {"type.int", "type.float", "type.datetime", "type.boolean", "type.text", "type.rawstring"}
NUMBER = re.compile(r"[-+]?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")


@dataclass(frozen=True)
class Ontology:
    """What is declared about relations; all parts may be empty."""

    domain: Mapping[str, str] = field(default_factory=dict)
    range: Mapping[str, str] = field(default_factory=dict)
    reverse: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Graph:
    """Triples over integer ids. ``heads``, ``relations`` and ``tails`` are parallel and sorted by head."""

    nodes: npt.NDArray[np.object_]
    """Id to the name shown in BOX cells."""
    ids: Mapping[str, int]
    names: tuple[str, ...]
    """Relation id to relation name."""
    heads: Ints
    relations: Ints
    tails: Ints
    out_start: Ints
    """Triples of head ``n`` are ``out_start[n]:out_start[n + 1]``."""
    in_order: Ints
    in_start: Ints
    """Triples with tail ``n`` are ``in_order[in_start[n]:in_start[n + 1]]``."""
    literal: Flags
    """Nodes that are values (numbers, dates, text): a walk reaches them but does not go on from them."""
    numeric: Flags
    """Relations whose values are numbers."""
    domains: tuple[str, ...]
    """Relation id to the type of its subjects (declared, else the relation's own prefix), ``""`` if none."""
    ranges: tuple[str, ...]
    inverse: Mapping[str, str]
    """A relation that is kept only in the other direction, to the one kept."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Ids of the source (Freebase MIDs, IRIs) to node names."""
    types: Mapping[str, Ints] = field(default_factory=dict)
    """Explicit types (``rdf:type``) to their nodes; empty where types follow from relations."""
    node_type: Ints | None = None
    """Node to the rarest of its explicit types (position in ``types``), -1 for none."""
    notes: tuple[str, ...] = ()

    def locate(self, relation: str) -> tuple[str, bool]:
        """The kept relation for ``relation`` and whether it runs the other way."""
        kept = self.inverse.get(relation)
        return (kept, True) if kept is not None else (relation, False)

    def ends(self, relation: str, subject: bool) -> Ints:
        """All nodes that stand as subject (else as value) of ``relation``, ascending."""
        kept, back = self.locate(relation)
        mask = self.relations == (self.names.index(kept) if kept in self.names else -1)
        return np.unique((self.heads if subject != back else self.tails)[mask])

    def loops(self, relation: str) -> bool:
        """Whether ``relation`` leads some node to itself."""
        kept, _ = self.locate(relation)
        mask = self.relations == (self.names.index(kept) if kept in self.names else -1)
        return bool((self.heads[mask] == self.tails[mask]).any())

    def start(self, topic: str) -> Ints:
        """Node ids for a topic: a node name, an id of the source, or a type (all its nodes)."""
        node = self.ids.get(topic)
        if node is None:
            node = self.ids.get(self.aliases.get(topic, ""))
        if node is not None:
            return np.array([node])
        if topic in self.types:
            return self.types[topic]
        return np.unique(self.heads[np.isin(self.relations, self._typed(topic))])

    def _typed(self, kind: str) -> list[int]:
        return [i for i, domain in enumerate(self.domains) if domain == kind]

    def relation_flags(self, relations: Iterable[str]) -> Flags:
        """Mask over relation ids for R*; either direction of an inverse pair names it."""
        wanted = {self.locate(r)[0] for r in relations}
        return np.array([name in wanted for name in self.names], dtype=bool)

    def neighbourhood(self, topics: Iterable[str], hops: int, keep: Flags | None = None) -> Ints:
        """Positions of the triples within ``hops`` of the topics, over edges in both directions, ascending.

        Breadth first, each triple looked at once per end: time linear in the triples visited.
        """
        frontier = np.unique(np.concatenate([np.empty(0, np.int64), *map(self.start, topics)]))
        seen = np.zeros(len(self.nodes), dtype=bool)
        seen[frontier] = True
        reached = [np.empty(0, np.int64)]
        for _ in range(hops):
            if not len(frontier):
                break
            out = _ranges(self.out_start, frontier)
            into = self.in_order[_ranges(self.in_start, frontier)]
            edges = np.concatenate([out, into])
            ends = np.concatenate([self.tails[out], self.heads[into]])
            if keep is not None:
                allowed = keep[self.relations[edges]]
                edges, ends = edges[allowed], ends[allowed]
            reached.append(edges)
            new = np.unique(ends[~seen[ends]])
            seen[new] = True
            frontier = new[~self.literal[new]]
        return np.unique(np.concatenate(reached))


def _ranges(starts: Ints, nodes: Ints) -> Ints:
    """All positions ``starts[n]:starts[n + 1]`` for ``n`` in ``nodes``, concatenated."""
    begin, count = starts[nodes], starts[nodes + 1] - starts[nodes]
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    positions: Ints = np.repeat(begin, count) + offset
    return positions


def build(heads: Strings, relations: Strings, tails: Strings, ontology: Ontology,
          aliases: Mapping[str, str] | None = None) -> Graph:
    """Index triples of names. Duplicates are removed and inverse pairs folded into one direction."""
    size = len(heads)
    codes, nodes = pd.factorize(np.concatenate([np.asarray(heads, object), np.asarray(tails, object)]))
    relation, names = pd.factorize(np.asarray(relations, object))
    head, tail = codes[:size].astype(np.int64), codes[size:].astype(np.int64)
    head, relation, tail, inverse = _fold(head, relation.astype(np.int64), tail, list(names), ontology)
    order = np.lexsort((tail, relation, head))
    head, relation, tail = head[order], relation[order], tail[order]
    same = (np.diff(head) == 0) & (np.diff(relation) == 0) & (np.diff(tail) == 0)
    keep = np.concatenate([[True], ~same]) if size else np.zeros(0, bool)
    head, relation, tail = head[keep], relation[keep], tail[keep]
    domains = tuple(ontology.domain.get(n) or (n.rpartition(".")[0]) for n in names)
    ranges = tuple(ontology.range.get(n, "") for n in names)
    numeric = _numeric(nodes, relation, tail, ranges)
    valued = numeric | np.array([r in LITERAL_RANGES for r in ranges], dtype=bool)
    literal = np.ones(len(nodes), dtype=bool)
    literal[head] = False
    literal[tail[~valued[relation]]] = False
    return Graph(
        nodes=nodes, ids={n: i for i, n in enumerate(nodes)}, names=tuple(names),
        heads=head, relations=relation, tails=tail,
        out_start=_starts(head, len(nodes)), in_order=np.argsort(tail, kind="stable"),
        in_start=_starts(tail, len(nodes)), literal=literal, numeric=numeric,
        domains=domains, ranges=ranges, inverse=inverse, aliases=aliases or {},
    )


def _starts(ends: Ints, nodes: int) -> Ints:
    return np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=nodes))]).astype(np.int64)


def _fold(head: Ints, relation: Ints, tail: Ints, names: list[str], ontology: Ontology
          ) -> tuple[Ints, Ints, Ints, dict[str, str]]:
    """Turn the triples of each inverse pair into the direction with fewer values per subject."""
    position = {n: i for i, n in enumerate(names)}
    other = np.array([position.get(ontology.reverse.get(n, ""), -1) for n in names], dtype=np.int64)
    subjects = np.bincount(_distinct(relation, head), minlength=len(names))
    objects = np.bincount(_distinct(relation, tail), minlength=len(names))
    inverse: dict[str, str] = {}
    turned = np.zeros(len(names), dtype=bool)
    for n, name in enumerate(names):
        back = ontology.reverse.get(name, "")
        m = other[n]
        if not back or back == name:
            continue
        if m < 0:  # the other direction has no triple: a query may still name it
            inverse[back] = name
        elif n < m and other[m] == n:
            forward = subjects[n] + objects[m] > objects[n] + subjects[m]
            kept, gone = (n, m) if forward else (m, n)
            turned[gone] = True
            inverse[names[gone]] = names[kept]
    swap = turned[relation]
    new_head, new_tail = np.where(swap, tail, head), np.where(swap, head, tail)
    return new_head, np.where(swap, other[relation], relation), new_tail, inverse


def _distinct(relation: Ints, node: Ints) -> Ints:
    """The relation of each distinct (relation, node) pair."""
    pairs = np.unique(relation << 40 | node)
    return pairs >> 40


def _numeric(nodes: npt.NDArray[np.object_], relation: Ints, tail: Ints, ranges: tuple[str, ...]) -> Flags:
    """Declared as numbers, or undeclared and all values are numbers without leading zeros."""
    text = np.zeros(len(ranges), dtype=bool)
    open_ = np.array([r == "" for r in ranges], dtype=bool)
    candidates = open_[relation]
    is_number = np.zeros(len(nodes), dtype=bool)
    used = np.unique(tail[candidates])
    is_number[used] = [NUMBER.fullmatch(nodes[n]) is not None for n in used]
    text[relation[candidates & ~is_number[tail]]] = True
    declared = np.array([r in ("type.int", "type.float") for r in ranges], dtype=bool)
    numeric: Flags = declared | (open_ & ~text)
    return numeric
