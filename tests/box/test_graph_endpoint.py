"""SPARQL endpoints, against a local server over pyoxigraph."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import httpx
import pytest
from pyoxigraph import QueryResultsFormat, RdfFormat, Store

from pandora_train.box import boxes_for
from pandora_train.box.endpoint import Endpoint, endpoint_graph
from pandora_train.box.graph import boxes_of, graph_boxes
from pandora_train.errors import MachineryError, ReadingError
from pandora_train.records import GraphKnowledge

TURTLE = """
@prefix : <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:anna a :Person ; rdfs:label "Anna"@en, "Anne"@fr ; :age 43 ; :knows :bob, :cem ; :lives :kiel .
:bob a :Person ; rdfs:label "Bob" ; :age 30 ; :lives :kiel .
:cem a :Person ; rdfs:label "Cem" ; :age 25 ; :lives :ulm .
:kiel a :City ; rdfs:label "Kiel" ; :people 246000 .
:ulm a :City ; rdfs:label "Ulm" ; :people 128000 .
"""


class Server(ThreadingHTTPServer):
    """Answers SPARQL over a store; the first ``failures`` requests get ``status`` instead."""

    def __init__(self, store: Store, failures: int = 0, status: int = 503) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.store, self.failures, self.status = store, failures, status
        self.queries: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/sparql"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        query = parse_qs(body)["query"][0]
        self.server.queries.append(query)
        if len(self.server.queries) <= self.server.failures:
            self.send_error(self.server.status)
            return
        try:
            answer = self.server.store.query(query).serialize(format=QueryResultsFormat.JSON)
        except SyntaxError as e:
            self.send_error(400, str(e).splitlines()[0])
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/sparql-results+json")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(failures: int = 0, status: int = 503) -> Iterator[Server]:
    store = Store()
    store.load(TURTLE.encode(), format=RdfFormat.TURTLE)
    server = Server(store, failures, status)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def cells(knowledge: GraphKnowledge, endpoint: Endpoint | None = None) -> dict[str, set[tuple[str, ...]]]:
    """BOX name to its rows, as text."""
    graph = endpoint_graph(knowledge, endpoint)
    boxes = boxes_of(graph, knowledge.topics, knowledge.hops, knowledge.relations)
    return {b.name: {tuple(map(str, row)) for row in b.frame.itertuples(index=False)} for b in boxes}


def test_endpoint_gives_the_boxes_of_the_same_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("rdf") / "graph.ttl"
    file.write_text(TURTLE)
    with serving() as server:
        for topics, hops in [(("Bob",), 1), (("Bob",), 2), (("Kiel", "Ulm"), 2)]:
            remote = boxes_for(GraphKnowledge(store=server.url, topics=topics, hops=hops))
            local = graph_boxes(GraphKnowledge(store=str(file), topics=topics, hops=hops))
            assert [b.name for b in remote] == [b.name for b in local]
            for box in local:
                columns = list(box.frame.columns)
                assert list(remote[box.name].frame.columns) == columns
                rows = sorted(map(str, box.frame.to_numpy().tolist()))
                assert sorted(map(str, remote[box.name].frame.to_numpy().tolist())) == rows


def test_pages_are_followed_to_the_end() -> None:
    with serving() as server:
        knowledge = GraphKnowledge(store=server.url, topics=("http://example.org/anna",), hops=2)
        small = Endpoint(server.url, page=2, batch=1)
        assert cells(knowledge, small) == cells(knowledge)
        assert sum("OFFSET 2" in q for q in server.queries) > 0


def test_an_overloaded_endpoint_is_asked_again() -> None:
    with serving(failures=2) as server:
        knowledge = GraphKnowledge(store=server.url, topics=("http://example.org/bob",), hops=1)
        found = cells(knowledge, Endpoint(server.url, pause=0.01))
        assert ("Bob", "30", "nan", "Kiel") in found["Person"]


def test_an_endpoint_that_stays_down_is_machinery_not_an_answer() -> None:
    with serving(failures=99) as server:
        knowledge = GraphKnowledge(store=server.url, topics=("http://example.org/bob",), hops=1)
        with pytest.raises(MachineryError, match="HTTP 503, 3 tries"):
            endpoint_graph(knowledge, Endpoint(server.url, tries=3, pause=0.01))
        assert len(server.queries) == 3


def test_a_silent_endpoint_times_out() -> None:
    def silent(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("no answer", request=request)

    client = httpx.Client(transport=httpx.MockTransport(silent))
    with pytest.raises(MachineryError, match="ReadTimeout"):
        Endpoint("http://127.0.0.1/sparql", tries=2, pause=0.0, client=client).select("SELECT * {}")


def answering(body: str, status: int = 200) -> Endpoint:
    client = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(status, text=body)))
    return Endpoint("http://127.0.0.1/", tries=2, pause=0.0, client=client)


def test_a_refused_query_is_the_questions_own() -> None:
    with serving() as server, pytest.raises(ReadingError, match="HTTP 400"):
        Endpoint(server.url).select("SELECT nonsense")


@pytest.mark.parametrize(("status", "body"), [
    (200, "<html>"), (200, ""), (200, '{"results": {"bindings": [{"s": {"type": "uri", "val'), (200, "[]"),
    (200, '{"results": {"bindings": [{}]}}'), (200, '{"results": {"bindings": [{"s": {"type": "uri"}}]}}'),
    (200, '{"results": {"bindings": [{"s": {"type": "uri", "value": 1}}]}}'), (200, "[" * 100_000),
    (200, '{"error": "out of memory"}'), (301, ""), (404, "{}"), (401, ""), (429, ""), (502, "<html>"),
])
def test_a_broken_answer_leaves_the_question_unfinished(status: int, body: str) -> None:
    with pytest.raises(MachineryError, match="2 tries"):
        list(answering(body, status).pages("?s ?p ?o", "?s"))


def test_an_ill_formed_term_is_the_datas_fault() -> None:
    body = '{"results": {"bindings": [{"s": {"type": "uri", "value": "http://a b"}}]}}'
    with pytest.raises(ReadingError, match="ill-formed term 'http://a b'"):
        answering(body).select("SELECT * {}")


def test_the_triple_limit_is_noted() -> None:
    with serving() as server:
        knowledge = GraphKnowledge(store=server.url, topics=("Anna",), hops=2)
        graph = endpoint_graph(knowledge, Endpoint(server.url, limit=4))
        assert any("stopped at 4 triples" in note for note in graph.notes)


def test_quotes_in_a_topic_cannot_leave_the_query() -> None:
    with serving() as server:
        knowledge = GraphKnowledge(store=server.url, topics=('x" } SELECT * { ?s ?p "',), hops=1)
        with pytest.raises(ReadingError, match=r"holds no table for this question; topic .* is not in the graph"):
            boxes_for(knowledge)
