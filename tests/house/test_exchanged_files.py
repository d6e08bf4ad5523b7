"""What makes a file the same: one exchanged under the same path, of equal size and time, is read anew everywhere."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from pandora_train.box import boxes_for
from pandora_train.metrics import ties
from pandora_train.metrics.grailqa import load_ontology
from pandora_train.metrics.sqlrun import POOL
from pandora_train.records import DatabaseKnowledge, GraphKnowledge, TableKnowledge
from pandora_train.sources import DataConfig
from pandora_train.sources.freebase import open_store
from pandora_train.teach.perturb import stored

READ: dict[str, Callable[[str], object]] = {
    "BOXes of a table": lambda p: boxes_for(TableKnowledge(path=f"{p}/t.csv")).boxes[0].frame["a"].tolist(),
    "BOXes of a database": lambda p: boxes_for(DatabaseKnowledge(path=f"{p}/d.db", db_id="d"))["t"].frame["x"].tolist(),
    "BOXes of triples": lambda p: _values(GraphKnowledge(store=f"{p}/g.txt", topics=("ann",))),
    "BOXes of RDF": lambda p: _values(GraphKnowledge(store=f"{p}/g.nt", topics=("http://x/ann",))),
    "BOXes of a fragment": lambda p: _values(GraphKnowledge(store=p, topics=("ann",))),
    "results of shuffles": lambda p: ties.results(f"{p}/d.db", "SELECT min(x) FROM t", 1),
    "ranking": lambda p: ties.cuts_equals(f"{p}/d.db", "SELECT x FROM t ORDER BY x / 5 LIMIT 1"),
    "a shuffled copy": lambda p: POOL.run(f"{p}/d.db", "SELECT sum(x) FROM t", seed=0).rows,
    "rows to change": lambda p: stored(f"{p}/d.db")["t"].rows,
    "GrailQA's ontology": lambda p: load_ontology(Path(p)),
    "names of a fragment": lambda p: open_store(DataConfig(benchmark="grailqa", path=p, store=p), Path(p)).names,
}


def _values(knowledge: GraphKnowledge) -> list[list[str]]:
    return [list(map(str, row)) for box in boxes_for(knowledge) for row in box.frame.to_numpy()]


def _write(folder: Path, cell: int) -> None:
    """Each file anew, with another content of the same length and the same time."""
    texts = {
        "t.csv": f"a\n{cell}\n", "g.txt": f"ann\tage\t{cell}\n", "g.nt": f'<http://x/ann> <http://x/age> "{cell}" .\n',
        "triples.tsv": f"head\trelation\ttail\tlayers\nann\tp.age\t{cell}\taog\n", "names.tsv": f"m.0{cell}\tann\n",
        "fb_roles": f"p p.age n{cell}\n", "fb_types": "p is q\n", "reverse_properties": "p.a\tp.b\n",
    }
    for name, text in texts.items():
        new = folder / f"{name}.new"
        new.write_text(text)
        os.utime(new, ns=(10**18, 10**18))
        new.replace(folder / name)
    new = folder / "d.db.new"
    with sqlite3.connect(new) as con:
        con.execute("CREATE TABLE t (x INTEGER)")
        con.executemany("INSERT INTO t VALUES (?)", [(cell,), (9,)])
    con.close()
    os.utime(new, ns=(10**18, 10**18))
    new.replace(folder / "d.db")


@pytest.mark.parametrize("what", READ)
def test_a_file_exchanged_under_the_same_path_is_read_anew(what: str, tmp_path: Path) -> None:
    _write(tmp_path, 4)
    before = READ[what](str(tmp_path))
    _write(tmp_path, 8)
    after = READ[what](str(tmp_path))
    assert before != after
    _write(tmp_path, 4)
    assert READ[what](str(tmp_path)) == before
