"""Damaged and strange sources: BOXes or one :class:`ReadingError` of one line, never another library's error."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pandora_train.box import boxes_for
from pandora_train.errors import ReadingError, UserError
from pandora_train.records import DatabaseKnowledge, GraphKnowledge, Knowledge, TableKnowledge
from pandora_train.sources import knowledge_for
from pandora_train.sources.reading import folder


def _database() -> bytes:
    """A file of small pages with a key, an index, a view and blobs: most bytes mean something."""
    with tempfile.TemporaryDirectory() as place:
        con = sqlite3.connect(Path(place) / "d.sqlite")
        con.executescript(
            "PRAGMA page_size = 512; CREATE TABLE a (id INTEGER PRIMARY KEY, n TEXT, v REAL, b BLOB);"
            'CREATE TABLE c (k INTEGER REFERENCES a, "x y" TEXT); CREATE VIEW w AS SELECT n FROM a;'
            "CREATE INDEX i ON a (n);")
        con.executemany("INSERT INTO a VALUES (?, ?, ?, ?)", [(i, "nä" * i, i / 3, b"\xff") for i in range(20)])
        con.executemany("INSERT INTO c VALUES (?, ?)", [(i, "12") for i in range(20)])
        con.commit()
        con.close()
        return (Path(place) / "d.sqlite").read_bytes()


def _table(path: Path) -> Knowledge:
    return TableKnowledge(path=str(path), name="t")


def _graph(path: Path) -> Knowledge:
    return GraphKnowledge(store=str(path), topics=("a",))


def _fragment(path: Path) -> Knowledge:
    return GraphKnowledge(store=str(path.parent), topics=("a",), layers="explored")


SOURCES: dict[str, tuple[bytes, Callable[[Path], Knowledge]]] = {
    "t.csv": ('name,name,n,\n"a, b",1,2.5,x\nc,"d ""q""",3\né,4,5,6,7\n'.encode(), _table),
    "t.tsv": ("a\tb\n1\tx\\ny\n2\tü\n".encode(), _table),
    "w.csv": (b'"a","b"\n"1","x \\"y\\""\n"2",""\n',
              lambda path: TableKnowledge(path=str(path), name="t", dialect="wikitq")),
    "d.sqlite": (_database(), lambda path: DatabaseKnowledge(path=str(path), db_id="d")),
    "g.nt": (b'<http://x/a> <http://x/p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
             b"<http://x/a> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://x/T> .\n", _graph),
    "g.ttl": (b'@prefix : <http://x/> . :a a :T ; :p 1, 2.5 ; :q [ :r "z"@de ] . :b :q :a .', _graph),
    "g.txt": (b"a\tfilm.film.by\tb\na\tfilm.film.year\t1999\nb\tknows\ta\n", _graph),
    "triples.tsv": (b"head\trelation\ttail\tlayers\na\tx.T.r\tb\taog\nb\tx.T.s\t3\tgnnrag\n", _fragment),
}
DAMAGE = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8)
"""Where in the file (as a share of its length), and the byte put there."""


def _told(knowledge: Knowledge) -> str:
    """What reading says: nothing where BOXes came of it."""
    try:
        boxes = boxes_for(knowledge)
    except ReadingError as e:
        problem = str(e)
    else:
        problem = ""
        assert any(len(box.frame.columns) for box in boxes)
    assert len(problem.splitlines()) == bool(problem)
    return problem


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=60)
@given(damage=DAMAGE, share=st.floats(0, 1))
def test_damaged_bytes_give_boxes_or_a_reading_error(name: str, damage: list[tuple[float, int]], share: float) -> None:
    whole, knowledge = SOURCES[name]
    flipped = bytearray(whole)
    for place, byte in damage:
        flipped[int(place * len(whole))] = byte
    with tempfile.TemporaryDirectory() as place_of:
        path = Path(place_of) / name
        for data in (bytes(flipped), whole[:int(share * len(whole))]):
            path.unlink(missing_ok=True)
            path.write_bytes(data)
            _told(knowledge(path))


@pytest.mark.parametrize("name", SOURCES)
def test_undamaged_sources_are_read_and_other_kinds_of_file_refused(name: str, tmp_path: Path) -> None:
    whole, knowledge = SOURCES[name]
    path = tmp_path / name
    path.write_bytes(whole)
    known = knowledge(path)
    if name in ("g.nt", "g.ttl"):
        known = known.model_copy(update={"topics": ("http://x/a",)})
    assert _told(known) == ""
    for data in (b"", b"\x89PNG\r\n\x1a\n\x00\x00", bytes(range(256)), "a\tb\tc\n".encode("utf-16")):
        path.write_bytes(data)
        assert _told(known)


@pytest.mark.parametrize("layers", ["all", "explored"])
def test_a_fragment_without_triples_holds_no_table(layers: str, tmp_path: Path) -> None:
    (tmp_path / "triples.tsv").write_text("head\trelation\ttail\tlayers\n")
    assert "holds no table" in _told(GraphKnowledge(store=str(tmp_path), topics=("a",), layers=layers))


def test_triples_longer_than_their_header_are_not_shifted(tmp_path: Path) -> None:
    (tmp_path / "triples.tsv").write_text("head\trelation\ttail\na\tx.T.r\tb\taog\n")
    assert "every line must hold" in _told(GraphKnowledge(store=str(tmp_path), topics=("a",)))


def test_a_table_whose_name_the_catalogue_holds_as_a_blob_is_read(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    with sqlite3.connect(path) as con:
        con.executescript("CREATE TABLE a (x); INSERT INTO a VALUES (1); PRAGMA writable_schema = ON;"
                          "UPDATE sqlite_master SET name = X'61'")
    con.close()
    assert [box.name for box in boxes_for(DatabaseKnowledge(path=str(path), db_id="d"))] == ["a"]


@pytest.mark.parametrize("known", [_table, _graph, lambda p: DatabaseKnowledge(path=str(p), db_id="d")])
def test_links_in_a_circle_and_names_that_are_no_path_are_told(known: Callable[[Path], Knowledge],
                                                              tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    for path in (circle, Path("a\0b"), Path("a" * 5000), tmp_path / "none", tmp_path):
        assert _told(known(path))


def test_a_home_that_is_not_there_is_told() -> None:
    for read in (folder, knowledge_for):
        with pytest.raises(UserError, match="no f"):
            read("~nobody-of-this-name/t.csv")
    assert _told(GraphKnowledge(store="~nobody-of-this-name/g.txt", topics=("a",)))
