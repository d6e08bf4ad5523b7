"""Table files as rows of text cells: CSV and TSV as people write them, and WikiTableQuestions' dialects."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from pandora_train.errors import ReadingError
from pandora_train.records import TableKnowledge
from pandora_train.sources.reading import readable, text

_ESCAPES = {r"\n": "\n", r"\p": "|", r"\\": "\\"}


def table_rows(knowledge: TableKnowledge) -> Iterator[list[str]]:
    """The rows of a table's file, its header first; blank lines are none.

    Raises :class:`ReadingError` for a missing or non-UTF-8 file or broken quoting, with the line.
    """
    path = Path(knowledge.path)
    with readable(knowledge.path):
        content = text(path).replace("\r\n", "\n").replace("\r", "\n")
    if knowledge.dialect == "wikitq" and path.suffix == ".tsv":
        return ([unescape(cell) for cell in line.split("\t")] for line in content.split("\n") if line)
    if knowledge.dialect == "wikitq":
        return _parsed(path, csv.reader(_lines(content), doublequote=False, escapechar="\\"))
    return _parsed(path, csv.reader(_lines(content), delimiter=_delimiter(path, content)))


def unescape(text: str) -> str:
    r"""Undo WikiTableQuestions' escapes: ``\n`` a line feed, ``\p`` a vertical bar, ``\\`` a backslash."""
    return re.sub(r"\\[np\\]", lambda m: _ESCAPES[m.group()], text)


def _lines(content: str) -> Iterator[str]:
    """Lines with their ends kept, split at line feeds only (text may hold other separators)."""
    return iter(re.findall(r"[^\n]*\n|[^\n]+", content))


def _parsed(path: Path, reader: Iterator[list[str]]) -> Iterator[list[str]]:
    done = 0
    try:
        for row in reader:
            done += 1
            if row:  # csv gives [] for a blank line
                yield row
    except csv.Error as e:
        raise ReadingError(f"{path}, row {done + 1}: {e}; is the quoting of this file right?") from None


def _delimiter(path: Path, content: str) -> str:
    """Tab for .tsv; else whichever of comma, semicolon and tab is most frequent in the header line."""
    header = content.split("\n", 1)[0]
    return "\t" if path.suffix == ".tsv" else max(",;\t", key=header.count)
