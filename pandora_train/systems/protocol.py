"""What every system is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pandora_train.box.box import BoxSet
from pandora_train.box.schema import Schema
from pandora_train.prompt import Demonstration, Prompt
from pandora_train.records import Example, Row, Step

GoldCheck = Callable[[tuple[Row, ...]], str]
"""A teacher's check of an answer: what is wrong with it, or an empty string."""


@dataclass(frozen=True)
class Task:
    """One grounded question with its BOXes, ready to be worked on."""

    example: Example
    boxes: BoxSet
    schema: Schema
    """What the prompt settings show of the BOXes."""
    demonstrations: Sequence[Demonstration] = ()
    """Nearest first."""
    hint: tuple[str, str] = ("", "")
    """``(language, query)``: the label, for a teacher that may see it."""
    check: GoldCheck | None = None
    """For a teacher that may see gold."""


@dataclass(frozen=True)
class Solution:
    """The steps taken. ``prompt`` is what the model was first shown, for systems that show one."""

    steps: tuple[Step, ...]
    prompt: Prompt | None = None


class System(Protocol):
    """Works on questions; called from several threads at once."""

    def solve(self, task: Task) -> Solution:
        """Follow ``task`` to its last step.

        Whatever a model writes is a step. Raises :class:`~pandora_train.errors.MachineryError` when a server
        or the sandbox fails (the question stays unfinished), :class:`~pandora_train.errors.UserError` for
        what concerns all questions (no key, unknown model).
        """
        ...
