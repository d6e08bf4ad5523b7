"""The label compiler: SQL, s-expressions, SPARQL, relation paths and step programs become pandas code.

The room knows BOXes and what labels mean, and nothing of who wants the code: teachers, error analysis, tests.
"""

from __future__ import annotations

from pandora_train.box.box import BoxSet
from pandora_train.compile.writer import Compiled, Unsupported
from pandora_train.records import Example, GraphKnowledge

__all__ = ["Compiled", "Unsupported", "compile_label"]


def compile_label(example: Example, boxes: BoxSet) -> Compiled:
    """Write the example's label as pandas over ``boxes``.

    Raises :class:`Unsupported` with a named reason for every label that it declines: not well-formed, outside
    what it covers, about what the BOXes do not hold. Any other exception is a fault of the compiler; a caller
    with more labels to go records it and goes on.
    """
    try:
        return _compile(example, boxes)
    except RecursionError:  # every parser and walk here goes as deep as the label does
        raise Unsupported("nested too deeply") from None


def _compile(example: Example, boxes: BoxSet) -> Compiled:
    """Each language's parser is loaded when its first label comes."""
    label = example.gold.program
    match example.gold.language:
        case "sql":
            from pandora_train.compile.sql.query import compile_sql

            return compile_sql(label, boxes)
        case "sexpr":
            from pandora_train.compile.graph.sexpr import compile_sexpr

            return compile_sexpr(label, boxes, _graph(example))
        case "sparql":
            from pandora_train.compile.graph.sparql import compile_sparql

            return compile_sparql(label, boxes, _graph(example))
        case "path":
            from pandora_train.compile.graph.path import compile_path

            return compile_path(label, boxes, _graph(example))
        case "steps" if isinstance(example.knowledge, GraphKnowledge):
            from pandora_train.compile.programs.over_graph import compile_graph_program

            return compile_graph_program(label, boxes, example.knowledge)
        case "steps":
            from pandora_train.compile.programs.over_table import compile_table_program

            return compile_table_program(label, boxes)
        case "squall":
            from pandora_train.compile.programs.squall import compile_squall

            return compile_squall(label, boxes)
        case _:
            raise Unsupported("no label")


def _graph(example: Example) -> GraphKnowledge:
    if not isinstance(example.knowledge, GraphKnowledge):
        raise Unsupported("graph query over a table or database")
    return example.knowledge
