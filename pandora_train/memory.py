"""The memory: verified trajectories of all tasks, one JSON line each (paper, section 4.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pandora_train.box.schema import Schema
from pandora_train.errors import UserError
from pandora_train.prompt import Demonstration, Question
from pandora_train.records import VERSION, Benchmark, PromptSettings, Record
from pandora_train.runs import read_jsonl


class Turn(Record):
    """What the model writes in one turn, and what it is told after it (empty after the last)."""

    reply: str = ""
    """As it was written; empty for the compiler, which has no model's words."""
    reasoning: str
    code: str
    feedback: str = ""


class Entry(Record):
    """One verified trajectory."""

    version: int = VERSION
    id: str
    """The example's id."""
    benchmark: Benchmark
    group: str
    question: str
    topics: tuple[str, ...] = ()
    """Topic entities of a graph question."""
    boxes: Schema
    """BOX schemas as the prompt settings show them."""
    turns: tuple[Turn, ...]
    """Corrections included; the last turn gives gold."""
    language: str = ""
    program: str = ""
    """The label beside the pandas code, in ``language``: SQL, SPARQL, an s-expression, a step program, a
    path."""
    program_id: str = ""
    """Content id of the normalised label, for leakage checks by logical form."""
    settings: PromptSettings = PromptSettings()
    """The prompt settings that the question was asked by."""
    provenance: dict[str, Any] = {}
    """Teacher, model or compiler version, and how the answer was checked."""

    def demonstration(self) -> Demonstration:
        """The final, right reply as a demonstration."""
        last, question = self.turns[-1], Question(self.question, self.topics)
        return Demonstration(self.id, question, self.boxes, last.reasoning, last.code)


def normal_question(question: str) -> str:
    """Lower-cased words only: the same question twice, whatever its punctuation."""
    return " ".join(re.findall(r"\w+", question.lower()))


def memory_file(path: str | Path) -> Path:
    """The memory file at ``path``: itself, or ``memory.jsonl`` in an annotate run folder."""
    place = Path(path).expanduser()
    file = place / "memory.jsonl" if place.is_dir() else place
    if not file.is_file():
        raise UserError(f"no memory at {place}: make one with `pandora annotate`")
    return file


def read_entries(paths: str | Sequence[str]) -> list[Entry]:
    """Entries of one memory, or of several read as one.

    Later entries of the same example and file replace earlier ones. Raises :class:`UserError` for a memory of
    another layout.
    """
    entries: list[Entry] = []
    for path in [paths] if isinstance(paths, str) else paths:
        entries += {e.id: e for e in read_jsonl(memory_file(path), Entry)}.values()
    return entries
