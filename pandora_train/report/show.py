"""One question followed from file to score, in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from pandora_train.evaluate.error_kinds import KINDS, primary_score
from pandora_train.records import Execution, Row, Step, Trajectory
from pandora_train.report.load import RunData, load_run

ROWS = 20
THEME = "ansi_dark"
"""Colours of the terminal's own palette, legible on light and dark grounds."""


def show(run_dir: Path, sample_id: str = "", console: Console | None = None) -> None:
    """Print one sample of a run: prompt, turns, answer beside gold, score. Without an id, list the samples.

    Raises :class:`~pandora_train.errors.UserError` for a folder that is no run and an id that is not in it.
    """
    run = load_run(run_dir)
    console = console or Console(width=None if sys.stdout.isatty() else 110)
    if not sample_id:
        console.print(_listing(run))
        console.print(Text(_counts(run), "dim"))
        return
    for part in _follow(run, run.sample(sample_id)):
        console.print(part)


def _listing(run: RunData) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("id", "score", "ended", "error kind", "question"):
        table.add_column(name, no_wrap=name != "question")
    for t in run.samples:
        score = primary_score(t)
        diagnosis = run.diagnoses.get(t.id)
        kind = KINDS[diagnosis.kind] if diagnosis else ""
        table.add_row(Text(t.id), _score(score), t.status or t.ending, kind, Text(t.question))
    return table


def _counts(run: RunData) -> str:
    """What became of the questions, and which are unfinished."""
    lines = [run.results.questions.words() or f"all {run.results.questions.asked} questions are answered"]
    lines += [f"{i} is unfinished: {reason}" for i, reason in run.results.unfinished.items()]
    return "\n".join(lines if run.finished else ["the run is not finished", *lines])


def _score(value: float | None) -> Text:
    if value is None:
        return Text("–", "dim")
    return Text(f"{value:.2f}".rstrip("0").rstrip("."), "green" if value >= 1 else "red")


def _follow(run: RunData, t: Trajectory) -> Iterator[RenderableType]:
    yield Rule(Text(f"{t.benchmark} · {t.id}"), style="dim")
    yield Text(t.question, "bold")
    tags = ", ".join(f"{k} {v}" for k, v in t.tags.items())
    yield Text(" · ".join(p for p in (f"split {t.split}", f"group {t.group}", tags) if p), "dim")
    for note in t.notes:
        yield Text(f"reading: {note}", "yellow")
    yield from _prompt(run, t)
    for number, step in enumerate(t.steps, 1):
        yield Text()
        yield Rule(Text(f"turn {number} of {len(t.steps)}"), style="dim", align="left")
        yield from _turn(step)
    if not t.steps:
        yield Text(no_turn(t), "red")
    yield Text()
    yield Rule(Text("answer and gold"), style="dim", align="left")
    yield from _verdict(run, t)


def _prompt(run: RunData, t: Trajectory) -> Iterator[RenderableType]:
    """The BOX schemas, and the demonstrations by question; the instruction is the same for all."""
    shown = iter(t.demonstrations)
    for part in t.prompt:
        text = run.parts.get(part.key, "(not stored)")
        if part.kind == "demonstration":
            question = next((line for line in text.splitlines() if line.startswith("Question: ")), "")
            yield Text(f"demonstration {next(shown, '')}  {question.removeprefix('Question: ')}", "dim")
        elif part.kind == "boxes":
            schema = Syntax(text, "python", theme=THEME, word_wrap=True, background_color="default")
            yield Padding(_titled("BOX schemas", schema), (1, 0, 0, 0))
    if t.demonstrations_cut:
        yield Text(f"{t.demonstrations_cut} demonstrations left out by the token budget", "yellow")


def no_turn(t: Trajectory) -> str:
    """Why the model was not asked, or wrote nothing."""
    if t.ending == "answered":
        return "no turn was taken: the prompt did not fit"
    return f"no turn was taken, {t.ending}: {t.reason}"


def _titled(title: str, *parts: RenderableType, style: str = "dim") -> Panel:
    return Panel(Group(*parts), title=Text(title), title_align="left", border_style=style)


def _turn(step: Step) -> Iterator[RenderableType]:
    if step.reasoning:
        yield Text(step.reasoning)
    if step.code:
        bad = step.execution.error.line if step.execution and step.execution.error else None
        code = Syntax(step.code, "python", theme=THEME, line_numbers=True, word_wrap=True,
                      background_color="default", highlight_lines={bad} if bad else None)
        yield _titled("code", code)
    if step.refusal:
        yield Text(f"refused: {step.refusal}", "red")
    if step.problem:
        yield Text(f"the reply could not be run: {step.problem}", "red")
        if not step.code:
            yield _titled("reply as written", Text(step.reply))
    if step.execution:
        yield from _execution(step.execution)
    if step.feedback:
        yield _titled("fed back to the model", Text(step.feedback), style="yellow")


def _execution(execution: Execution) -> Iterator[RenderableType]:
    if execution.error:
        error = execution.error
        line = f"line {error.line}: " if error.line else ""
        yield Text(f"{line}{error.type}: {error.message}", "red")
        if error.hint:
            yield Text(f"hint: {error.hint}", "yellow")
    elif execution.outcome != "result":
        yield Text(f"ended by {execution.outcome.replace('_', ' ')}", "red")
    else:
        form = f", returned as {execution.shape}" if execution.shape not in ("", "rows") else ""
        yield Text(f"ran in {execution.seconds:.2f} s{form}", "dim")
        if execution.hint:
            yield Text(f"hint: {execution.hint}", "yellow")


def _verdict(run: RunData, t: Trajectory) -> Iterator[RenderableType]:
    gold = t.gold_rows if t.gold_rows is not None else tuple((a,) for a in t.gold.answers or ())
    beside = Table.grid(padding=(0, 4, 0, 0))
    beside.add_row(Text("answer", "dim"), Text("gold", "dim"))
    beside.add_row(_rows(t.rows), _rows(gold))
    yield beside
    if t.gold.program:
        lexer = "sql" if t.gold.language in ("sql", "sparql") else "lisp"
        program = Syntax(t.gold.program, lexer, theme=THEME, word_wrap=True, background_color="default")
        yield _titled(f"gold program ({t.gold.language})", program)
    scores = Text("  ").join(Text.assemble((f"{name} ", "dim"), _score(v)) for name, v in t.scores.items())
    yield scores
    diagnosis = run.diagnoses.get(t.id)
    if diagnosis:
        yield Text(f"{KINDS[diagnosis.kind]} ({diagnosis.rule})", "red")
        for sentence in diagnosis.evidence:
            yield Text(f"  {sentence}")
    u = t.usage
    yield Text(f"ended: {t.status or t.ending} · {u.calls} calls · {u.prompt_tokens:,} + "
               f"{u.completion_tokens:,} tokens · {t.seconds:.1f} s · {u.usd:.4f} USD", "dim")


def _rows(rows: tuple[Row, ...] | None) -> RenderableType:
    if rows is None:
        return Text("no answer", "italic dim")
    if not rows:
        return Text("no rows", "italic dim")
    table = Table(show_header=False, border_style="dim", padding=(0, 1))
    width = max(len(r) for r in rows)
    for row in rows[:ROWS]:
        cells = [Text("null", "italic dim") if c is None else Text(c) for c in row]
        table.add_row(*cells, *[""] * (width - len(row)))
    if len(rows) > ROWS:
        table.add_row(Text(f"… {len(rows) - ROWS:,} more rows", "dim"), *[""] * (width - 1))
    return table
