"""SPARQL endpoints over HTTP (Virtuoso, QLever, Blazegraph, any): the neighbourhood of topics, hop by hop.

Reads only, in batches of nodes, page by page in a fixed order, with time-outs and retries; what a limit cuts
off is told in the graph's notes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from pyoxigraph import BlankNode, Literal, NamedNode

from pandora_train.box.rdf import FREEBASE, LABELS, RDF_TYPE, TYPES, Term, Terms, graph_of_terms
from pandora_train.box.triples import Graph
from pandora_train.errors import MachineryError, ReadingError, first_line
from pandora_train.records import GraphKnowledge

_MID = re.compile(r"[mg]\.[0-9a-z_]+")


@dataclass(frozen=True)
class Endpoint:
    """A SPARQL 1.1 endpoint and how patiently it is asked."""

    url: str
    timeout: float = 60.0
    """Seconds for one request."""
    tries: int = 4
    pause: float = 0.5
    """Seconds before the second try, doubled for each further one."""
    page: int = 5_000
    """Solutions per request."""
    batch: int = 40
    """Nodes per request."""
    limit: int = 200_000
    """Triples of one neighbourhood, at most."""
    client: httpx.Client = field(default_factory=lambda: httpx.Client(follow_redirects=True), compare=False)

    def select(self, query: str, names: Sequence[str] = ()) -> list[dict[str, Term]]:
        """Solutions of a SELECT query, each of which binds ``names``.

        Raises :class:`ReadingError` when the endpoint refuses this query (HTTP 400) and
        :class:`MachineryError` when it stays out of reach, overloaded, silent or without a SPARQL answer
        after ``tries``: another status, HTML or half a body say nothing about the question.
        """
        problem = ""
        for attempt in range(self.tries):
            if attempt:
                time.sleep(self.pause * 2 ** (attempt - 1))
            try:
                answer = self.client.post(self.url, data={"query": query}, timeout=self.timeout,
                                          headers={"Accept": "application/sparql-results+json"})
                if answer.status_code == 400:
                    text = " ".join(answer.text.split())[:200]
                    raise ReadingError(f"SPARQL endpoint {self.url} refused the query (HTTP 400): {text}")
                if answer.status_code == 200:
                    return _solutions(answer, names)
                problem = f"HTTP {answer.status_code}"
            except (httpx.HTTPError, httpx.InvalidURL) as e:
                problem = f"{type(e).__name__} {first_line(e)}"
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                problem = "no answer in SPARQL JSON: is it a SPARQL endpoint?"
        raise MachineryError(f"SPARQL endpoint {self.url}: {problem}, {self.tries} tries")

    def pages(self, pattern: str, names: str) -> Iterator[dict[str, Term]]:
        """All solutions of ``SELECT names WHERE pattern``, page by page in a fixed order."""
        offset = 0
        while True:
            rows = self.select(f"SELECT {names} WHERE {{ {pattern} }} ORDER BY {names} "
                               f"LIMIT {self.page} OFFSET {offset}", re.findall(r"\w+", names))
            yield from rows
            if len(rows) < self.page:
                return
            offset += self.page


def _solutions(answer: httpx.Response, names: Sequence[str]) -> list[dict[str, Term]]:
    """The bindings as terms; a body of another shape raises what Python does."""
    bindings = [{name: (cell["type"], cell["value"], cell) for name, cell in row.items()}
                for row in answer.json()["results"]["bindings"]]
    if not all(name in row for row in bindings for name in names):
        raise KeyError(names)
    return [{name: _term(*cell) for name, cell in row.items()} for row in bindings]


def _term(kind: str, value: str, cell: dict[str, Any]) -> Term:
    """One term. Raises :class:`ReadingError` for an ill-formed one (an IRI with a space, say): asking again
    would not mend the store's data."""
    try:
        if kind == "uri":
            return NamedNode(value)
        if kind == "bnode":
            return BlankNode(value)
        if language := cell.get("xml:lang"):
            return Literal(value, language=language)
        datatype = cell.get("datatype")
        return Literal(value, datatype=NamedNode(datatype) if datatype else None)
    except ValueError as e:
        raise ReadingError(f"the SPARQL endpoint's data hold an ill-formed term {value!r}: {e}") from None


