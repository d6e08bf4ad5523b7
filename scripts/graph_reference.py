"""S-expressions and relation paths run directly on triples: the reference of the graph fidelity figures.

It shares no code with the BOXes: dictionaries of triples, inverse relations closed over both directions,
sets. Types are only inferred on a fragment, so a class beside other conditions restricts nothing; alone it
stands for the subjects and values of its relations.
"""

from __future__ import annotations

import operator
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Index = dict[str, set[str]]
Members = set[str] | None
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
NOW = "2015-08-10"


def rows(path: Path) -> list[list[str]]:
    """Tab-separated lines."""
    return [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]


class Triples:
    """A graph as dictionaries: relation to subject to values, and back."""

    def __init__(self) -> None:
        self.forward: dict[str, Index] = defaultdict(lambda: defaultdict(set))
        self.backward: dict[str, Index] = defaultdict(lambda: defaultdict(set))
        self.members: Index = defaultdict(set)

    def add(self, head: str, relation: str, tail: str) -> None:
        self.forward[relation][head].add(tail)
        self.backward[relation][tail].add(head)

    @classmethod
    def of_file(cls, path: Path) -> Triples:
        """Head, relation and tail a line."""
        made = cls()
        for head, relation, tail in rows(path):
            made.add(head, relation, tail)
        return made

    @classmethod
    def of_fragment(cls, folder: Path, layers: str) -> Triples:
        """``triples.tsv`` with the inverses of ``relation_roles.tsv``."""
        made = cls()
        roles = {r[0]: [*r[1:], "", "", ""][:3] for r in rows(folder / "relation_roles.tsv")[1:]}
        for head, relation, tail, layer in rows(folder / "triples.tsv")[1:]:
            if layers == "explored" and not {"aog", "gnnrag"} & set(layer.split(",")):
                continue
            domain, range_, reverse = roles.get(relation, ["", "", ""])
            made.add(head, relation, tail)
            if reverse:
                made.add(tail, reverse, head)
            made.members[domain or relation.rpartition(".")[0]].add(head)
            made.members[range_].add(tail)
        return made

    def walk(self, topic: str, chain: list[str]) -> set[str]:
        """Nodes at the end of a relation path."""
        here = {topic}
        for relation in chain:
            here = {y for x in here for y in self.forward[relation].get(x, ())}
        return here


def parse(text: str) -> Any:
    """Nested lists of tokens."""
    tokens = re.findall(r"[()]|[^\s()]+", text)
    stack: list[list[Any]] = [[]]
    for token in tokens:
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    return stack[0][0]


class Evaluator:
    """Runs s-expressions; ``names`` turns ids into node names."""

    def __init__(self, graph: Triples, names: Mapping[str, str]) -> None:
        self.graph, self.names = graph, names

    def answers(self, program: str) -> set[str]:
        """The answer set of an s-expression (a count as its digits)."""
        tree = parse(program)
        if isinstance(tree, list) and tree[0] == "COUNT":
            return {str(len(self._known(tree[1])))}
        return self._known(tree)

    def _known(self, e: Any) -> set[str]:
        found = self._set(e)
        return set(self.graph.members.get(e, ())) if found is None else found

    def _set(self, e: Any) -> Members:
        """``None`` for a class."""
        if isinstance(e, str):
            if re.fullmatch(r"[mg]\.[0-9a-z_]+", e):
                return {self.names.get(e, e)}
            is_value = "^^" in e or re.match(r"[-+]?\d", e)
            return {e.partition("^^")[0]} if is_value else None
        if e[0] == "JOIN":
            _, backward = self._relation(e[1])
            inner = self._set(e[2])
            return {x for y in (set(backward) if inner is None else inner) for x in backward.get(y, ())}
        if e[0] == "AND":
            left, right = self._set(e[1]), self._set(e[2])
            return right if left is None else left if right is None else left & right
        if e[0] in COMPARISONS:
            return self._compared(e)
        if e[0] in ("ARGMAX", "ARGMIN"):
            return self._extreme(e)
        if e[0] == "TC":
            return self._during(self._known(e[1]), e[2], e[3].partition("^^")[0])
        raise ValueError(f"operator {e[0]}")

    def _relation(self, e: Any) -> tuple[Index, Index]:
        if isinstance(e, str):
            return self.graph.forward.get(e, {}), self.graph.backward.get(e, {})
        if e[0] == "R":
            forward, backward = self._relation(e[1])
            return backward, forward
        (first, _), (second, _) = self._relation(e[1]), self._relation(e[2])
        forward, backward = defaultdict(set), defaultdict(set)
        for x, middle in first.items():
            for z in {z for y in middle for z in second.get(y, ())}:
                forward[x].add(z)
                backward[z].add(x)
        return forward, backward

    def _compared(self, e: Any) -> set[str]:
        bound, found = typed(e[2].partition("^^")[0]), set[str]()
        for value, subjects in self._relation(e[1])[1].items():
            cell = typed(value)
            if cell[0] == bound[0] and COMPARISONS[e[0]](cell, bound):
                found |= subjects
        return found

    def _extreme(self, e: Any) -> set[str]:
        forward, _ = self._relation(e[2])
        base = self._set(e[1])
        members = forward if base is None else [x for x in base if x in forward]
        values = {x: {typed(v) for v in forward[x]} for x in members}
        if not values:
            return set()
        best = (max if e[0] == "ARGMAX" else min)(v for many in values.values() for v in many)
        return {x for x, many in values.items() if best in many}

    def _during(self, base: set[str], relation: str, when: str) -> set[str]:
        """Begun by the end of ``when``, not ended before it; a missing date does not exclude."""
        last, first = (NOW, NOW) if when == "NOW" else (f"{when}-12-31"[:10], when)
        prefix, _, name = relation.rpartition(".")
        end = {"from": "to", "from_date": "to_date", "start_date": "end_date"}.get(name, "")
        begun, ended = self.graph.forward.get(relation, {}), self.graph.forward.get(f"{prefix}.{end}", {})
        return {x for x in base
                if (not begun.get(x) or any(v <= last for v in begun[x]))
                and (not ended.get(x) or any(v >= first for v in ended[x]))}


def typed(value: str) -> tuple[int, Any]:
    """Numbers before text, each comparable with its like."""
    try:
        return 0, float(value)
    except ValueError:
        return 1, value
