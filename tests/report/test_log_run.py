"""A W&B run written offline, and read back from its file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pandora_train.cli import app
from pandora_train.errors import UserError
from pandora_train.report.load import load_run
from pandora_train.report.log_run import COLUMNS, TrackingConfig, log_run, metrics, sample_rows

Offline = Callable[[Path], dict[Path, list[Any]]]

@pytest.fixture
def logged(write_run: Any, tmp_path: Path, wandb_offline: Offline) -> tuple[Path, str]:
    run = write_run("base", 12, 1)
    for name in ("adapter", "rows"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "content.txt").write_text(name)
    config = TrackingConfig(mode="offline", adapter=str(tmp_path / "adapter"), dataset=str(tmp_path / "rows"))
    return run, log_run(run, config)


def test_offline_run_holds_config_metrics_table_plots_and_artifacts(
        logged: tuple[Path, str], wandb_offline: Offline) -> None:
    folder, id = logged
    ((file, found),) = wandb_offline(folder).items()
    run = load_run(folder)
    (start,) = [r.run for r in found if r.HasField("run")]
    assert (start.run_id, start.project, start.display_name) == (id, "pandora_train", "base")
    config = {i.key: json.loads(i.value_json) for i in start.config.update}
    assert config["llm"] == {"model": "tiny-model"}
    history = {"|".join(i.nested_key): json.loads(i.value_json)
               for r in found if r.HasField("history") for i in r.history.item}
    assert history["spider/ex"] == run.benchmarks["spider"].metrics["ex"].value
    assert history["ended/error"] == run.statuses()["error"]
    assert history["plots/accuracy|_type"] == "html-file"
    table = json.loads((file.parent / "files" / history["samples|path"]).read_text())
    assert table["columns"] == COLUMNS
    assert len(table["data"]) == 48
    artifacts = {r.artifact.type: [e.path for e in r.artifact.manifest.contents]
                 for r in found if r.HasField("artifact")}
    assert artifacts["model"] == ["content.txt"]
    assert artifacts["dataset"] == ["content.txt"]
    assert artifacts["report"] == ["report.html"]


def test_logging_again_continues_the_same_run(logged: tuple[Path, str], wandb_offline: Offline) -> None:
    folder, id = logged
    assert log_run(folder, TrackingConfig(mode="offline", report=False)) == id
    ids = [r.run.run_id for found in wandb_offline(folder).values() for r in found if r.HasField("run")]
    assert ids == [id, id]


def test_a_run_elsewhere_at_the_same_path_is_another_run(
        logged: tuple[Path, str], write_run: Any, wandb_offline: Offline) -> None:
    folder, id = logged
    shutil.rmtree(folder)
    again = write_run("base", 12, 1)
    assert again == folder
    assert log_run(again, TrackingConfig(mode="offline", report=False)) != id


def test_the_environment_names_project_entity_and_mode(
        write_run: Any, wandb_offline: Offline, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PROJECT": "theirs", "ENTITY": "team", "MODE": "offline"}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    by_environment, by_config = write_run("a", 2, 1), write_run("b", 2, 1)
    log_run(by_environment, TrackingConfig(report=False))
    log_run(by_config, TrackingConfig(report=False, project="mine", entity="me"))

    def started(folder: Path) -> tuple[str, str]:
        (run,) = [r.run for found in wandb_offline(folder).values() for r in found if r.HasField("run")]
        return run.project, run.entity

    assert started(by_environment) == ("theirs", "team")
    assert started(by_config) == ("mine", "me")


def test_figures_hold_what_became_of_the_questions(write_run: Any) -> None:
    figures = metrics(load_run(write_run("base", 12, 1, benchmarks=("wikitq",), odd=(3,), unfinished=2)))
    assert [figures[f"wikitq/{k}"] for k in ("asked", "n", "answered", "failed_reading", "unfinished")] == [
        12, 10, 9, 1, 2]
    assert figures["ended/failed reading"] == 1


def test_the_table_takes_wrong_answers_first(write_run: Any) -> None:
    run = load_run(write_run("base", 12, 1))
    scores = [row[COLUMNS.index("score")] for row in sample_rows(run, 20)]
    assert len(scores) == 20
    assert scores == sorted(scores)
    assert scores[0] == 0


def test_a_missing_artifact_folder_is_told_before_anything_is_logged(write_run: Any) -> None:
    run = write_run("base", 2, 1)
    with pytest.raises(UserError, match="no folder"):
        log_run(run, TrackingConfig(mode="offline", adapter="nowhere"))
    assert not (run / "wandb").exists()


def test_the_command_tracks_a_run(write_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[TrackingConfig] = []
    monkeypatch.setattr("pandora_train.report.log_run.log_run", lambda run, config: seen.append(config) or "id1")
    result = CliRunner().invoke(app, ["track", str(write_run("base", 1)), "mode=offline", "tags=[a, b]"])
    assert result.output == "id1\n"
    assert (seen[0].mode, seen[0].tags) == ("offline", ["a", "b"])
