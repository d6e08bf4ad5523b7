"""What commands end with: a table of 80 columns, a sentence, and where the report lies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pandora_train.errors import UserError
from pandora_train.report import compared, evaluated
from pandora_train.report.last_words import labels
from pandora_train.report.tables import ReportTable, TableCell
from pandora_train.report.text import text_table

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Mn", "Zl", "Zp"]), min_size=1, max_size=40)
FIGURES = st.floats(-100, 100)


def command(*arguments: str, width: int | None) -> str:
    settings = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | ({"COLUMNS": str(width)} if width else {})
    done = subprocess.run([sys.executable, "-m", "pandora_train.cli", *arguments], capture_output=True, text=True,
                          env=settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


@given(st.lists(st.tuples(NAMES, st.integers(1, 9999), FIGURES, FIGURES, FIGURES), min_size=1, max_size=5),
       NAMES, NAMES, st.booleans())
def test_no_figure_is_ever_cut_and_every_line_fits(rows: list[tuple[str, int, float, float, float]], a: str, b: str,
                                                   incomplete: bool) -> None:
    mark = " (incomplete)" if incomplete else ""
    table = ReportTable("", ["benchmark", "n", a, b, "difference"], [
        [TableCell(name), TableCell(f"{n:,}", "12 clusters"), TableCell("100.0"), TableCell("100.0"),
         TableCell(f"{x:+.1f}{mark}", f"[{y:.1f}, {z:.1f}]")] for name, n, x, y, z in rows])
    lines = text_table(table).split("\n")
    assert len(lines) == len(rows) + 2
    for (_, n, x, y, z), line in zip(rows, lines[2:], strict=True):
        assert cell_len(line) <= 80
        assert line.endswith(f"{x:+.1f}{mark} [{y:.1f}, {z:.1f}]")
        assert f" {n:,} " in line


@pytest.mark.parametrize(("a", "b", "short"), [
    ("evaluate-icl", "evaluate-distilled", ("icl", "distilled")), ("icl-k0", "icl-k3", ("k0", "k3")),
    ("run-1", "run-2", ("run-1", "run-2")), ("x/base", "y/base", ("x/base", "y/base")),
    ("run", "run-b", ("run", "run-b")), ("full", "full", ("full", "full"))])
def test_labels_leave_out_what_names_begin_with_in_common(a: str, b: str, short: tuple[str, str]) -> None:
    assert labels(a, b) == short


@pytest.mark.parametrize("width", [None, 80, 200])
def test_a_comparison_ends_in_one_table_a_sentence_and_a_report(write_run: Any, width: int | None) -> None:
    fragment = {"data": [{"benchmark": b, "path": "x", "split": "dev"} for b in ("grailqa", "spider")]}
    a = write_run("evaluate-icl", 40, 1, fragment, benchmarks=("grailqa", "spider"))
    b = write_run("evaluate-distilled-by-a-long-name", 40, 2, fragment, benchmarks=("grailqa", "spider"))
    lines = command("compare", str(a), str(b), width=width).rstrip("\n").split("\n")
    assert all(len(line) <= 80 for line in lines[:-1])
    assert lines[0].split() == ["benchmark", "n", "icl", "distilled-by-a-long-name", "difference"]
    assert lines[1].replace(" ", "").strip("-") == ""
    assert [line.split()[:2] for line in lines[2:4]] == [["grailqa-fragment", "40"], ["spider", "40"]]
    assert lines[4] == ""
    assert "o difference can be told on" in " ".join(lines[5:-1]) or "scores" in lines[5]
    assert lines[-1] == f"report: {b / 'against-icl.html'}"
    assert (b / "against-icl.html").is_file()


def changed(folder: Path, right: Sequence[str]) -> Path:
    """The run with all answers of these benchmarks right, and all others wrong."""
    from pandora_train.evaluate.results import read_results, summarise
    from pandora_train.records import Trajectory
    from pandora_train.runs import read_jsonl, write_json, write_text

    samples = [t.model_copy(update={"scores": dict.fromkeys(t.scores, float(t.benchmark in right))})
               for t in read_jsonl(folder / "samples.jsonl", Trajectory)]
    write_text(folder / "samples.jsonl", "".join(t.model_dump_json() + "\n" for t in samples))
    old = read_results(folder / "results.json")
    assert old is not None
    new = summarise(samples, samples).model_copy(update={"model": old.model})
    write_json(folder / "results.json", new.model_dump())
    return folder


def test_the_sentence_says_what_happened(write_run: Any) -> None:
    two = ("spider", "wikitq")
    a = changed(write_run("icl", 30, 1, benchmarks=two), [])
    b = write_run("distilled", 30, 2, benchmarks=two)
    better = " ".join(compared(a, b).split())
    assert "distilled scores " in better
    assert " points more than icl on spider [" in better
    worse = " ".join(compared(b, a).split())
    assert " points less than distilled on spider [" in worse
    same = " ".join(compared(a, changed(write_run("other", 30, 3, benchmarks=two), [])).split())
    assert "No difference can be told on spider and wikitq." in same


def test_subsets_and_all_metrics_come_when_asked_for(write_run: Any) -> None:
    a, b = write_run("icl", 12, 1, benchmarks=("webqsp",)), write_run("distilled", 12, 2, benchmarks=("webqsp",))
    plain, subsets, everything = compared(a, b), compared(a, b, subsets=True), compared(a, b, everything=True)
    assert "hardness: easy" not in plain
    assert "hits@1" not in plain
    assert "hardness: easy" in subsets
    assert subsets.endswith(plain)
    assert "hits@1" in everything
    assert "gained:" in everything
    assert "calls, " in everything
    assert everything.endswith(plain)


def test_a_run_ends_in_its_figures_and_what_became_of_its_questions(write_run: Any) -> None:
    run = write_run("base", 12, 1, benchmarks=("spider", "webqsp"), odd=(1, 2), unfinished=2)
    shown = evaluated(run)
    lines = shown.split("\n")
    assert all(len(line) <= 80 for line in lines[:-1])
    assert lines[0].split()[:3] == ["benchmark", "metric", "n"]
    assert next(line for line in lines if line.startswith("webqsp")).endswith("]")
    assert "(incomplete)" in next(line for line in lines if line.startswith("webqsp"))
    assert "(incomplete)" not in next(line for line in lines if line.startswith("spider"))
    words = " ".join(lines)
    assert "of 24 questions" in words
    assert "2 are unfinished" in words
    assert lines[-1] == f"report: {run / 'report.html'}"


def test_a_run_without_a_single_sample_says_so(write_run: Any) -> None:
    run = write_run("base", 3, 1, benchmarks=("spider",), unfinished=3)
    (run / "samples.jsonl").unlink()
    assert "of 3 questions 3 are unfinished" in " ".join(evaluated(run).split())


def test_a_report_that_cannot_be_written_costs_no_table(write_run: Any, tmp_path: Path) -> None:
    a, b = write_run("icl", 6, 1), write_run("distilled", 6, 2)
    (b / "against-icl.html").mkdir()
    assert compared(a, b).splitlines()[-1].startswith("no report: cannot write")
    with pytest.raises(UserError, match="choose another --out"):
        compared(a, b, out=b / "against-icl.html")
