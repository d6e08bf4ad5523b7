"""Ask your own data one question: files become BOXes, the agent answers, the terminal shows how."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pandora_train.answer import Answer
from pandora_train.records import Example, content_id
from pandora_train.setup import AnswerConfig, opened
from pandora_train.sources.files import knowledge_for

if TYPE_CHECKING:
    from rich.console import Console


class AskConfig(AnswerConfig):
    """``pandora ask``: one question over the user's own files."""


def answer(config: AskConfig, question: str, path: str, topics: tuple[str, ...]) -> Answer:
    """The answer to ``question`` over a table, database or graph at ``path``, unscored."""
    example = Example(id=f"files:{content_id(question, path)}", benchmark="files", split="ask",
                      question=question, knowledge=knowledge_for(path, topics), group="ask")
    with opened(config) as setup:
        return setup.answerer(example, scored=False)


def ask(config: AskConfig, question: str, path: str, topics: tuple[str, ...] = ()) -> None:
    """Print reasoning, code and answer of one question."""
    from rich.console import Console
    from rich.syntax import Syntax

    given = answer(config, question, path, topics)
    console = Console()
    for note in given.trajectory.notes:
        console.print(f"note: {note}", style="yellow", markup=False)
    for step in given.trajectory.steps:
        console.print(step.reasoning or step.reply, markup=False)
        if step.code:
            console.print(Syntax(step.code, "python", word_wrap=True))
        if step.feedback:
            console.print(step.feedback, style="yellow", markup=False)
    _print_rows(given, console)


def _print_rows(given: Answer, console: Console) -> None:
    """The answer as a table, under the names of its columns where the code says them."""
    from rich.table import Table
    from rich.text import Text

    trajectory = given.trajectory
    if trajectory.rows is None:
        why = trajectory.reason or next((s.refusal for s in trajectory.steps if s.refusal), "")
        console.print(f"no answer ({trajectory.status or trajectory.ending}{': ' if why else ''}{why})",
                      style="red", markup=False)
        return
    width = max((len(row) for row in trajectory.rows), default=0)
    names = column_names(trajectory.steps[-1].code, width)
    table = Table(show_header=bool(names))
    for name in names:
        table.add_column(Text(name))
    for row in trajectory.rows:  # cells are data, not markup
        table.add_row(*(Text("" if cell is None else cell) for cell in row))
    console.print(table)


def column_names(code: str, width: int) -> list[str]:
    """Names of the ``width`` columns of ``result``, as far as the code spells them; empty where it doesn't.

    Follows ``result`` back through assignments to the columns selected last: ``[['a', 'b']]``, or ``['a']``.
    """
    try:
        body = ast.parse(code).body
    except SyntaxError:
        return []
    assigned = [(target.id, node.value) for node in body if isinstance(node, ast.Assign)
                for target in node.targets if isinstance(target, ast.Name)]
    wanted = "result"
    for name, value in reversed(assigned):
        if name != wanted:
            continue
        parts = list(ast.walk(value))  # outermost first: what is selected last
        chosen = next((names for part in parts if len(names := _selected(part)) == width), [])
        if chosen:
            return chosen
        wanted = next((part.id for part in parts if isinstance(part, ast.Name)), "")
    return []


def _selected(node: ast.expr | ast.AST) -> list[str]:
    """Column names in a subscript: ``['a']`` or ``[['a', 'b']]``."""
    if not isinstance(node, ast.Subscript):
        return []
    parts = node.slice.elts if isinstance(node.slice, ast.List) else [node.slice]
    names = [p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]
    return names if len(names) == len(parts) else []
