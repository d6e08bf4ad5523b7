"""WikiTableQuestions in its official layout, whole and broken."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pandora_train.errors import UserError
from pandora_train.records import TableKnowledge
from pandora_train.sources import DataConfig, load, read
from pandora_train.sources.tables import unescape
from pandora_train.sources.wikitq import items

HEADER = "id\tutterance\tcontext\ttargetValue\n"


def layout(root: Path, rows: str, name: str = "random-split-1-dev") -> DataConfig:
    (root / "data").mkdir(exist_ok=True)
    (root / "csv" / "200-csv").mkdir(parents=True, exist_ok=True)
    (root / "csv" / "200-csv" / "7.csv").write_text('"Year","Name"\n"1999","A"\n')
    (root / "data" / f"{name}.tsv").write_text(HEADER + rows, encoding="utf-8")
    return DataConfig(benchmark="wikitq", path=str(root), split="dev" if name.endswith("dev") else "train")


def test_a_row_becomes_an_example(tmp_path: Path) -> None:
    [example] = load(layout(tmp_path, "nt-5\tin what year?\tcsv/200-csv/7.csv\t1999\n"))
    assert example.id == "wikitq:nt-5"
    assert example.gold.answers == ("1999",)
    assert example.group == "csv/200-csv/7"
    assert isinstance(example.knowledge, TableKnowledge)
    assert example.knowledge.dialect == "wikitq"
    assert example.knowledge.name == ""


def test_answers_are_split_then_unescaped() -> None:
    assert items(r"a\pb|line\nbreak|back\\slash|\\n|comma, inside") == [
        "a|b", "line\nbreak", "back\\slash", "\\n", "comma, inside",
    ]


@given(st.text())
def test_unescape_undoes_the_official_escapes(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("|", "\\p")
    assert unescape(escaped) == text
    assert len(items(escaped)) == 1


def test_the_tsv_stands_in_for_a_missing_csv(tmp_path: Path) -> None:
    config = layout(tmp_path, "nt-5\tq?\tcsv/200-csv/8.csv\t1\n")
    (tmp_path / "csv" / "200-csv" / "8.tsv").write_text("Year\n1\n")
    [example] = load(config)
    assert str(example.knowledge).count("8.tsv") == 1


def test_a_missing_table_is_listed(tmp_path: Path) -> None:
    rows = "nt-5\tq?\tcsv/200-csv/8.csv\t1\nnt-6\tq?\tcsv/200-csv/7.csv\t1\n"
    loaded = read(layout(tmp_path, rows))
    assert [e.id for e in loaded.examples] == ["wikitq:nt-6"]
    assert loaded.unusable == {"wikitq:nt-5": "no table file for it in csv/"}


def test_a_table_path_cannot_leave_the_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="leaves the folder"):
        load(layout(tmp_path, "nt-5\tq?\t../../etc/passwd\t1\n"))


def test_a_broken_line_is_told_with_its_number(tmp_path: Path) -> None:
    rows = "nt-5\tq?\tcsv/200-csv/7.csv\t1\nnt-6\tq?\n"
    with pytest.raises(UserError, match=r"random-split-1-dev\.tsv, line 3: 2 fields, the header has 4"):
        load(layout(tmp_path, rows))


def test_a_wrong_header_is_told(tmp_path: Path) -> None:
    config = layout(tmp_path, "")
    (tmp_path / "data" / "random-split-1-dev.tsv").write_text("id\tquestion\n")
    with pytest.raises(UserError, match="the header lacks utterance, context, targetValue"):
        load(config)


def test_canonical_values_come_from_the_tagged_file(tmp_path: Path) -> None:
    config = layout(tmp_path, "nt-5\tq?\tcsv/200-csv/7.csv\tone|two\n")
    (tmp_path / "tagged" / "data").mkdir(parents=True)
    (tmp_path / "tagged" / "data" / "random-split-1-dev.tagged").write_text(
        HEADER.strip() + "\ttargetCanon\nnt-5\tq?\tcsv/200-csv/7.csv\tone|two\t1.0|2.0\n"
    )
    [example] = load(config)
    assert example.gold.canon == ("1.0", "2.0")


def test_step_programs_label_training_questions_only(tmp_path: Path) -> None:
    row = "nt-5\tq?\tcsv/200-csv/7.csv\t1\n"
    dev, train = layout(tmp_path, row), layout(tmp_path, row, "random-split-1-train")
    (tmp_path / "wtq_train_programs.json").write_text(json.dumps({"q?": "Query1: ..."}))
    assert load(train)[0].gold.program == "Query1: ..."
    assert load(train)[0].gold.language == "steps"
    assert load(dev)[0].gold.program == ""


def test_the_other_random_splits_are_folds(tmp_path: Path) -> None:
    config = layout(tmp_path, "nt-9\tq?\tcsv/200-csv/7.csv\t1\n", "random-split-3-dev")
    assert [e.id for e in load(config.model_copy(update={"fold": 3}))] == ["wikitq:nt-9"]
    with pytest.raises(UserError, match=r"has no data/random-split-1-dev\.tsv"):
        load(config)


def test_the_whole_training_file_is_train_only_without_the_split(tmp_path: Path) -> None:
    whole = layout(tmp_path, "nt-1\tq?\tcsv/200-csv/7.csv\t1\nnt-2\tq?\tcsv/200-csv/7.csv\t1\n", "training")
    assert len(load(whole)) == 2
    layout(tmp_path, "nt-1\tq?\tcsv/200-csv/7.csv\t1\n", "random-split-1-train")
    assert [e.id for e in load(whole)] == ["wikitq:nt-1"], "dev questions must not enter train"
