"""Entity linking: which nodes a question speaks of, for questions that come without topic entities.

Spans of the question are looked up among node names and aliases, longest first, then among near spellings;
without any, types whose name occurs are offered: all their nodes are the start.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property, lru_cache
from typing import Literal

from pandora_train.box.triples import Graph

LONGEST = 8
"""Words of a mention, at most."""
NEAR = 0.84
"""Similarity of spelling from which a name counts as meant."""
STOP = frozenset(re.findall(r"\w+", """
    a all an and any are as at be been by did do does first for from had has have he her his how i in is it
    its kind last list many most much name new no not of on or our she some that the their them they this to
    type us use used was we were what when where which who whom whose will with you your"""))


@dataclass(frozen=True)
class Candidate:
    """A node (or type) that the question may speak of."""

    node: str
    """What goes into ``topics``."""
    mention: str
    start: int
    """First word of the mention in the question."""
    score: float
    """1 for the name itself, 0.95 for an alias, the similarity of spelling for near ones."""
    how: Literal["name", "alias", "spelling", "type"]


def topics_of(question: str, graph: Graph) -> tuple[str, ...]:
    """The best candidate of each mention; types when there is no entity; empty when there is neither."""
    best: dict[int, Candidate] = {}
    for candidate in link(question, graph):
        best.setdefault(candidate.start, candidate)
    return tuple(dict.fromkeys(c.node for c in best.values()))


def link(question: str, graph: Graph, limit: int = 5) -> list[Candidate]:
    """Up to ``limit`` candidates for each mention, best first; mentions don't overlap, longer ones win."""
    index, words = _index(graph), _words(question)
    candidates: list[Candidate] = []
    free = [True] * len(words)
    for lookup in (index.exact, index.similar):
        for start, end in _spans(words):
            span = words[start:end]
            if not all(free[start:end]) or _empty(span):
                continue
            ranked = sorted(lookup(span), key=lambda c: (-c[1], -index.degree[c[0]], c[0]))[:limit]
            if ranked:
                free[start:end] = [False] * (end - start)
                candidates += [Candidate(n, " ".join(span), start, s, how) for n, s, how in ranked]
    return sorted(candidates, key=lambda c: c.start) or _types(words, graph, limit)


def _words(text: str) -> list[str]:
    """Lower-case words without accents; possessive endings are dropped."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return re.findall(r"\w+", re.sub(r"['’]s\b", "", plain.lower()).replace("_", " "))


def _spans(words: list[str]) -> Iterator[tuple[int, int]]:
    """All spans of up to ``LONGEST`` words, longer ones first."""
    for size in range(min(LONGEST, len(words)), 0, -1):
        for start in range(len(words) - size + 1):
            yield start, start + size


def _empty(span: list[str]) -> bool:
    """A span of stop words, or a single letter, is no mention."""
    return all(w in STOP for w in span) or (len(span) == 1 and len(span[0]) < 2)


NameMatch = tuple[str, float, Literal["name", "alias", "spelling"]]


class _Index:
    """Names and aliases of nodes by their words."""

    def __init__(self, graph: Graph) -> None:
        self.names: dict[str, list[str]] = {}
        self.aliases: dict[str, list[str]] = {}
        self.by_word: dict[str, set[str]] = {}
        counts = Counter(graph.heads.tolist()) + Counter(graph.tails.tolist())
        self.degree: dict[str, int] = {}
        for node, name in enumerate(graph.nodes):
            if not graph.literal[node] and not re.fullmatch(r"[mg]\.[0-9a-z_]+|_:.*", name):
                self.degree[name] = counts[node]
                self._add(self.names, name, name)
        for alias, name in graph.aliases.items():
            if name in self.degree and not re.fullmatch(r"[mg]\.[0-9a-z_]+|\w+://.*", alias):
                self._add(self.aliases, alias, name)

    def _add(self, table: dict[str, list[str]], text: str, node: str) -> None:
        words = _words(text)
        key = " ".join(words)
        if key and node not in table.setdefault(key, []):
            table[key].append(node)
            for word in words:
                if word not in STOP and len(word) > 2:
                    self.by_word.setdefault(word, set()).add(key)

    def exact(self, span: list[str]) -> list[NameMatch]:
        key = " ".join(span)
        matches: list[NameMatch] = [(n, 1.0, "name") for n in self.names.get(key, [])]
        return matches + [(n, 0.95, "alias") for n in self.aliases.get(key, [])]

    def similar(self, span: list[str]) -> list[NameMatch]:
        """Names spelt nearly alike that share a word, or a word's beginning, with the span."""
        text, keys = " ".join(span), set[str]()
        if len(text) < 5:
            return []
        for word in span:
            keys |= self.by_word.get(word, set())
        if len(span) == 1:
            keys |= set(self._singles.get(text[:3], ()))
        matches: list[NameMatch] = []
        for key in keys:
            if abs(len(key) - len(text)) <= 0.3 * len(text):
                score = SequenceMatcher(None, text, key, autojunk=False).ratio()
                if score >= NEAR:
                    nodes = self.names.get(key, []) + self.aliases.get(key, [])
                    matches += [(n, score, "spelling") for n in nodes]
        return matches

    @cached_property
    def _singles(self) -> dict[str, list[str]]:
        """Names of one word by their first three letters."""
        singles: dict[str, list[str]] = {}
        for key in [*self.names, *self.aliases]:
            if " " not in key:
                singles.setdefault(key[:3], []).append(key)
        return singles


@lru_cache(maxsize=8)
def _index(graph: Graph) -> _Index:
    return _Index(graph)


def _types(words: list[str], graph: Graph, limit: int) -> list[Candidate]:
    """Types named in the question, in singular or plural; longer names first."""
    forms = [_forms(w) for w in words]
    candidates = []
    for kind in dict.fromkeys([*graph.types, *graph.domains]):
        name = re.sub(r"([a-z])([A-Z])", r"\1 \2", kind.rpartition(".")[2])
        parts = [_forms(w) for w in _words(name)]
        for start in range(len(words) - len(parts) + 1 if parts else 0):
            if all(a & b for a, b in zip(parts, forms[start:], strict=False)):
                mention = " ".join(words[start:start + len(parts)])
                candidates.append(Candidate(kind, mention, start, 1.0, "type"))
    return sorted(candidates, key=lambda c: (-len(c.mention.split()), c.start, c.node))[:limit]


def _forms(word: str) -> set[str]:
    """The word, and what it may be the plural of."""
    return {word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ies$", "y", word)}
