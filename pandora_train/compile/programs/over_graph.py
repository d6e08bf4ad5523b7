"""Step programs over a graph (TrustUQA's, for WebQSP questions) become pandas code, by way of s-expressions.

``get_information(relation=R, head_entity=X)`` walks R from X, ``tail_entity`` walks it backwards; X is a
node's name or an earlier output. Sets intersect, and are counted.
"""

from __future__ import annotations

from pandora_train.box.box import BoxSet
from pandora_train.box.triples import Graph
from pandora_train.compile.graph.sexpr import compile_sexpr
from pandora_train.compile.programs.language import StepQuery, parse_program, reference
from pandora_train.compile.writer import Compiled, Unsupported
from pandora_train.records import GraphKnowledge


def compile_graph_program(program: str, boxes: BoxSet, knowledge: GraphKnowledge | Graph) -> Compiled:
    """Write a step program as pandas over a graph's BOXes; raises :class:`Unsupported` for the rest."""
    forms: dict[int, str] = {}
    names: dict[str, str] = {}
    for query in parse_program(program):
        forms[query.number] = _form(query, forms, names)
    return compile_sexpr(forms[max(forms)], boxes, knowledge, names)


def _form(query: StepQuery, forms: dict[int, str], names: dict[str, str]) -> str:
    def operand(value: str) -> str:
        number = reference(value)
        if number is None:
            names[f"m.topic{len(names)}"] = value
            return f"m.topic{len(names) - 1}"
        if number not in forms:
            raise Unsupported("output used before it is made")
        return forms[number]

    match query.function, {a.key for a in query.arguments}:
        case "get_information", keys if keys == {"relation", "head_entity"}:
            return f"(JOIN (R {query.get('relation').value}) {operand(query.get('head_entity').value)})"
        case "get_information", keys if keys == {"relation", "tail_entity"}:
            argument = query.get("tail_entity")
            if argument.operator != "=":
                raise Unsupported("comparison over a graph")
            return f"(JOIN {query.get('relation').value} {operand(argument.value)})"
        case "set_intersection", keys if keys == {"set1", "set2"}:
            return f"(AND {operand(query.get('set1').value)} {operand(query.get('set2').value)})"
        case "count", keys if keys == {"set"}:
            return f"(COUNT {operand(query.get('set').value)})"
        case "get_information", keys:
            raise Unsupported("arguments", ", ".join(sorted(keys)))
        case function, _:
            raise Unsupported("operation", function)
