"""Markdown tables, plots and the terminal view."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from pandora_train.cli import app
from pandora_train.errors import UserError
from pandora_train.records import Step
from pandora_train.report import markdown_tables, show, write_report
from pandora_train.report.load import load_run, load_runs
from pandora_train.report.markdown import escape
from pandora_train.report.payload import build_payload, pack, unpack
from pandora_train.report.plots import ablated, all_plots
from pandora_train.runs import write_text


def followed(run: Path, sample: str = "") -> str:
    out = StringIO()
    show(run, sample, Console(file=out, width=120))
    return out.getvalue()


def test_figures_are_those_of_results_json(write_run: Any) -> None:
    run = write_run("base", 12, 1)
    metric = load_run(run).benchmarks["spider"].metrics["ex"]
    row = next(line for line in markdown_tables([run]).splitlines() if line.startswith("| spider | ex"))
    assert metric.low is not None
    assert metric.high is not None
    low, high = 100 * metric.low, 100 * metric.high
    assert row == f"| spider | ex | 12 (6 clusters) | **{100 * metric.value:.1f}** [{low:.1f}, {high:.1f}] |"


def test_a_score_over_a_fragment_bears_its_name(write_run: Any) -> None:
    def names(**data: str) -> list[str]:
        entry = {"benchmark": "grailqa", "split": "dev", "path": "data", **data}
        run = load_run(write_run(f"run{len(data)}{len(str(data))}", 2, 1, {"data": [entry]}))
        return [line.split(" | ")[0] for line in markdown_tables([run.path]).splitlines() if "| f1 |" in line]

    assert names() == names(store="data/freebase_fragment") == ["| grailqa-fragment", "| webqsp"]
    assert names(store="http://localhost:3001/sparql") == ["| grailqa", "| webqsp"]
    assert names(store="my.nt") == ["| grailqa", "| webqsp"]


def test_an_unfinished_run_says_so(write_run: Any) -> None:
    assert "not finished" in markdown_tables([write_run("base", 3, 1, finished=False)])
    assert "not finished" not in markdown_tables([write_run("done", 3, 1)])


def test_comparison_states_flips_and_refuses_other_questions(write_run: Any) -> None:
    a, b, c = write_run("a", 8, 1), write_run("b", 8, 2), write_run("c", 9, 2)
    assert "### b against a" in markdown_tables([a, b])
    assert "Not compared: the runs asked different questions" in markdown_tables([a, c])


@given(st.text())
def test_escaped_text_stays_in_its_cell(text: str) -> None:
    shown = escape(text)
    assert "\n" not in shown
    assert not re.search(r"(?<!\\)(?:\\\\)*[|<*_`]", shown)


def test_folder_without_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no samples\.jsonl"):
        markdown_tables([tmp_path])


def test_runs_of_one_name_are_told_apart(write_run: Any) -> None:
    runs = load_runs([write_run("x/base", 1), write_run("y/base", 1)])
    assert [r.name for r in runs] == ["x/base", "y/base"]


def test_show_follows_one_question(write_run: Any) -> None:
    run = load_run(write_run("base", 20, 1))
    repaired = next(t for t in run.samples if len(t.steps) == 2 and t.status == "ok")
    text = followed(run.path, repaired.id)
    for expected in (repaired.question, "singer = pd.DataFrame", "turn 1 of 2", "line 2: KeyError: 'nation'",
                     "fed back to the model", "turn 2 of 2", "Charlotte", "ended: ok"):
        assert expected in text
    failed = next(t for t in run.samples if t.status == "error")
    assert "field error" in followed(run.path, failed.id)


def test_a_question_without_an_answer_tells_why_everywhere(write_run: Any) -> None:
    folder = write_run("base", 6, 1, benchmarks=("spider", "wikitq"), odd=(2, 7), unfinished=1)
    run = load_run(folder)
    kinds = {t.ending: t for t in run.samples}
    for ending in ("failed reading",):
        text = followed(folder, kinds[ending].id)
        assert f"no turn was taken, {ending}: no such file" in text
        assert f"ended: {ending}" in text
        assert kinds[ending].id not in run.diagnoses
    listed = " ".join(followed(folder).split())
    assert "wikitq-dev-5 is unfinished: the server is down" in listed
    assert "1 are unfinished" in listed
    tables = markdown_tables([folder])
    assert re.search(r"\| wikitq \| base \| 6 \| 4 \| 1 .*no such file.* \| 0 .*\| 1 \|", tables)
    assert re.search(r"\| wikitq \| da \| 5 \(\d clusters\) \| \*\*[\d.]+ \(incomplete\)", tables)
    assert re.search(r"\| spider \| ex \| \d \(\d clusters\) \| \*\*[\d.]+\*\*", tables)
    assert "(incomplete)" in all_plots([run])[0].title


def test_notes_and_refusals_are_shown(write_run: Any) -> None:
    folder = write_run("base", 3, 1, benchmarks=("spider",))
    first, *others = load_run(folder).samples
    refused = Step(reply="", refusal="content_filter")
    first = first.model_copy(update={"notes": ("renamed header 'a' to 'a_2'",), "steps": (refused,), "rows": None,
                                     "status": "refused", "scores": {"ex": 0.0}})
    write_text(folder / "samples.jsonl", "".join(t.model_dump_json() + "\n" for t in (first, *others)))
    text = followed(folder, first.id)
    assert "reading: renamed header 'a' to 'a_2'" in text
    assert "refused: content_filter" in text
    run = load_run(folder)
    assert run.diagnoses[first.id].rule == "refused"
    sample = unpack(build_payload([run])["s0-0"])[0]
    assert sample["notes"] == list(first.notes)
    assert sample["steps"][0]["refusal"] == "content_filter"
    assert "| a refusal | 1 (33%) |" in markdown_tables([folder])


def older(folder: Path, file: str) -> None:
    """Write ``file`` as version 1 of the layout did."""
    path = folder / file
    text = path.read_text(encoding="utf-8").replace('"version": 2', '"version": 1').replace('"version":2', '"version":1')
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("file", ["samples.jsonl", "results.json"])
@pytest.mark.parametrize("command", ["report", "show", "compare", "predictions"])
def test_a_run_of_another_layout_is_refused_by_name(write_run: Any, file: str, command: str, tmp_path: Path) -> None:
    old, new = write_run("old", 2, 1), write_run("new", 2, 2)
    older(old, file)
    arguments = {"compare": [str(new)], "predictions": ["--out", str(tmp_path / "out")],
                 "report": ["--out", str(tmp_path / "r.html")]}
    result = CliRunner().invoke(app, [command, str(old), *arguments.get(command, [])])
    assert isinstance(result.exception, UserError)
    assert re.search(rf"{file} was written by .*layout", str(result.exception))
    assert "\n" not in str(result.exception)


def test_a_run_of_another_config_is_refused_by_name(write_run: Any) -> None:
    run = write_run("base", 2, 1, {"oracle": True})
    with pytest.raises(UserError, match=r"base was written by another version of this code \(unknown config keys: oracle"):
        markdown_tables([run])


def test_show_lists_samples_and_names_the_nearest_id(write_run: Any) -> None:
    run = write_run("base", 3, 1)
    assert "webqsp-dev-2" in followed(run)
    with pytest.raises(UserError, match="did you mean 'spider-dev-1'"):
        show(run, "spider-dev1")


def test_markup_of_a_cell_is_no_markup_in_the_terminal(write_run: Any) -> None:
    run = write_run("base", 8, 1)
    lines = (run / "samples.jsonl").read_text().replace("Which singers", "[red]Which[/red] [/nothing]singers")
    (run / "samples.jsonl").write_text(lines)
    assert "[red]Which[/red] [/nothing]singers" in followed(run, "spider-dev-1")


def retrieval(**values: Any) -> dict[str, Any]:
    return {"retrieval": {"k": 1, "scope": "shared", "order": "nearest"} | values}


def test_plots_are_svg_and_depend_on_what_the_runs_vary(write_run: Any) -> None:
    full = write_run("full", 6, 1)
    own, zero = write_run("own", 6, 2, retrieval(scope="own")), write_run("zero", 6, 3, retrieval(k=0))
    model = write_run("model", 6, 4, {"llm": {"model": "other"}})

    def names(*folders: Path) -> list[str]:
        plots = all_plots(load_runs(list(folders)))
        for plot in plots:
            ElementTree.fromstring(plot.svg)
            ElementTree.fromstring(plot.themed_svg())
        return [p.title for p in plots]

    assert names(full) == ["Accuracy", "Error kinds", "Accuracy against cost"]
    assert names(full, own)[1] == "Ablations"
    assert "Accuracy against K" in names(full, zero)
    assert names(full, model)[0] == "Backbones"


def test_an_ablation_lacks_one_part_only(write_run: Any) -> None:
    full, own, both = load_runs([
        write_run("full", 1), write_run("own", 1, 0, retrieval(scope="own")),
        write_run("both", 1, 0, retrieval(scope="own", order="random"))])
    assert [ablated([full], r) for r in (full, own, both)] == ["", "− SD", ""]


def test_plots_in_a_page_keep_their_ids_apart(write_run: Any) -> None:
    plots = all_plots(load_runs([write_run("full", 6, 1)]))
    ids = [i for p in plots for i in re.findall(r'id="([^"]+)"', p.themed_svg())]
    assert len(ids) == len(set(ids))


@given(st.recursive(st.none() | st.text() | st.integers(-10**9, 10**9), lambda x: st.lists(x, max_size=4)))
def test_packed_blocks_give_the_data_back(data: Any) -> None:
    packed = pack(data)
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", packed)
    assert unpack(packed) == data


def test_report_needs_no_network_and_names_its_own_script(write_run: Any, tmp_path: Path) -> None:
    page = write_report([write_run("base", 8, 1)], tmp_path / "deep" / "report.html").read_text()
    outside = set(re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(https?://[^"')\s>]+)""", page))
    assert outside <= {"http://www.w3.org/1999/xlink"}
    assert "script-src 'sha256-" in page
    assert "onerror" not in page  # cells are inside packed blocks only


def test_report_does_not_hold_the_diff(write_run: Any, tmp_path: Path) -> None:
    page = write_report([write_run("base", 2, 1)], tmp_path / "report.html").read_text()
    assert "0123456789abcdef" in page
    assert "+ a line" not in page
