"""What a graph question is asked over: topic entities where none are given, and R*, the relations kept."""

from __future__ import annotations

from pandora_train.box.link import topics_of
from pandora_train.box.relations import RelationFilter, relation_lists
from pandora_train.box.store import open_graph
from pandora_train.memory import RetrievalConfig, SentenceEncoder
from pandora_train.records import Example


class Grounder:
    """Grounds examples; tables, databases and graph questions that need nothing pass unchanged."""

    def __init__(self, config: RetrievalConfig) -> None:
        encoder = SentenceEncoder(config.encoder)
        self._filter = RelationFilter(encoder, config.relations) if config.relations else None
        self._lists = relation_lists(config.relation_lists) if config.relation_lists else {}

    def __call__(self, example: Example) -> Example:
        """``example`` with linked topics and the relations nearest to its question (paper, section 3.3)."""
        knowledge = example.knowledge
        if knowledge.kind != "graph":
            return example
        if not knowledge.topics:
            topics = topics_of(example.question, open_graph(knowledge))
            knowledge = knowledge.model_copy(update={"topics": topics})
        if example.id in self._lists:
            knowledge = knowledge.model_copy(update={"relations": self._lists[example.id]})
        if self._filter is not None:
            knowledge = self._filter(knowledge, example.question)
        return example.model_copy(update={"knowledge": knowledge})
