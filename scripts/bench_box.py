"""How fast knowledge becomes BOXes.

    python scripts/bench_box.py [--quick] [--json out.json]

Graphs: BOXes of connected 3-hop subgraphs of about 500 and 5,000 triples out of a store of a million (goals:
20 ms and 150 ms, median), beside the same walk over pyoxigraph and over rdflib, and beside the paper's
algorithm taken literally (appendix B.3), on a graph where that still ends. Databases: SQLite to BOX beside
plain ``pandas.read_sql``.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import pandas as pd
import pyoxigraph
import rdflib

from pandora_train.box.database import database_boxes
from pandora_train.box.graph import boxes_of
from pandora_train.box.triples import Graph, Ontology, build
from pandora_train.records import DatabaseKnowledge

T = TypeVar("T")
Triple = tuple[str, str, str]
SHAPES = {500: (7, 7, 9), 5_000: (16, 16, 18)}
"""Triples within three hops of a topic, as branching at each hop."""
TYPES, FIELDS = 40, 6
EX = "http://example.org/"


def component(name: str, branching: Sequence[int], draw: random.Random) -> Iterator[Triple]:
    """A tree around ``name`` whose nodes have types, and whose relations belong to their subject's type."""
    level = [(name, draw.randrange(TYPES))]
    for count in branching:
        below = []
        for node, kind in level:
            for i in range(count):
                child, its_kind = f"{node}.{i}", draw.randrange(TYPES)
                yield node, f"domain.type_{kind}.field_{draw.randrange(FIELDS)}", child
                below.append((child, its_kind))
        level = below


def triples_of(size: int) -> tuple[list[Triple], dict[int, list[str]]]:
    """``size`` triples, about half in components of each shape; and the topics by shape."""
    draw = random.Random(0)
    found: list[Triple] = []
    topics: dict[int, list[str]] = {shape: [] for shape in SHAPES}
    while len(found) < size:
        shape = 500 if len(topics[500]) < 10 * (1 + len(topics[5_000])) else 5_000
        topics[shape].append(f"topic {shape} {len(topics[shape])}")
        found.extend(component(topics[shape][-1], SHAPES[shape], draw))
    return found, topics


def repeated(call: Callable[[T], object], inputs: Sequence[T]) -> dict[str, float]:
    """Wall time, and the processor time of this process, which a busy machine stretches less."""
    call(inputs[0])  # first calls pay for imports and caches
    wall, processor = [], []
    for given in inputs:
        at, used = time.perf_counter(), time.process_time()
        call(given)
        processor.append(1000 * (time.process_time() - used))
        wall.append(1000 * (time.perf_counter() - at))
    return {"median_ms": median(wall), "p95_ms": p95(wall), "cpu_median_ms": median(processor),
            "cpu_p95_ms": p95(processor), "runs": len(inputs)}


def p95(times: Sequence[float]) -> float:
    return sorted(times)[int(0.95 * (len(times) - 1))]


def index(triples: Sequence[Triple]) -> Graph:
    heads, relations, tails = zip(*triples, strict=True)
    return build(heads, relations, tails, Ontology())


def graphs(size: int, repeats: int) -> dict[str, Any]:
    """Our BOXes out of a store of ``size`` triples."""
    triples, topics = triples_of(size)
    started = time.process_time()
    graph = index(triples)
    figures: dict[str, Any] = {"triples": len(triples), "index_cpu_s": time.process_time() - started}
    for shape, names in topics.items():
        chosen = names[:repeats]
        figures[f"{shape} triples"] = {
            "triples": median(len(graph.neighbourhood([t], 3)) for t in chosen),
            "walk": repeated(lambda t: graph.neighbourhood([t], 3), chosen),
            "walk and BOXes": repeated(lambda t: boxes_of(graph, [t], 3), chosen)}
    return figures


def peers(size: int, repeats: int) -> dict[str, Any]:
    """The walk alone, over other stores that hold the same (fewer) triples."""
    triples, topics = triples_of(size)
    oxigraph, plain = pyoxigraph.Store(), rdflib.Graph()
    iri = {n: EX + n.replace(" ", "_") for t in triples for n in t}
    oxigraph.bulk_extend(pyoxigraph.Quad(*(pyoxigraph.NamedNode(iri[n]) for n in t)) for t in triples)
    for t in triples:
        plain.add(tuple(rdflib.URIRef(iri[n]) for n in t))
    graph = index(triples)
    figures: dict[str, Any] = {"triples": len(triples)}
    for shape, names in topics.items():
        chosen = names[:repeats]
        figures[f"{shape} triples"] = {
            "ours": repeated(lambda t: graph.neighbourhood([t], 3), chosen),
            "pyoxigraph": repeated(lambda t: walk_oxigraph(oxigraph, iri[t], 3), chosen),
            "rdflib": repeated(lambda t: walk_rdflib(plain, iri[t], 3), chosen)}
    return figures


def walk_oxigraph(store: pyoxigraph.Store, topic: str, hops: int) -> set[Any]:
    """Over quads in both directions."""
    def around(node: Any) -> list[Any]:
        return [*store.quads_for_pattern(node, None, None), *store.quads_for_pattern(None, None, node)]

    return walk(pyoxigraph.NamedNode(topic), hops, around, lambda q: (q.subject, q.object))


