"""GrailQA: exact match of logical forms, as the official script decides it: isomorphic query graphs.

An s-expression becomes a graph: nodes are entities, literals and classes, edges are relations in both
directions where the ontology knows the reverse. Two forms are the same when some pairing of nodes keeps
labels and edges. The ontology's three files (``fb_roles``, ``fb_types``, ``reverse_properties``) come with
the data set.

Declared deviations: the official matcher removes a node's function from the graph while comparing, so its
verdict on forms with COUNT, ARGMAX or comparisons can hang on the order of comparisons; ours compares
functions each time. Literals in quotes may hold spaces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from pandora_train.errors import UserError
from pandora_train.sexpr import SExpression, parse_sexpr
from pandora_train.sources.reading import Stamp, lines, stamp

COMPARISONS = {"le": "<=", "ge": ">=", "lt": "<", "gt": ">"}


@dataclass(frozen=True)
class Ontology:
    """Freebase as the benchmark's files describe it."""

    roles: dict[str, tuple[str, str]]
    """Relation to (domain, range)."""
    supertypes: dict[str, frozenset[str]]
    types: frozenset[str]
    reverse: dict[str, str]


@dataclass(frozen=True)
class Node:
    """A node's label."""

    id: str
    type: str
    function: str = "none"
    constraint: tuple[str, ...] = ()
    """A time constraint (TC)."""


