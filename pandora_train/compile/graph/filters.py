"""SPARQL's terms and filter expressions: constants as they stand in cells, tests as boolean masks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from rdflib.term import Literal, URIRef, Variable

from pandora_train.box.rdf import FREEBASE, TYPES
from pandora_train.compile.graph.sets import TYPE_FIELD, Const, SetWriter, literal
from pandora_train.compile.writer import Unsupported

ABSENT = "relation not in the BOXes"
OPERATORS = ("==", "!=", "<", "<=", ">", ">=")
FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def type_iris(sets: SetWriter) -> set[str]:
    """Predicates that give a type which the BOXes tell by their names."""
    return TYPES if not (TYPE_FIELD in sets.places and sets.graph.types) else set()


def operand(sets: SetWriter, term: Any) -> Const:
    """A constant by the name it has in the cells, a predicate by its relation's name."""
    if isinstance(term, Literal):
        text = str(term)
        text = re.sub(r"^(-?\d{4,}-\d\d-\d\d)(T00:00:00(\.0+)?)?(Z|[+-]\d\d:\d\d)?$", r"\1", text)
        return Const(text)
    if isinstance(term, URIRef):
        if str(term) in TYPES and TYPE_FIELD in sets.places:
            return Const(TYPE_FIELD)
        iri = str(term)
        known = sets.graph.aliases.get(iri)
        if known is None and iri.startswith(FREEBASE):
            return sets.constant(iri.removeprefix(FREEBASE))
        return Const(known) if known is not None else sets.constant(re.split(r"[/#]", iri)[-1])
    raise Unsupported("term", str(term))


@dataclass(frozen=True)
class Solutions:
    """A written frame: its variable, its columns, which of them hold numbers, which may be unbound."""

    name: str
    columns: tuple[str, ...]
    numeric: frozenset[str]
    optional: frozenset[str] = frozenset()


class Masks:
    """Writes filter expressions over a frame; ``inner`` writes the frame of an EXISTS pattern."""

    def __init__(self, sets: SetWriter, inner: Callable[[Any], Solutions]) -> None:
        self.sets, self.inner = sets, inner

    def test(self, frame: Solutions, e: Any) -> tuple[str, str]:
        """A filter expression in words and as a mask."""
        name = getattr(e, "name", "")
        if name in ("ConditionalAndExpression", "ConditionalOrExpression"):
            word, sign = ("and", " & ") if "And" in name else ("or", " | ")
            parts = [self.test(frame, x) for x in [e.expr, *e.other]]
            return f" {word} ".join(w for w, _ in parts), sign.join(f"({m})" for _, m in parts)
        if name == "UnaryNot":
            words, mask = self.test(frame, e.expr)
            return f"not ({words})", f"~({mask})"
        if name == "RelationalExpression":
            return self._comparison(frame, e)
        if name in ("Builtin_EXISTS", "Builtin_NOTEXISTS"):
            return self._exists(frame, e.graph, name == "Builtin_EXISTS")
        if name == "Builtin_BOUND":
            column = column_of(frame, e.arg)
            return f"{column} is known", f"{frame.name}[{column!r}].notna()"
        raise Unsupported("filter", name or str(e))

    def _comparison(self, frame: Solutions, e: Any) -> tuple[str, str]:
        left, right, op = plain(e.expr), plain(e.other), "==" if e.op == "=" else e.op
        if op not in OPERATORS:
            raise Unsupported("filter", op)
        if not isinstance(left, Variable):
            left, right = right, left
            op = FLIPPED.get(op, op)
        column = column_of(frame, left)
        if column in frame.optional:
            raise Unsupported("comparison with a value that may be missing")
        cells = f"{frame.name}[{column!r}]"
        if isinstance(right, Variable):
            other = column_of(frame, right)
            if op == "!=" and (column in frame.numeric) != (other in frame.numeric):
                return f"{column} != {other}", f"{cells}.notna()"
            if other in frame.optional or (column in frame.numeric) != (other in frame.numeric):
                raise Unsupported("comparison of unlike values")
            return f"{column} {op} {other}", f"{cells} {op} {frame.name}[{other!r}]"
        if not isinstance(right, Literal | URIRef):
            raise Unsupported("filter", "arithmetic")
        numeric = column in frame.numeric
        number = isinstance(right, Literal) and isinstance(right.value, int | float | Decimal)
        if op not in ("==", "!=") and number and not numeric:
            raise Unsupported("numbers compared with text")
        text = literal(None, column, op, operand(self.sets, right).value, numeric)
        return f"{column} {op} {text}", f"{cells} {op} {text}"

    def _exists(self, frame: Solutions, graph: Any, wanted: bool) -> tuple[str, str]:
        try:
            inner = self.inner(graph)
        except Unsupported as e:
            if e.reason != ABSENT:
                raise
            everything = f"{frame.name}[{frame.columns[0]!r}].isna()"
            return "nothing of that kind is known", everything if wanted else f"~{everything}"
        shared = [c for c in frame.columns if c in inner.columns]
        if len(shared) != 1 or shared[0] in frame.optional:
            raise Unsupported("EXISTS over several variables")
        mask = f"{frame.name}[{shared[0]!r}].isin({inner.name}[{shared[0]!r}])"
        words = f"{shared[0]} is {'' if wanted else 'not '}in {inner.name}"
        return words, mask if wanted else f"~{mask}"


def column_of(frame: Solutions, term: Any) -> str:
    """The column of a variable."""
    if not isinstance(term, Variable) or str(term) not in frame.columns:
        raise Unsupported("filter on a variable without a pattern", str(term))
    return str(term)


def plain(e: Any) -> Any:
    """``xsd:dateTime(?x)`` is the value itself: dates are compared as ISO text."""
    if getattr(e, "name", "") == "Function" and len(e.expr) == 1:
        return e.expr[0]
    return e


def about_language(e: Any) -> bool:
    """``!isLiteral(?x) || lang(?x) = '' || langMatches(lang(?x), 'en')``."""
    if getattr(e, "name", "") != "ConditionalOrExpression":
        return False
    names = [getattr(x, "name", "") for x in [e.expr, *e.other]]
    return "Builtin_LANGMATCHES" in names and set(names) <= {
        "UnaryNot", "RelationalExpression", "Builtin_LANGMATCHES"}
