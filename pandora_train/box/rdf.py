"""RDF to the indexed graph: readable names for IRIs, types, literals as values.

A node is shown by its label (``rdfs:label`` or Freebase's ``type.object.name``, English or without a
language), else by the last part of its IRI; names that would fall together get the IRI's last part, or all of
it, added. Relations are shown by the last part of their IRI. Literals in other languages are left out and
counted in the notes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

import numpy as np
from pyoxigraph import BlankNode, Literal, NamedNode, parse

from pandora_train.box.triples import Graph, Ontology, build
from pandora_train.errors import ReadingError, first_line

Term = NamedNode | BlankNode | Literal
Terms = tuple[NamedNode | BlankNode, NamedNode, Term]
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
XSD = "http://www.w3.org/2001/XMLSchema#"
FREEBASE = "http://rdf.freebase.com/ns/"
TYPES = {RDF_TYPE, FREEBASE + "type.object.type"}
LABELS = {RDFS + "label", FREEBASE + "type.object.name"}
ALIASES = {"http://www.w3.org/2004/02/skos/core#altLabel", FREEBASE + "common.topic.alias"}
SCHEMA = {RDFS + "domain": "domain", RDFS + "range": "range", OWL + "inverseOf": "reverse"}
INTEGERS = {XSD + n for n in ("integer", "int", "long", "short", "byte", "nonNegativeInteger",
                              "positiveInteger", "unsignedInt", "unsignedLong")}
NUMBERS = INTEGERS | {XSD + n for n in ("decimal", "double", "float")}
VOCABULARY = ("http://www.w3.org/1999/02/22-rdf-syntax-ns#", RDFS, OWL)
TYPE_FIELD = "type"
"""Relation that keeps types where BOX names do not tell them (several types, declared domains)."""


def rdf_file(path: Path) -> Graph:
    """Read a Turtle, N-Triples, RDF/XML, TriG or N-Quads file; named graphs are read as one.

    Raises :class:`ReadingError` with the parser's message when it is not well-formed.
    """
    try:
        return graph_of_terms((q.subject, q.predicate, q.object) for q in parse(path=str(path)))
    except (SyntaxError, ValueError, OSError) as e:
        raise ReadingError(f"{path}: {first_line(e)}") from None


@dataclass
class _Read:
    """What the triples say, sorted by kind."""

    facts: list[tuple[str, str, Term]] = field(default_factory=list)
    """Subject key, predicate IRI, object."""
    labels: dict[str, str] = field(default_factory=dict)
    other_names: list[tuple[str, str]] = field(default_factory=list)
    types: dict[tuple[str, str], None] = field(default_factory=dict)
    schema: dict[str, dict[str, str]] = field(
        default_factory=lambda: {"domain": {}, "range": {}, "reverse": {}})
    foreign: int = 0
    """Literals in other languages, left out."""


def graph_of_terms(triples: Iterable[Terms], whole: bool = True) -> Graph:
    """Index RDF triples; ``whole`` unless they are a neighbourhood whose outermost nodes lack their facts."""
    read = _Read()
    for subject, predicate, obj in triples:
        _sort(read, _key(subject), predicate.value, obj)
    return _index(read, whole)


def _key(term: Term) -> str:
    return term.value if isinstance(term, NamedNode) else str(term)


def _sort(read: _Read, subject: str, predicate: str, obj: Term) -> None:
    if isinstance(obj, Literal) and obj.language and not obj.language.lower().startswith("en"):
        read.foreign += 1
    elif predicate in LABELS and isinstance(obj, Literal):
        read.labels.setdefault(subject, obj.value)
    elif predicate in ALIASES and isinstance(obj, Literal):
        read.other_names.append((subject, obj.value))
    elif predicate in TYPES and isinstance(obj, NamedNode):
        if not obj.value.startswith(VOCABULARY):
            read.types[subject, obj.value] = None
    elif predicate in SCHEMA and isinstance(obj, NamedNode):
        read.schema[SCHEMA[predicate]][subject] = obj.value
        if SCHEMA[predicate] == "reverse":
            read.schema["reverse"][obj.value] = subject
    else:
        read.facts.append((subject, predicate, obj))


def _index(read: _Read, whole: bool) -> Graph:
    facts = list(read.facts)
    if not _told_by_boxes(read, whole):
        facts += [(s, RDF_TYPE, NamedNode(t)) for s, t in read.types]
    predicates = _names({p for _, p, _ in facts} | set(read.schema["reverse"]), {RDF_TYPE: TYPE_FIELD})
    classes = _names({t for _, t in read.types} | {*read.schema["domain"].values()}
                     | {*read.schema["range"].values()}, {})
    iris = {s for s, _, _ in facts} | {_key(o) for _, _, o in facts if not isinstance(o, Literal)}
    names = _names(iris, read.labels | {c: n for c, n in classes.items() if c in iris})
    aliases = {alias: names[s] for s, alias in read.other_names if s in names}
    aliases |= {s: n for s, n in names.items() if n != s} | predicates | classes
    ontology = _ontology(read, facts, predicates, classes)
    graph = build([names[s] for s, _, _ in facts], [predicates[p] for _, p, _ in facts],
                  [o.value if isinstance(o, Literal) else names[_key(o)] for _, _, o in facts],
                  ontology, aliases)
    return _typed(graph, read, names, classes)


def _told_by_boxes(read: _Read, whole: bool) -> bool:
    """Whether the BOX a node is a subject of tells all its types, so that a field for them adds nothing."""
    typed = Counter(s for s, _ in read.types)
    once = max(typed.values(), default=0) <= 1
    declared = read.schema["domain"] or read.schema["reverse"]  # either can place a node's triples elsewhere
    subjects = typed.keys() <= {s for s, _, _ in read.facts}
    return once and not declared and (subjects or not whole)


def _typed(graph: Graph, read: _Read, names: dict[str, str], classes: dict[str, str]) -> Graph:
    """Add explicit types; each node's own is the rarest of them."""
    members: dict[str, list[int]] = {}
    for subject, kind in read.types:
        node = graph.ids.get(names.get(subject, ""))
        if node is not None:
            members.setdefault(classes[kind], []).append(node)
    types = {k: np.unique(v) for k, v in members.items()}
    node_type = np.full(len(graph.nodes), -1, dtype=np.int64)
    for position in sorted(range(len(types)), key=lambda i: -len(list(types.values())[i])):
        node_type[list(types.values())[position]] = position
    shared = sum(names[s] != label for s, label in read.labels.items() if s in names)
    counted = {f"{read.foreign} literals in other languages than English left out": read.foreign,
            f"{shared} nodes that share a label carry part of their IRI beside it": shared}
    notes = tuple(note for note, count in counted.items() if count)
    return replace(graph, types=types, node_type=node_type if types else None, notes=notes)


