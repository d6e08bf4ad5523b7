"""S-expressions, the logical forms of GrailQA and WebQSP: text to nested lists."""

from __future__ import annotations

import re

SExpression = str | list["SExpression"]
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"(?:\^\^\S+?|@\w+)?(?=[\s()]|$)|[()]|[^\s()]+')
"""A quoted literal with its datatype or language, a bracket, or anything up to the next of either."""


def parse_sexpr(text: str) -> SExpression:
    """Nested lists of tokens. Raises :class:`ValueError` unless ``text`` is one complete expression."""
    stack: list[list[SExpression]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) == 1:
                raise ValueError("one bracket too many")
            closed = stack.pop()
            stack[-1].append(closed)
        else:
            stack[-1].append(token)
    if len(stack) != 1 or len(stack[0]) != 1:
        raise ValueError("not one complete expression")
    return stack[0][0]
