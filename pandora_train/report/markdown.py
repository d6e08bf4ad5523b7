"""Report tables as GitHub markdown."""

from __future__ import annotations

import re
from pathlib import Path

from pandora_train.report.load import load_runs
from pandora_train.report.tables import ReportTable, TableCell, about, all_tables


def markdown_tables(run_dirs: list[Path]) -> str:
    """The tables of one run, or of several side by side.

    Raises :class:`~pandora_train.errors.UserError` when a folder is no evaluation run.
    """
    runs = load_runs(run_dirs)
    return "\n\n".join(write_table(t) for t in [*all_tables(runs), about(runs)])


def write_table(table: ReportTable) -> str:
    """Title, table and note. Text of a run cannot break the table or become markup."""
    rule = ["---" if column in table.names else "---:" for column in table.columns]
    lines = [[escape(c) for c in table.columns], rule, *[[_cell(c) for c in row] for row in table.rows]]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join(part for part in (f"### {escape(table.title)}", body, table.note) if part)


def _cell(cell: TableCell) -> str:
    text = escape(cell.text)
    note = cell.note if cell.interval or not cell.note else f"({cell.note})"
    return f"{f'**{text}**' if cell.strong else text} {escape(note)}".strip()


def escape(text: str) -> str:
    """Markdown that shows ``text`` as it is, on one line."""
    text = re.sub(r"\s+", " ", text)
    return re.sub(r"([\\|<>*_`&])", r"\\\1", text)
