import pytest

from pandora_train.config import Config
from pandora_train.errors import UserError
from pandora_train.records import Record
from pandora_train.runs import Run, read_jsonl


class C(Config):
    n: int = 1
    """Number."""


class Line(Record):
    id: str


def test_half_written_line_is_cut_off_and_the_rest_read(tmp_path):
    run = Run("s", "n", C(), tmp_path / "r")
    run.append("a.jsonl", Line(id="1"))
    with (run.path / "a.jsonl").open("a") as f:
        f.write('{"id": "2')
    assert run.read("a.jsonl", Line) == [Line(id="1")]
    run.append("a.jsonl", Line(id="3"))
    assert [x.id for x in run.read("a.jsonl", Line)] == ["1", "3"]


def test_broken_line_in_the_middle_is_named(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": "1"}\n{"nope": 1}\n{"id": "2"}\n')
    with pytest.raises(UserError, match="line 2"):
        list(read_jsonl(file, Line))


def test_an_existing_folder_needs_resume_and_the_same_config(tmp_path):
    Run("s", "n", C(), tmp_path / "r")
    with pytest.raises(UserError, match="--resume"):
        Run("s", "n", C(), tmp_path / "r")
    with pytest.raises(UserError, match="differs"):
        Run("s", "n", C(n=2), tmp_path / "r", resume=True)
    Run("s", "n", C(), tmp_path / "r", resume=True)


def test_environment_holds_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    run = Run("s", "n", C(), tmp_path / "r")
    assert "sk-very-secret" not in (run.path / "environment.json").read_text()