def walk(topic: Any, hops: int, around: Callable[[Any], list[Any]],
         ends: Callable[[Any], tuple[Any, Any]]) -> set[Any]:
    """The edges within ``hops`` of a topic."""
    found: set[Any] = set()
    seen, frontier = {topic}, [topic]
    for _ in range(hops):
        edges = [e for node in frontier for e in around(node)]
        found.update(edges)
        frontier = list({end for e in edges for end in ends(e)} - seen)
        seen.update(frontier)
    return found


def walk_rdflib(graph: rdflib.Graph, topic: str, hops: int) -> set[Any]:
    """Over triples in both directions."""
    def around(node: Any) -> list[Any]:
        return [*graph.triples((node, None, None)), *graph.triples((None, None, node))]

    return walk(rdflib.URIRef(topic), hops, around, lambda t: (t[0], t[2]))


def literal_dfs(triples: Sequence[Triple], topic: str, hops: int, limit_s: float) -> dict[str, Any]:
    """Algorithm 3 of the paper with its evident slip (a path that is emptied after it is kept) mended: only
    paths of full length are kept, in both directions. Gives paths and triples found, or where it stopped."""
    out: dict[str, list[Triple]] = {}
    into: dict[str, list[Triple]] = {}
    for t in triples:
        out.setdefault(t[0], []).append(t)
        into.setdefault(t[2], []).append(t)
    started, paths, reached, stopped = time.perf_counter(), 0, set[Triple](), False

    def search(node: str, path: list[Triple], visited: set[str]) -> None:
        nonlocal paths, stopped
        if time.perf_counter() - started > limit_s:
            stopped = True
        if stopped or len(path) == hops:
            paths += not stopped
            reached.update(path)
            return
        onward = [(t, t[2]) for t in out.get(node, ())] + [(t, t[0]) for t in into.get(node, ())]
        for triple, end in onward:
            if end not in visited:
                search(end, [*path, triple], visited | {end})

    search(topic, [], {topic})
    return {"paths": paths, "triples_found": len(reached), "stopped": stopped,
            "ms": round(1000 * (time.perf_counter() - started), 1)}


def dense(people: int, films: int) -> list[Triple]:
    """A small graph that is no tree: everyone plays in several films, most live in one country."""
    draw = random.Random(1)
    found = [(f"person {p}", "people.person.film", f"film {f}") for p in range(people)
             for f in draw.sample(range(films), 4)]
    return found + [(f"person {p}", "people.person.country", f"country {p % 3}") for p in range(people)]


def paper(limit_s: float) -> dict[str, Any]:
    """The literal algorithm beside ours, hop by hop, on a graph of 250 triples."""
    triples = dense(50, 40)
    graph = index(triples)
    figures: dict[str, Any] = {"triples": len(triples)}
    for hops in (1, 2, 3, 4):
        ours = repeated(lambda h: boxes_of(graph, ["person 0"], h), [hops])
        figures[f"{hops} hops"] = {
            "paper": literal_dfs(triples, "person 0", hops, limit_s),
            "ours": {"triples_found": len(graph.neighbourhood(["person 0"], hops)), **ours}}
    return figures


def databases(rows: int, repeats: int) -> dict[str, Any]:
    """SQLite to BOX beside ``pandas.read_sql`` of every table."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.sqlite"
        with sqlite3.connect(file) as connection:
            connection.executescript(
                "create table city (id integer primary key, name text, country text);"
                "create table person (id integer primary key, name text, age integer, height real,"
                " city integer references city(id));")
            cities = rows // 10
            connection.executemany("insert into city values (?, ?, ?)",
                                   [(i, f"city {i}", f"country {i % 50}") for i in range(cities)])
            people = [(i, f"name {i}", i % 90 if i % 7 else None, 1.5 + i % 50 / 100, i % cities)
                      for i in range(rows)]
            connection.executemany("insert into person values (?, ?, ?, ?, ?)", people)
        connection.close()
        knowledge = DatabaseKnowledge(path=str(file), db_id="bench")
        return {"rows": rows, "BOX": repeated(database_boxes, [knowledge] * repeats),
                "pandas.read_sql": repeated(read_all, [file] * repeats)}


def read_all(file: Path) -> list[pd.DataFrame]:
    connection = sqlite3.connect(file)
    try:
        return [pd.read_sql(f"select * from {t}", connection) for t in ("city", "person")]
    finally:
        connection.close()


def main() -> None:
    """Measure, print, and write the figures."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("--quick", action="store_true", help="a store of 50,000 triples and few runs")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    quick = options.quick
    figures = {
        "graph": graphs(50_000 if quick else 1_000_000, 5 if quick else 50),
        "walk beside other stores": peers(12_000 if quick else 60_000, 3 if quick else 6),
        "paper": paper(1.0 if quick else 10.0),
        "sqlite": databases(5_000 if quick else 50_000, 3 if quick else 7),
    }
    figures = json.loads(json.dumps(figures), parse_float=lambda text: round(float(text), 2))
    print(json.dumps(figures, indent=2))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
