"""What GrailQA and WebQSP share: entity ids, and the fragments of Freebase whose nodes are names.

A *fragment* is a folder with ``triples.tsv`` (head, relation, tail, layers) and ``names.tsv`` (id, name). Its
nodes are names, only unnamed mediators keep their ids, while gold answers are ids: over a fragment topics
and answers are therefore given as names, and a question whose different gold answers share one name is not
usable. Over other stores (endpoints, RDF files) ids stay ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pandora_train.errors import UserError
from pandora_train.records import GraphKnowledge
from pandora_train.sources.reading import Stamp, lines, stamp, text
from pandora_train.sources.select import DataConfig, relations

MID = re.compile(r"[mg]\.[0-9a-z_]+")
"""An id of Freebase: of an entity or, without a name, of a mediator."""

NEAR = ["graph", "../graph", "../freebase_fragment"]
"""Where a fragment is looked for, from the benchmark's folder, when the config names no store."""

NO_GRAPH = "none"
"""``store``: no graph at all, for scoring answers given as ids; no question is left out for its topics."""


class Unusable(Exception):
    """A question that cannot be asked over this store; the message is the reason."""


@dataclass(frozen=True)
class Entity:
    """An entity or value by id, with the name that the benchmark gives it, if any."""

    id: str
    name: str = ""


@dataclass(frozen=True)
class Store:
    """A graph store and, for a fragment, its names and nodes."""

    path: str
    names: dict[str, str] | None = None
    """Id to node name; ``None`` when nodes are ids."""
    nodes: frozenset[str] = frozenset()

    def node(self, entity: Entity) -> str:
        """The node for an entity: on a fragment its name there, itself if it is a node, else its own name."""
        if self.names is None:
            return entity.id
        if entity.id in self.names:
            return self.names[entity.id]
        return entity.id if entity.id in self.nodes else entity.name or entity.id

    def answers(self, gold: list[Entity]) -> tuple[str, ...]:
        """Gold answers as they are compared. Raises :class:`Unusable` when two of them share a name."""
        found: dict[str, str] = {}
        for entity in gold:
            node = self.node(entity)
            if found.setdefault(node, entity.id) != entity.id:
                raise Unusable("different gold answers share a name in the fragment")
        return tuple(found)

    def topics(self, entities: Iterable[Entity]) -> tuple[str, ...]:
        """Topic nodes. Raises :class:`Unusable` when there is none, or none of them is in the fragment."""
        nodes = tuple(dict.fromkeys(self.node(e) for e in entities))
        if self.path == NO_GRAPH:
            return nodes or ("no topic entity",)
        if not nodes:
            raise Unusable("no topic entity")
        present = tuple(n for n in nodes if self.names is None or n in self.nodes)
        if not present:
            raise Unusable("no topic entity of it is in the fragment")
        return present

    def knowledge(self, config: DataConfig, topics: tuple[str, ...], hops: int) -> GraphKnowledge:
        """The topics' neighbourhood, as ``config`` wants it."""
        return GraphKnowledge(
            store=self.path,
            topics=topics,
            hops=config.hops or hops,
            relations=relations(config),
            layers=config.layers,
        )


def open_store(config: DataConfig, root: Path) -> Store:
    """The store of a config, else a fragment near the benchmark's folder (:data:`NEAR`).

    Raises :class:`UserError` when there is none.
    """
    if config.store == NO_GRAPH:
        return Store(NO_GRAPH)
    path = config.store or next(
        (str((root / n).resolve()) for n in NEAR if (root / n / "triples.tsv").is_file()), ""
    )
    if not path:
        raise UserError(
            f"{config.benchmark} needs a graph: set store=PATH (a fragment folder, an RDF file or a SPARQL "
            "endpoint's URL), or put a fragment in its folder graph/"
        )
    if path.startswith(("http://", "https://")):
        return Store(path)
    if not Path(path).exists():
        raise UserError(f"no graph store {path}")
    if (Path(path) / "names.tsv").is_file():
        return Store(path, *_fragment(Path(path), stamp(path)))
    return Store(path)


@lru_cache(maxsize=4)
def _fragment(folder: Path, _stamp: Stamp) -> tuple[dict[str, str], frozenset[str]]:
    """Names by id, and all nodes. Lines are split at tabs alone, so a node named ``null`` stays a name."""
    names: dict[str, str] = {}
    for number, line in lines(folder / "names.tsv"):
        identifier, tab, name = line.partition("\t")
        if not tab:
            raise UserError(f"{folder / 'names.tsv'}, line {number}: not id, tab, name")
        names[identifier] = name
    nodes: set[str] = set()
    for number, line in enumerate(text(folder / "triples.tsv").split("\n")[1:], 2):
        if line:
            fields = line.split("\t")
            if len(fields) < 3:
                raise UserError(f"{folder / 'triples.tsv'}, line {number}: not head, relation, tail")
            nodes.add(fields[0])
            nodes.add(fields[2])
    return names, frozenset(nodes)
