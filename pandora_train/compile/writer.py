"""What every label compiler writes: named steps of pandas code, each with its sentence of reasoning."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pandora_train.box.box import BoxSet, identifier


class Unsupported(Exception):
    """A label that the compiler does not cover. ``reason`` is a short, countable kind."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Compiled:
    """A program as the student shall learn it: numbered reasoning, then code that ends with ``result``."""

    reasoning: str
    code: str


@dataclass
class Writer:
    """Collects steps in order and keeps variable names unique (BOX names are taken from the start)."""

    boxes: BoxSet
    sentences: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.taken |= {b.name for b in self.boxes}

    def name(self, base: str) -> str:
        """A fresh variable name near ``base``."""
        return identifier(re.sub(r"\W+", "_", base).strip("_").lower() or "step", self.taken)

    def step(self, sentence: str, *lines: str) -> None:
        """One idea: an English sentence (empty: belongs to the step before) and its code lines."""
        if sentence:
            self.sentences.append(sentence)
        self.lines.extend(lines)

    def mark(self) -> tuple[int, int, set[str]]:
        """What is written so far, for :meth:`take_back`."""
        return len(self.lines), len(self.sentences), set(self.taken)

    def take_back(self, mark: tuple[int, int, set[str]]) -> None:
        """Forget everything written since ``mark``."""
        del self.lines[mark[0]:]
        del self.sentences[mark[1]:]
        self.taken = set(mark[2])

    def compiled(self) -> Compiled:
        """The finished program."""
        reasoning = "\n".join(f"{n}. {s}" for n, s in enumerate(self.sentences, 1))
        return Compiled(reasoning=reasoning, code="\n".join(self.lines))
