"""PathQuestion: answers, relation chains, and a split by topic entity."""

from pathlib import Path

import pytest

from pandora_train.errors import UserError
from pandora_train.records import GraphKnowledge
from pandora_train.sources import DataConfig, load, read
from pandora_train.sources.pathquestion import split_of

LINE = "what is the {0} 's  child 's job ?\tcook(baker/cook/)\t{0}#children#b#profession#cook#<end>#cook\n"


def layout(root: Path, topics: list[str]) -> DataConfig:
    (root / "PQ-2H.txt").write_text("".join(LINE.format(t) for t in topics))
    (root / "2H-kb.txt").write_text("".join(f"{t}\tchildren\tb\n" for t in topics) + "b\tprofession\tcook\n")
    return DataConfig(benchmark="pathquestion", path=str(root))


def topic_in(split: str) -> str:
    return next(f"t{n}" for n in range(1000) if split_of(f"t{n}") == split)


def test_a_line_becomes_an_example(tmp_path: Path) -> None:
    topic = topic_in("dev")
    [example] = load(layout(tmp_path, [topic]))
    assert example.question == f"what is the {topic} 's child 's job ?"
    assert set(example.gold.answers or ()) == {"cook", "baker"}
    assert (example.gold.language, example.gold.program) == ("path", "children -> profession")
    assert example.group == topic
    assert isinstance(example.knowledge, GraphKnowledge)
    assert example.knowledge.topics == (topic,)
    assert example.knowledge.hops == 2
    assert Path(example.knowledge.store).name == "2H-kb.txt"


def test_all_questions_of_a_topic_are_in_one_split(tmp_path: Path) -> None:
    topics = [f"person_{n}" for n in range(200)] * 2
    config = layout(tmp_path, topics)
    splits = {s: read(config.model_copy(update={"split": s})).examples for s in ("train", "dev", "test")}
    groups = {s: {e.group for e in found} for s, found in splits.items()}
    assert sum(map(len, splits.values())) == 400
    assert not groups["train"] & groups["dev"]
    assert not groups["train"] & groups["test"]
    assert len(groups["train"]) > 4 * len(groups["dev"]) > 0


def test_repeated_questions_have_ids_of_their_own(tmp_path: Path) -> None:
    examples = load(layout(tmp_path, [topic_in("dev")] * 3))
    assert [e.id.endswith(s) for e, s in zip(examples[1:], ("-2", "-3"), strict=True)] == [True, True]


def test_broken_and_missing_files_are_told(tmp_path: Path) -> None:
    config = layout(tmp_path, [topic_in("dev")])
    with pytest.raises(UserError, match=r"has no PQ-3H\.txt"):
        load(config.model_copy(update={"hops": 3}))
    with (tmp_path / "PQ-2H.txt").open("a") as f:
        f.write("only a question\n")
    with pytest.raises(UserError, match=r"PQ-2H\.txt, line 2: not question, answers, path"):
        load(config)
    (tmp_path / "2H-kb.txt").unlink()
    with pytest.raises(UserError, match=r"has no 2H-kb\.txt"):
        load(config)
