"""Relation paths (PathQuestion, WebQSP's inferential chains) to pandas."""

from __future__ import annotations

import re

import numpy as np

from pandora_train.box.box import BoxSet
from pandora_train.box.store import open_graph
from pandora_train.box.triples import Graph
from pandora_train.compile.graph.sets import NodeSet, SetWriter
from pandora_train.compile.writer import Compiled, Unsupported
from pandora_train.records import GraphKnowledge


def compile_path(path: str, boxes: BoxSet, knowledge: GraphKnowledge | Graph,
                 topic: str = "") -> Compiled:
    """Compile a relation path ``relation -> relation`` walked from ``topic``, else from the only topic of the
    knowledge that has the first relation.

    A relation with a leading ``^`` is walked backwards. Raises :class:`Unsupported` with a named reason.
    """
    relations = re.split(r"\s*->\s*", path.strip())
    if isinstance(knowledge, GraphKnowledge):
        graph = open_graph(knowledge)
        first = graph.ends(relations[0].lstrip("^"), subject=not relations[0].startswith("^"))
        starts = [t for t in knowledge.topics if np.isin(graph.start(t), first).any()]
        topic = topic or (starts[0] if len(starts) == 1 else "")
    else:
        graph = knowledge
    if not topic:
        raise Unsupported("path without one topic")
    sets = SetWriter(boxes, graph)
    reached: NodeSet = sets.constant(topic)
    for relation in relations:
        reached = sets.objects(relation.lstrip("^"), reached, back=relation.startswith("^"))
    return sets.finish(reached)