def endpoint_graph(knowledge: GraphKnowledge, endpoint: Endpoint | None = None) -> Graph:
    """The topics' neighbourhood as a graph of its own, names and types of its nodes included.

    Topics are IRIs, Freebase ids (``m.…``) or labels. Raises as :meth:`Endpoint.select`.
    """
    endpoint = endpoint or Endpoint(knowledge.store)
    starts = [iri for topic in knowledge.topics for iri in _resolve(endpoint, topic)]
    walk = _Walk(endpoint, knowledge.relations)
    for _ in range(knowledge.hops):
        starts = walk.hop(starts)
    described = list(_describe(endpoint, walk.nodes))
    graph = graph_of_terms([*walk.triples, *described], whole=False)
    return replace(graph, notes=graph.notes + tuple(walk.notes))


@dataclass
class _Walk:
    """Breadth-first, over edges in both directions; each node asked about once."""

    endpoint: Endpoint
    relations: Sequence[str] | None
    triples: dict[Terms, None] = field(default_factory=dict)
    nodes: dict[str, None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def hop(self, frontier: Iterable[str]) -> list[str]:
        """Fetch the triples around ``frontier``; gives the IRIs met for the first time."""
        nodes = list(dict.fromkeys(frontier))
        self.nodes.update(dict.fromkeys(nodes))
        new: dict[str, None] = {}
        for part in _batches(nodes, self.endpoint.batch):
            for triple in self._around(part):
                if len(self.triples) >= self.endpoint.limit:
                    self.notes = [f"stopped at {self.endpoint.limit} triples: more lie within these hops"]
                    return []
                self.triples[triple] = None
                for end in (triple[0], triple[2]):
                    if isinstance(end, NamedNode) and end.value not in self.nodes \
                            and triple[1].value not in TYPES:
                        new[end.value] = None
        self.nodes.update(new)
        return list(new)

    def _around(self, part: list[str]) -> Iterator[Terms]:
        values = " ".join(f"<{iri}>" for iri in part)
        only = "" if self.relations is None else f" FILTER(?p IN ({self._wanted()}))"
        for end in ("s", "o"):
            for row in self.endpoint.pages(f"VALUES ?{end} {{ {values} }} ?s ?p ?o{only}", "?s ?p ?o"):
                yield row["s"], row["p"], row["o"]  # type: ignore[misc]

    def _wanted(self) -> str:
        iris = [_iri(r) for r in self.relations or ()]
        if not all(iris):
            raise ReadingError("relations over a SPARQL endpoint must be IRIs or Freebase names")
        return ", ".join(f"<{i}>" for i in [*iris, *sorted(TYPES)])


def _describe(endpoint: Endpoint, nodes: Iterable[str]) -> Iterator[Terms]:
    """Labels of the nodes, and types, which the walk itself has only for those it went on from."""
    wanted = " ".join(f"<{p}>" for p in sorted(LABELS | {RDF_TYPE}))
    for part in _batches(list(nodes), endpoint.batch * 4):
        values = " ".join(f"<{iri}>" for iri in part)
        for row in endpoint.pages(f"VALUES ?s {{ {values} }} VALUES ?p {{ {wanted} }} ?s ?p ?o", "?s ?p ?o"):
            yield row["s"], row["p"], row["o"]  # type: ignore[misc]


def _resolve(endpoint: Endpoint, topic: str) -> list[str]:
    """IRIs for a topic: itself, a Freebase id, or all nodes with this label."""
    if iri := _iri(topic):
        return [iri]
    text = topic.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    labels = " ".join(f"<{p}>" for p in sorted(LABELS))
    pattern = f'VALUES ?p {{ {labels} }} VALUES ?o {{ "{text}" "{text}"@en }} ?s ?p ?o'
    return [row["s"].value for row in endpoint.pages(pattern, "?s") if isinstance(row["s"], NamedNode)]


def _iri(name: str) -> str:
    if re.fullmatch(r"[A-Za-z][\w+.-]*://[^\s<>\"{}|\\^`]+", name):
        return name
    freebase = _MID.fullmatch(name) or re.fullmatch(r"[a-z_0-9]+(\.[\w]+){2,}", name)
    return FREEBASE + name if freebase else ""


def _batches(items: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(items), size):
        yield items[start:start + size]
