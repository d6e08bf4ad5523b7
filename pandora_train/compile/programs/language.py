"""The language of step programs, TrustUQA's, as a GPT wrote it for questions over tables and graphs.

A program is a list of numbered queries such as ``get_information(relation='Year', tail_entity>'1989')`` or
``count(set='output_of_query1')``, each using the outputs of earlier ones. The text is free, so what does not
parse or has no clear meaning is :class:`Unsupported` with a named reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pandora_train.compile.writer import Unsupported

_QUERY = re.compile(r"Query\s*(\d+)\s*:\s*\"?\s*([A-Za-z_]\w*)\s*\((.*)\)\s*\"?\s*$")
_ARGUMENT = re.compile(
    r"(\w+)\s*(<=|>=|!=|==|=|<|>)\s*(?:(['\"])(.*?)\3|(output_of_query\d+))(?=\s*(?:,|$))"
)
_REFERENCE = re.compile(r"^output_of_query\s*(\d+)$", re.IGNORECASE)


@dataclass(frozen=True)
class Argument:
    """``key operator 'value'``."""

    key: str
    operator: str
    value: str


@dataclass(frozen=True)
class StepQuery:
    """One numbered call."""

    number: int
    function: str
    arguments: tuple[Argument, ...]

    def get(self, *keys: str) -> Argument:
        """The argument of that name."""
        named = [a for a in self.arguments if a.key in keys]
        if len(named) != 1:
            raise Unsupported("arguments", f"{self.function} with {[a.key for a in self.arguments]}")
        return named[0]


def parse_program(program: str) -> list[StepQuery]:
    """The queries of a program, in order; raises :class:`Unsupported` when a line is not well-formed."""
    queries = []
    for line in program.splitlines():
        if not re.match(r"\s*Query\s*\d+\s*:", line):
            continue
        match = _QUERY.match(line.strip())
        if match is None:
            raise Unsupported("not well-formed", line.strip()[:80])
        arguments = tuple(Argument(m[1], m[2], m[4] if m[5] is None else m[5])
                          for m in _ARGUMENT.finditer(match[3]))
        if rest := _ARGUMENT.sub("", match[3]).replace(",", "").strip():
            raise Unsupported("not well-formed", rest[:80])
        queries.append(StepQuery(int(match[1]), match[2], arguments))
    if not queries:
        raise Unsupported("not well-formed", "no query")
    return queries


def reference(value: str) -> int | None:
    """The number of the query whose output a value names; ``None`` for a literal."""
    match = _REFERENCE.match(value.strip())
    return int(match[1]) if match else None
