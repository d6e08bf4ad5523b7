"""R*: the relations of a neighbourhood that are near the question (paper, section 3.3).

The encoder comes as a parameter (texts to unit vectors), so that this room needs no model.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pandora_train.box.store import open_graph
from pandora_train.box.triples import Graph
from pandora_train.errors import UserError, first_line
from pandora_train.records import GraphKnowledge

Encode = Callable[[list[str]], npt.NDArray[Any]]


class RelationFilter:
    """Chooses R* by cosine similarity; each relation is encoded once."""

    def __init__(self, encode: Encode, top: int = 30, threshold: float = 0.0) -> None:
        """Keep the ``top`` relations (an inverse pair counts once) with a similarity of ``threshold`` or
        more."""
        self.encode, self.top, self.threshold = encode, top, threshold
        self._vectors: dict[str, npt.NDArray[Any]] = {}

    def __call__(self, knowledge: GraphKnowledge, question: str) -> GraphKnowledge:
        """``knowledge`` with ``relations`` set, unless it has some already."""
        if knowledge.relations is not None:
            return knowledge
        graph = open_graph(knowledge)
        ranked = self.ranked(graph, knowledge.topics, knowledge.hops, question)
        kept = [name for name, score in ranked[: self.top] if score >= self.threshold]
        return knowledge.model_copy(update={"relations": tuple(kept)})

    def ranked(self, graph: Graph, topics: Sequence[str], hops: int,
               question: str) -> list[tuple[str, float]]:
        """All relations of the neighbourhood with their similarity, nearest first.

        A relation with an inverse is as near as the nearer of its two names.
        """
        present = np.unique(graph.relations[graph.neighbourhood(topics, hops)])
        other = {kept: gone for gone, kept in graph.inverse.items()}
        names = [graph.names[i] for i in present]
        spoken = [[relation_text(n), *([relation_text(other[n])] if n in other else [])] for n in names]
        self._learn([t for texts in spoken for t in texts])
        asked = self.encode([question])[0]
        scores = [max(float(self._vectors[t] @ asked) for t in texts) for texts in spoken]
        return sorted(zip(names, scores, strict=True), key=lambda item: (-item[1], item[0]))

    def _learn(self, texts: list[str]) -> None:
        new = [t for t in dict.fromkeys(texts) if t not in self._vectors]
        if new:
            self._vectors.update(zip(new, self.encode(new), strict=True))


def relation_text(name: str) -> str:
    """A relation as words: ``people.person.place_of_birth`` is ``person place of birth``."""
    words = re.sub(r"([a-z])([A-Z])", r"\1 \2", " ".join(name.split(".")[-2:]))
    return " ".join(re.split(r"[\s_]+", words)).strip().lower()


def relation_lists(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Per-question relations from a JSON object, or JSON lines, of example id to a list of relations.

    Raises :class:`UserError` when the file holds something else.
    """
    file = Path(os.path.expanduser(path))
    try:
        text = file.read_text(encoding="utf-8")
        lines = [text] if file.suffix == ".json" else [line for line in text.splitlines() if line.strip()]
        found: dict[str, tuple[str, ...]] = {}
        for line in lines:
            for key, names in json.loads(line).items():
                if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
                    raise ValueError(f"'{key}' needs a list of relation names")
                found[key] = tuple(names)
        return found
    except (OSError, ValueError, AttributeError) as e:
        problem = first_line(e)
        raise UserError(f"{file}: not example ids with lists of relations ({problem})") from None
