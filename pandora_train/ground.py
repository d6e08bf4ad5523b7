"""What a graph question is asked over: topic entities where none are given, and R*, the relations kept."""

from __future__ import annotations

from pydantic import NonNegativeInt

from pandora_train.box.link import topics_of
from pandora_train.box.relations import RelationFilter, relation_lists
from pandora_train.box.store import open_graph
from pandora_train.config import Config
from pandora_train.encoder import Encoder
from pandora_train.records import Example
from pandora_train.sources.reading import readable


class RelationsConfig(Config):
    """R*: the relations of a graph question's neighbourhood that its BOXes keep (paper, section 3.3)."""

    keep: NonNegativeInt = 0
    """Relations nearest to the question; 0 keeps all."""
    lists: str = ""
    """R* per question from a file instead: JSON of example id to relations (the paper's source for R*)."""

    def ranked_by(self, encoder: str) -> str:
        """What chose R*, for the prompt settings."""
        return "lists" if self.lists else encoder if self.keep else ""


class Grounder:
    """Grounds examples; tables, databases and graph questions that need nothing pass unchanged."""

    def __init__(self, config: RelationsConfig, encoder: Encoder) -> None:
        self._filter = RelationFilter(encoder, config.keep) if config.keep else None
        self._lists = relation_lists(config.lists) if config.lists else {}

    def __call__(self, example: Example) -> Example:
        """``example`` with linked topics and the relations nearest to its question."""
        knowledge = example.knowledge
        if knowledge.kind != "graph":
            return example
        with readable(knowledge.store):
            graph = open_graph(knowledge)
        if not knowledge.topics:
            knowledge = knowledge.model_copy(update={"topics": topics_of(example.question, graph)})
        if example.id in self._lists:
            knowledge = knowledge.model_copy(update={"relations": self._lists[example.id]})
        if self._filter is not None:
            knowledge = self._filter(knowledge, example.question)
        return example.model_copy(update={"knowledge": knowledge})