@dataclass(frozen=True)
class Graph:
    """Nodes by number from 1, the question's node last; edges (from, to) to relations, sorted."""

    nodes: dict[int, Node]
    edges: dict[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return len(self.nodes)

    def moved(self, to: dict[int, int]) -> Graph:
        """The same graph under other numbers; numbers not in ``to`` stay."""
        return Graph({to.get(n, n): node for n, node in self.nodes.items()},
                     {(to.get(a, a), to.get(b, b)): relations for (a, b), relations in self.edges.items()})

    def joined(self, over: Graph) -> Graph:
        """Both graphs in one; where a number is in both, the label of ``over`` counts."""
        return Graph(self.nodes | over.nodes, self.edges | over.edges)

    def labelled(self, number: int, **changes: str | tuple[str, ...]) -> Graph:
        """The graph with one node's label changed."""
        return Graph(self.nodes | {number: replace(self.nodes[number], **changes)}, self.edges)  # type: ignore[arg-type]


def load_ontology(folder: Path) -> Ontology | None:
    """Read the three files from ``folder`` or its ``ontology`` folder; ``None`` when one is missing.

    Raises :class:`UserError` naming the file and line that doesn't hold what it should.
    """
    for place in (folder, folder / "ontology"):
        files = (place / "fb_roles", place / "fb_types", place / "reverse_properties")
        if all(file.is_file() for file in files):
            return _ontology(files, tuple(stamp(file) for file in files))
    return None


@lru_cache(maxsize=4)
def _ontology(files: tuple[Path, Path, Path], _stamps: tuple[Stamp, ...]) -> Ontology:
    roles, types, reverse = (_words(file, size) for file, size in zip(files, (3, 3, 2), strict=True))
    supertypes: defaultdict[str, set[str]] = defaultdict(set)
    for lower, _, upper in types:
        supertypes[lower].add(upper)
    return Ontology(
        roles={relation: (domain, range_) for domain, relation, range_ in roles},
        supertypes={lower: frozenset(upper) for lower, upper in supertypes.items()},
        types=frozenset(name for lower, _, upper in types for name in (lower, upper)),
        reverse=dict(reverse),
    )


def _words(file: Path, size: int) -> list[list[str]]:
    """The first ``size`` words of each line."""
    words = [(number, line.split()[:size]) for number, line in lines(file)]
    for number, row in words:
        if len(row) < size:
            raise UserError(f"{file}, line {number}: fewer than {size} words")
    return [row for _, row in words]


def same_logical_form(a: str, b: str, ontology: Ontology) -> bool:
    """Whether two s-expressions have isomorphic query graphs; one that can't be read equals nothing."""
    if "@@UNKNOWN@@" in a or "@@UNKNOWN@@" in b:
        return False
    try:
        first, second = _graph(parse_sexpr(a), ontology), _graph(parse_sexpr(b), ontology)
    except (ValueError, IndexError, KeyError, TypeError, RecursionError):
        return False
    return isomorphic(first, second)


def _graph(form: SExpression, ontology: Ontology) -> Graph:
    if isinstance(form, str):
        return _leaf(form, ontology)
    head = form[0]
    if head == "R":
        graph = _graph(form[1], ontology)
        return graph.moved({n: graph.last - n + 1 for n in graph.nodes})
    if head == "COUNT":
        graph = _graph(form[1], ontology)
        return graph.labelled(graph.last, function="count")
    if head == "TC":
        graph = _graph(form[1], ontology)
        return graph.labelled(graph.last, constraint=tuple(str(part) for part in form[2:4]))
    first, second = _graph(form[1], ontology), _graph(form[2], ontology)
    if head == "JOIN" or head in COMPARISONS:
        graph = _join(first, second, ontology)
        return graph if head == "JOIN" else graph.labelled(1, function=COMPARISONS[str(head)])
    if head == "AND":
        return _meet(first, second)
    if isinstance(head, str) and "ARG" in head:
        return _meet(first, second.labelled(1, id="0", type="literal", function=head.lower()))
    raise ValueError(f"unknown operator {head}")


def _leaf(symbol: str, ontology: Ontology) -> Graph:
    """An entity, literal or class is one node; a relation two, the domain's (last) and the range's."""
    if "^^" in symbol:
        return Graph({1: Node(symbol, "literal")})
    if symbol in ontology.types:
        return Graph({1: Node(symbol, "class")})
    if symbol not in ontology.roles:
        return Graph({1: Node(symbol, "entity")})
    domain, range_ = ontology.roles[symbol]
    edges: dict[tuple[int, int], tuple[str, ...]] = {(2, 1): (symbol,)}
    if symbol in ontology.reverse:
        edges[1, 2] = (ontology.reverse[symbol],)
    return Graph({1: Node(range_, "class"), 2: Node(domain, "class")}, edges)


def _join(relation: Graph, inner: Graph, ontology: Ontology) -> Graph:
    """The relation's first node becomes the inner graph's question node, of the narrower class."""
    near, far = relation.nodes[1], inner.nodes[inner.last]
    if near.type == far.type == "class" and far.id in ontology.supertypes.get(near.id, frozenset()):
        inner = inner.labelled(inner.last, id=near.id)
    return relation.moved({n: n + inner.last - 1 for n in relation.nodes}).joined(inner)


def _meet(first: Graph, second: Graph) -> Graph:
    """Both graphs about one question node; where both name its class, the first names it."""
    a, b = first.nodes[first.last], second.nodes[second.last]
    if a.type == b.type == "class":
        second = second.labelled(second.last, id=a.id)
    moved = first.moved({n: n + second.last - 1 for n in first.nodes})
    return moved.joined(second.moved({second.last: first.last + second.last - 1}))


def isomorphic(a: Graph, b: Graph) -> bool:
    """Whether some pairing of nodes keeps labels and edges; query graphs are small, so it is searched."""
    if sorted(map(repr, a.nodes.values())) != sorted(map(repr, b.nodes.values())):
        return False
    return len(a.edges) == len(b.edges) and _pair(a, b, sorted(a.nodes), {})


def _pair(a: Graph, b: Graph, left: Sequence[int], pairs: dict[int, int]) -> bool:
    if not left:
        return True
    node = left[0]
    for other, label in b.nodes.items():
        if label != a.nodes[node] or other in pairs.values():
            continue
        trial = pairs | {node: other}
        kept = all(a.edges.get((node, n)) == b.edges.get((other, m))
                   and a.edges.get((n, node)) == b.edges.get((m, other)) for n, m in trial.items())
        if kept and _pair(a, b, left[1:], trial):
            return True
    return False
