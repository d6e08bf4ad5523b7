"""`boxes_for`: the same knowledge over an unchanged file gives the identical object, from any thread."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pandora_train.box as room
from pandora_train.box import boxes_for
from pandora_train.errors import ReadingError
from pandora_train.records import GraphKnowledge, TableKnowledge


def table(path: Path, content: str = "a\n1\n") -> TableKnowledge:
    path.write_text(content)
    return TableKnowledge(path=str(path))


def test_equal_knowledge_gives_the_identical_object(tmp_path: Path) -> None:
    first = boxes_for(table(tmp_path / "t.csv"))
    assert boxes_for(TableKnowledge(path=str(tmp_path / "t.csv"))) is first
    assert boxes_for(TableKnowledge(path=str(tmp_path / "t.csv"), name="x")) is not first


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    knowledge = table(tmp_path / "t.csv")
    boxes_for(knowledge)
    table(tmp_path / "t.csv", "a\n1\n2\n")
    os.utime(tmp_path / "t.csv", ns=(1, 1))
    assert len(boxes_for(knowledge).boxes[0].frame) == 2


def test_many_threads_get_one_object_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knowledge, built, start = table(tmp_path / "t.csv"), [], threading.Barrier(8)
    build = room._build
    monkeypatch.setattr(room, "_build", lambda k: (built.append(k), build(k))[1])

    def ask(_: int) -> int:
        start.wait()
        return id(boxes_for(knowledge))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert len(built) == 1


def test_only_the_last_sets_are_kept(tmp_path: Path) -> None:
    first = boxes_for(table(tmp_path / "first.csv"))
    for n in range(room.KEPT):
        boxes_for(table(tmp_path / f"{n}.csv"))
    assert len(room._cache) == room.KEPT
    assert boxes_for(TableKnowledge(path=str(tmp_path / "first.csv"))) is not first


def test_a_failure_is_not_remembered(tmp_path: Path) -> None:
    knowledge = TableKnowledge(path=str(tmp_path / "late.csv"))
    with pytest.raises(ReadingError, match="cannot read"):
        boxes_for(knowledge)
    table(tmp_path / "late.csv")
    assert boxes_for(knowledge).boxes[0].frame["a"].tolist() == [1]


def test_graphs_are_dispatched_to_the_graph_builder(tmp_path: Path) -> None:
    (tmp_path / "kb.txt").write_text("ann\tchild\tbob\n")
    boxes = boxes_for(GraphKnowledge(store=str(tmp_path / "kb.txt"), topics=("ann",), hops=1))
    assert any("bob" in b.frame.to_string() for b in boxes)
