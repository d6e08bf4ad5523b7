"""The label compiler: SQL, s-expressions, SPARQL, relation paths and step programs become pandas code."""

from __future__ import annotations

from pandora_train.box.box import BoxSet
from pandora_train.records import Example, GraphKnowledge
from pandora_train.teach.compile.program import Compiled, Unsupported

__all__ = ["Compiled", "Unsupported", "compile_label"]


def compile_label(example: Example, boxes: BoxSet) -> Compiled:
    """Write the example's label as pandas over ``boxes``; raises :class:`Unsupported` with a named reason."""
    program = example.gold.program
    match example.gold.language:
        case "sql":
            from pandora_train.teach.compile.sql import compile_sql

            return compile_sql(program, boxes)
        case "sexpr":
            from pandora_train.teach.compile.graph import compile_sexpr

            return compile_sexpr(program, boxes, _graph(example))
        case "sparql":
            from pandora_train.teach.compile.graph import compile_sparql

            return compile_sparql(program, boxes, _graph(example))
        case "path":
            from pandora_train.teach.compile.graph import compile_path

            return compile_path(program, boxes, _graph(example))
        case "steps":
            if isinstance(example.knowledge, GraphKnowledge):
                from pandora_train.teach.compile.graph_program import compile_graph_steps

                return compile_graph_steps(program, boxes, example.knowledge)
            from pandora_train.teach.compile.steps import compile_steps

            return compile_steps(program, boxes)
        case "squall":
            from pandora_train.teach.compile.squall import compile_squall

            return compile_squall(program, boxes)
        case _:
            raise Unsupported("no label")


def _graph(example: Example) -> GraphKnowledge:
    if not isinstance(example.knowledge, GraphKnowledge):
        raise Unsupported("graph query over a table or database")
    return example.knowledge
