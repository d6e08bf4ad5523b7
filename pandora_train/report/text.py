"""Report tables as plain text, for terminals, pipes and logs."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from pandora_train.report.tables import ReportTable, TableCell

WIDTH = 80
GAP = "  "
NAME = 8
"""Columns that a name keeps where it is shortened; figures are never cut."""


def text_table(table: ReportTable, width: int = WIDTH) -> str:
    """Aligned columns in at most ``width`` columns: names and heads are shortened where needed.

    Only intervals stand beside their figures; other notes are left to the report.
    """
    heads = [" ".join(c.split()) for c in table.columns]
    body = [[_plain(cell) for cell in row] for row in table.rows]
    named = [c in table.names for c in table.columns]
    widths = [max(map(cell_len, column)) for column in zip(heads, *body, strict=True)]
    least = [NAME if name else max(map(cell_len, column), default=0)
             for name, column in zip(named, zip(*body, strict=True), strict=True)] if body else widths
    while sum(widths) + len(GAP) * (len(widths) - 1) > width:
        room = [w - m for w, m in zip(widths, least, strict=True)]
        if max(room) <= 0:
            break
        widths[room.index(max(room))] -= 1
    lines = [heads, ["-" * w for w in widths], *body]
    return "\n".join(GAP.join(map(_cell, line, widths, named)).rstrip() for line in lines)


def _plain(cell: TableCell) -> str:
    return " ".join(f"{cell.text} {cell.note if cell.interval else ''}".split())


def _cell(text: str, width: int, name: bool) -> str:
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1).rstrip() + "…"
    space = " " * (width - cell_len(text))
    return text + space if name else space + text
