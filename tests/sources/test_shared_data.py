"""The real files, where they are at hand: counts that the loaders must give."""

from collections import Counter
from pathlib import Path

import pytest

from pandora_train.box import boxes_for
from pandora_train.records import GraphKnowledge
from pandora_train.sources import DataConfig, read

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the real benchmark files are not here")


def config(benchmark: str, split: str, **more: str) -> DataConfig:
    path = str(SHARED / benchmark)
    return DataConfig.model_validate({"benchmark": benchmark, "path": path, "split": split, **more})


@pytest.mark.parametrize(
    ("benchmark", "split", "usable", "unusable"),
    [
        ("spider", "train", 6608, 392), ("spider", "dev", 650, 62), ("wikitq", "train", 11321, 0),
        ("wikitq", "dev", 2831, 0), ("grailqa", "dev", 673, 27), ("grailqa", "train", 433, 935),
        ("webqsp", "test", 1090, 49), ("pathquestion", "train", 5612, 0), ("pathquestion", "dev", 659, 0),
        ("pathquestion", "test", 835, 0),
    ],
)
def test_counts(benchmark: str, split: str, usable: int, unusable: int) -> None:
    loaded = read(config(benchmark, split))
    assert (len(loaded.examples), len(loaded.unusable)) == (usable, unusable)
    assert len({e.id for e in loaded.examples} | set(loaded.unusable)) == usable + unusable


def test_pathquestion_answers_are_what_the_path_gives() -> None:
    agree: Counter[str] = Counter()
    graphs: dict[str, dict[tuple[str, str], set[str]]] = {}
    for example in read(config("pathquestion", "dev")).examples:
        assert isinstance(example.knowledge, GraphKnowledge)
        store = example.knowledge.store
        if store not in graphs:
            graphs[store] = {}
            for line in Path(store).read_text().splitlines():
                head, relation, tail = line.split("\t")
                graphs[store].setdefault((head, relation), set()).add(tail)
        here = set(example.knowledge.topics)
        for relation in example.gold.program.split(" -> "):
            here = {t for h in here for t in graphs[store].get((h, relation), ())}
        agree["equal" if here == set(example.gold.answers or ()) else "other"] += 1
    assert agree["equal"] / agree.total() > 0.9, agree


def test_the_original_webqsp_parses_agree_with_the_reduced_file() -> None:
    reduced = {e.id: e for e in read(config("webqsp", "test")).examples}
    file = SHARED / "webqsp" / "webqsp_100_original_parses.json"
    loaded = read(config("webqsp", "test").model_copy(update={"path": str(file)}))
    both = [(e, reduced[e.id]) for e in loaded.examples if e.id in reduced]
    assert len(both) > 50
    assert all(set(a.gold.answer_ids) == set(b.gold.answer_ids) for a, b in both if len(a.gold.parses) == 1)
    assert all(a.gold.language == "sparql" for a, _ in both)


def test_every_table_and_database_can_be_read_with_its_repairs_told() -> None:
    notes: Counter[str] = Counter()
    for example in {e.group: e for e in read(config("wikitq", "dev")).examples}.values():
        boxes = boxes_for(example.knowledge)
        columns = boxes.boxes[0].frame.columns
        assert columns.is_unique
        notes.update(n.split(":")[0] for n in boxes.notes)
    assert notes["repeated or empty headers were renamed"] > 20
    for example in {e.group: e for e in read(config("spider", "dev")).examples}.values():
        assert len(boxes_for(example.knowledge).boxes) > 1
