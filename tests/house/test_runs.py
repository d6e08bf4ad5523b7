import os
import subprocess
import sys

import pytest

from pandora_train.config import Config
from pandora_train.errors import UserError
from pandora_train.records import Record
from pandora_train.runs import Run, read_jsonl


class C(Config):
    n: int = 1
    """Number."""


class Service(Config):
    base_url: str = ""
    """Where."""
    model: str = ""
    """What."""


class Stage(Config):
    llm: Service = Service()
    """Model."""
    workers: int = 1
    """Threads."""


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


def test_resuming_cuts_half_written_lines_of_files_nobody_read(tmp_path):
    run = Run("s", "n", C(), tmp_path / "r")
    (run.path / "memory.jsonl").write_text('{"id": "1"}\n{"id": "2')
    run = Run("s", "n", C(), tmp_path / "r", resume=True)
    run.append("memory.jsonl", Line(id="3"))
    assert [x.id for x in run.read("memory.jsonl", Line)] == ["1", "3"]


def test_reading_a_file_that_is_being_written_leaves_it_alone(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": "1"}\n{"id": "2')
    assert list(read_jsonl(file, Line)) == [Line(id="1")]
    with file.open("a") as f:
        f.write('"}\n')
    assert [x.id for x in read_jsonl(file, Line)] == ["1", "2"]


def test_resuming_may_change_where_and_how_fast_but_not_what(tmp_path):
    def stage(port, workers, model="base"):
        return Stage(llm=Service(base_url=f"http://127.0.0.1:{port}/v1", model=model), workers=workers)

    Run("s", "n", stage(1, 2), tmp_path / "r")
    Run("s", "n", stage(9, 8), tmp_path / "r", resume=True)
    with pytest.raises(UserError, match="differs"):
        Run("s", "n", stage(9, 8, "distilled"), tmp_path / "r", resume=True)


def test_a_run_folder_that_is_a_file_is_a_user_error(tmp_path):
    (tmp_path / "r").write_text("")
    with pytest.raises(UserError, match="--run-dir"):
        Run("s", "n", C(), tmp_path / "r")


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


def test_a_run_in_use_is_left_alone_and_a_killed_one_is_free(tmp_path):
    """Another process may not append to the same files; the lock goes with the process that holds it."""
    folder = tmp_path / "r"
    holder = subprocess.Popen([sys.executable, "-c", (
        "import sys, time\nfrom pathlib import Path\nfrom pandora_train.config import Config\n"
        "from pandora_train.runs import Run\n"
        "class C(Config):\n    n: int = 1\n"
        "Run('s', 'n', C(), Path(sys.argv[1]))\nprint('held', flush=True)\ntime.sleep(60)"), str(folder)],
        stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    (folder / "a.jsonl").write_text('{"id": "1"}\n{"id": "2')
    with pytest.raises(UserError, match="in use"):
        Run("s", "n", C(), folder, resume=True)
    assert (folder / "a.jsonl").read_text().endswith('{"id": "2')  # the other process may be writing it
    holder.kill()
    holder.wait()
    run = Run("s", "n", C(), folder, resume=True)
    assert run.read("a.jsonl", Line) == [Line(id="1")]


def test_environment_holds_no_secret(tmp_path, monkeypatch):
    secret = f"sk-{os.urandom(8).hex()}"  # not written out: environment.json holds the diff of this file, too
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    run = Run("s", "n", C(), tmp_path / "r")
    assert secret not in (run.path / "environment.json").read_text()


def test_text_that_no_file_can_hold_still_has_an_id():
    from pandora_train.records import content_id

    assert content_id("\ud800") == content_id("\ud800") != content_id("?")
