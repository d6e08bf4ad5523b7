"""Users' own questions, and what a path is taken for."""

import json
from pathlib import Path

import pytest

from pandora_train.errors import UserError
from pandora_train.records import DatabaseKnowledge, GraphKnowledge, TableKnowledge
from pandora_train.sources import DataConfig, knowledge_for, load


def config(path: Path, **settings: object) -> DataConfig:
    return DataConfig.model_validate({"benchmark": "files", "path": str(path), **settings})


@pytest.mark.parametrize(
    ("name", "topics", "kind"),
    [
        ("sales.csv", (), TableKnowledge), ("sales.TSV", (), TableKnowledge), ("graph.tsv", ("a",), GraphKnowledge),
        ("shop.sqlite", (), DatabaseKnowledge), ("shop.db", (), DatabaseKnowledge), ("world.ttl", (), GraphKnowledge),
        ("world.nt", ("a",), GraphKnowledge), ("kb.txt", (), GraphKnowledge),
    ],
)
def test_a_file_is_taken_for_what_its_ending_says(
    tmp_path: Path, name: str, topics: tuple[str, ...], kind: type
) -> None:
    (tmp_path / name).write_text("x")
    assert isinstance(knowledge_for(str(tmp_path / name), topics), kind)


def test_folders_urls_and_unknown_files(tmp_path: Path) -> None:
    url = knowledge_for("https://example.org/sparql", ("a",), hops=1)
    assert isinstance(url, GraphKnowledge)
    assert (url.topics, url.hops) == (("a",), 1)
    with pytest.raises(UserError, match=r"without triples\.tsv"):
        knowledge_for(str(tmp_path))
    (tmp_path / "triples.tsv").write_text("")
    assert isinstance(knowledge_for(str(tmp_path)), GraphKnowledge)
    (tmp_path / "x.docx").write_text("")
    with pytest.raises(UserError, match="unknown kind of file"):
        knowledge_for(str(tmp_path / "x.docx"))
    with pytest.raises(UserError, match="no file"):
        knowledge_for(str(tmp_path / "gone.csv"))


def test_jsonl_questions_with_answers_and_their_own_knowledge(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").write_text("x\n1\n")
    rows = [{"question": "How many?", "answers": ["1"], "id": "q1"}, {"question": "Who?", "knowledge": "b.csv"},
            {"question": "Train?", "split": "train"}]
    file = tmp_path / "questions.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)) + "\n")
    first, second = load(config(file, knowledge=str(tmp_path / "a.csv")))
    assert (first.id, first.gold.answers, first.group) == ("files:q1", ("1",), "a.csv")
    assert second.gold.answers is None
    assert second.group == "b.csv"
    assert isinstance(second.knowledge, TableKnowledge)
    assert (second.knowledge.name, second.knowledge.path) == ("b", str(tmp_path / "b.csv"))


def test_csv_questions_split_lists_at_bars(tmp_path: Path) -> None:
    (tmp_path / "kb.txt").write_text("a\tr\tb\n")
    file = tmp_path / "questions.csv"
    file.write_text('question,answers,topics\n"Who, then?",b|c,a\nWhat?,,a\n')
    first, second = load(config(file, knowledge=str(tmp_path / "kb.txt")))
    assert first.question == "Who, then?"
    assert first.gold.answers == ("b", "c")
    assert isinstance(first.knowledge, GraphKnowledge)
    assert first.knowledge.topics == ("a",)
    assert second.gold.answers is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"question": "x"', "line 2: not valid JSON"), ('"x"', "line 2: must be a JSON object"),
        ('{"answer": "x"}', "line 2: no question"), ('{"question": "x", "answers": 3}', "line 2: answers must be a list"),
    ],
)
def test_broken_lines_are_told(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    file = tmp_path / "questions.jsonl"
    file.write_text('{"question": "ok"}\n' + line + "\n")
    with pytest.raises(UserError, match=message):
        load(config(file, knowledge=str(tmp_path / "a.csv")))


@pytest.mark.parametrize("knowledge", ["../other.csv", "/etc/passwd"])
def test_a_questions_file_cannot_point_outside_its_folder(tmp_path: Path, knowledge: str) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps({"question": "ok", "knowledge": knowledge}))
    with pytest.raises(UserError, match="leaves the folder"):
        load(config(file))


def test_no_knowledge_is_told(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text('{"question": "ok"}\n')
    with pytest.raises(UserError, match="line 1: no knowledge"):
        load(config(file))
