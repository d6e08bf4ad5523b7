"""Leakage: what an evaluation set shares with memory entries or training rows (PITFALLS 24).

An entry leaks by its id, its question's words, its label (a logical form, whatever its spacing), or its
group. Databases and tables belong to one side; a graph's topic entities may stand on both.
"""

from __future__ import annotations

from collections.abc import Iterable

from pandora_train.memory import Entry, normal_question
from pandora_train.records import Example, content_id

GRAPHS = ("grailqa", "webqsp", "pathquestion")


class Reserved:
    """What belongs to an evaluation set."""

    def __init__(self, examples: Iterable[Example] = (), shared_groups: Iterable[str] = GRAPHS) -> None:
        """``shared_groups``: benchmarks whose groups may stand on both sides."""
        self._shared = set(shared_groups)
        self._ids: set[str] = set()
        self._questions: set[str] = set()
        self._programs: set[str] = set()
        self._groups: set[tuple[str, str]] = set()
        for example in examples:
            self.add(example)

    def add(self, example: Example) -> None:
        """Reserve one evaluation question."""
        self._ids.add(example.id)
        self._questions.add(normal_question(example.question))
        if program := program_id(example):
            self._programs.add(program)
        if example.benchmark not in self._shared:
            self._groups.add((example.benchmark, example.group))

    def shares(self, entry: Entry) -> str:
        """``id``, ``question``, ``label`` or ``group``, whichever leaks first; empty when none does."""
        if entry.id in self._ids:
            return "id"
        if normal_question(entry.question) in self._questions:
            return "question"
        if entry.program_id in self._programs:
            return "label"
        return "group" if (entry.benchmark, entry.group) in self._groups else ""


def program_id(example: Example) -> str:
    """Content id of the label, white space and case aside; a database's own, a logical form's whatever the
    group; empty without a label.

    A bare relation chain says nothing of where it starts: it belongs to its topic, where it is the answer.
    """
    gold = example.gold
    if not gold.program:
        return ""
    scope = example.group if gold.language in ("sql", "steps", "squall", "path") else ""
    return content_id(gold.language, scope, " ".join(gold.program.lower().split()))
