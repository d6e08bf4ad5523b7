"""Graph stores behind a path or a URL: read once per process and shared by all threads."""

from __future__ import annotations

import csv
import os
import threading
from functools import lru_cache
from pathlib import Path

import pandas as pd

from pandora_train.box.endpoint import endpoint_graph
from pandora_train.box.rdf import rdf_file
from pandora_train.box.triples import Graph, Ontology, build
from pandora_train.errors import ReadingError, first_line
from pandora_train.records import GraphKnowledge
from pandora_train.sources.reading import Stamp, readable, stamp

RDF_SUFFIXES = {".nt", ".ttl", ".rdf", ".nq", ".trig", ".owl"}
EXPLORED = {"aog", "gnnrag"}
TRIPLE = ["head", "relation", "tail"]
_reading = threading.Lock()


def open_graph(knowledge: GraphKnowledge) -> Graph:
    """The indexed store, read once per process: a fragment folder, a triple file (tab-separated) or RDF.

    Behind a URL it is the topics' neighbourhood alone, fetched from the SPARQL endpoint. Raises
    :class:`ReadingError` when there is nothing there or it can't be read as triples,
    :class:`~pandora_train.errors.MachineryError` for an endpoint that is down or broken.
    """
    with readable(knowledge.store):
        if knowledge.store.startswith(("http://", "https://")):
            return _fetch(knowledge)
        if knowledge.layers not in ("all", "explored"):
            raise ReadingError(f"unknown layers '{knowledge.layers}': all or explored")
        path = Path(os.path.realpath(os.path.expanduser(knowledge.store)))
        with _reading:  # threads that ask at the same time wait for the first
            return _open(path, knowledge.layers, stamp(path))


@lru_cache(maxsize=64)
def _fetch(knowledge: GraphKnowledge) -> Graph:
    return endpoint_graph(knowledge)


@lru_cache(maxsize=8)
def _open(path: Path, layers: str, _stamp: Stamp) -> Graph:
    if path.is_dir():
        return _fragment(path, layers)
    if not path.exists():
        raise ReadingError(f"no graph store {path}: give a triple or RDF file, a fragment folder or a URL")
    if path.suffix.lower() in RDF_SUFFIXES:
        return rdf_file(path)
    triples = _tsv(path, TRIPLE, header=False)
    if (triples == "").any(axis=None):
        raise ReadingError(f"{path}: every line must hold {', '.join(TRIPLE)}, separated by tabs")
    return _built(triples, Ontology())


def _tsv(path: Path, columns: list[str], header: bool = True) -> pd.DataFrame:
    """Tab-separated text that has at least ``columns``, every cell a string (nodes named ``null`` stay text).

    Without a ``header`` line the columns are these and no others.
    """
    try:
        table = pd.read_csv(path, sep="\t", dtype=object, keep_default_na=False, quoting=csv.QUOTE_NONE,
                            header=0 if header else None, engine="c")
    except (OSError, ValueError) as e:
        raise ReadingError(f"cannot read {path}: {first_line(e)}") from None
    if not header and len(table.columns) == len(columns):
        table.columns = pd.Index(columns)
    # Where every line is longer than the header, pandas takes the first column for row names.
    shifted = not isinstance(table.index, pd.RangeIndex)
    if shifted or not set(columns) <= set(table.columns) or table[columns].isna().any(axis=None):
        raise ReadingError(f"{path}: every line must hold {', '.join(columns)}, separated by tabs")
    return table


def _fragment(folder: Path, layers: str) -> Graph:
    """``triples.tsv``, ``relation_roles.tsv``, ``names.tsv``; never the types or the question triples,
    which come from gold queries."""
    if not (folder / "triples.tsv").is_file():
        raise ReadingError(f"{folder} has no triples.tsv (columns head, relation, tail, layers)")
    explored = layers == "explored"
    triples = _tsv(folder / "triples.tsv", [*TRIPLE, "layers"] if explored else TRIPLE)
    if explored:
        triples = triples.loc[[not EXPLORED.isdisjoint(text.split(",")) for text in triples["layers"]]]
    ontology, aliases = Ontology(), {}
    if (folder / "relation_roles.tsv").is_file():
        columns = ["domain", "range", "reverse"]
        roles = _tsv(folder / "relation_roles.tsv", ["relation", *columns])
        ontology = Ontology(*(dict(zip(roles["relation"], roles[c], strict=True)) for c in columns))
    if (folder / "names.tsv").is_file():
        named = _tsv(folder / "names.tsv", ["id", "name"], header=False)
        aliases = dict(zip(named["id"], named["name"], strict=True))
    return _built(triples, ontology, aliases)


def _built(triples: pd.DataFrame, ontology: Ontology, aliases: dict[str, str] | None = None) -> Graph:
    heads, relations, tails = (triples[column].to_numpy() for column in TRIPLE)
    return build(heads, relations, tails, ontology, aliases)