def _names(iris: set[str], given: dict[str, str]) -> dict[str, str]:
    """A distinct readable name for each IRI: the given one, else its last part, told apart where needed."""
    names = {i: given.get(i) or _last(i) for i in iris}
    for clear in (_last, str):
        count = Counter(names.values())
        names = {i: n if count[n] == 1 else f"{n} ({clear(i)})" for i, n in names.items()}
    return names


def _last(iri: str) -> str:
    """What follows the last ``#``, ``/`` or ``:`` of an IRI."""
    part = iri.rstrip("/#")
    for mark in "#/:":
        if not iri.startswith("_:"):
            part = part.rpartition(mark)[2] or part
    return unquote(part)


def _ontology(read: _Read, facts: list[tuple[str, str, Term]], predicates: dict[str, str],
              classes: dict[str, str]) -> Ontology:
    """Declared domains, ranges and inverses by relation name; ranges of literals from their datatypes."""
    seen: dict[str, set[str]] = {}
    for _, p, o in facts:
        seen.setdefault(p, set()).add(o.datatype.value if isinstance(o, Literal) else "")
    ranges: dict[str, str] = {}
    for p, kinds in seen.items():
        if kinds <= INTEGERS:
            ranges[predicates[p]] = "type.int"
        elif kinds <= NUMBERS:
            ranges[predicates[p]] = "type.float"
        elif "" not in kinds:
            ranges[predicates[p]] = "type.text"
        else:
            declared = read.schema["range"].get(p, "")
            ranges[predicates[p]] = classes.get(declared, "resource")
    domain = {predicates[p]: classes[c] for p, c in read.schema["domain"].items() if p in predicates}
    reverse = {predicates[p]: predicates[q] for p, q in read.schema["reverse"].items()
               if p in predicates and q in predicates}
    ranges[TYPE_FIELD] = "type.text"  # a walk does not go on from a type to all its nodes
    return Ontology(domain, ranges, reverse)
