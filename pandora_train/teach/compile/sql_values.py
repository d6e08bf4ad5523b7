"""SQL expressions -> pandas expressions: columns, constants, arithmetic, functions, aggregates."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from pandora_train.teach.compile.program import Unsupported
from pandora_train.teach.compile.sql_scope import (
    Kind,
    Scope,
    Value,
    column_value,
    is_text_literal,
    resolve,
    signature,
)


def value(scope: Scope, node: exp.Expression) -> Value:
    """The pandas expression for ``node`` over the frame at hand."""
    if isinstance(node, exp.Paren):
        return value(scope, node.this)
    if isinstance(node, exp.Alias):
        return value(scope, node.this)
    if scope.frame.computed and (found := scope.frame.computed.get(signature(scope, node))):
        return column_value(scope.frame, found)
    constant = literal(scope, node)
    if constant is not None:
        return constant
    if isinstance(node, exp.Column):
        return _column(scope, node)
    if isinstance(node, exp.AggFunc):
        return _aggregate(scope, node)
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)):
        return _arithmetic(scope, node)
    if isinstance(node, exp.Subquery):
        return _subquery(scope, node)
    raise Unsupported("expression", f"{type(node).__name__}: {node.sql()}")


def literal(scope: Scope, node: exp.Expression) -> Value | None:
    """A constant, or ``None`` when ``node`` is something else."""
    if isinstance(node, exp.Literal) and node.is_string:
        return text(node.this)
    if isinstance(node, exp.Literal):
        return number(node.this)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return number(f"-{node.this.this}")
    if isinstance(node, exp.Boolean):
        return number("1" if node.this else "0")
    if is_text_literal(scope, node):
        return text(node.name)
    return None


def text(content: str) -> Value:
    """A string constant."""
    return Value(repr(content), "text", repr(content), scalar=True, literal=content)


def number(digits: str) -> Value:
    """A numeric constant as written."""
    if re.fullmatch(r"-?\d+", digits):
        whole = int(digits)
        return Value(str(whole), "int", str(whole), scalar=True, literal=whole)
    real = float(digits)
    return Value(repr(real), "float", repr(real), scalar=True, literal=real)


def _column(scope: Scope, node: exp.Column) -> Value:
    alias = scope.aliases.get(node.name.lower()) if not node.table else None
    if alias is not None and scope.frame.find("", node.name.lower()) is None:
        return value(scope, alias)
    if scope.mode == "whole":
        raise Unsupported("bare column beside an aggregate", node.sql())
    return column_value(scope.frame, resolve(scope, node))


_SYMBOLS: dict[type[exp.Expression], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/",
                                             exp.Mod: "%"}
_WORDS: dict[type[exp.Expression], str] = {exp.Add: "plus", exp.Sub: "minus", exp.Mul: "times",
                                           exp.Div: "divided by", exp.Mod: "modulo"}


def _arithmetic(scope: Scope, node: exp.Expression) -> Value:
    left, right = value(scope, node.this), value(scope, node.expression)
    left, right = as_number(left), as_number(right)
    kind: Kind = "int" if left.kind == right.kind == "int" else "float"
    symbol = _SYMBOLS[type(node)]
    if isinstance(node, exp.Div):
        symbol = "//" if kind == "int" else "/"
        if kind == "int" and (_may_be_negative(left) or _may_be_negative(right)):
            raise Unsupported("integer division of negative numbers", node.sql())
        if right.literal == 0:
            raise Unsupported("division by zero", node.sql())
    return Value(f"{left.operand} {symbol} {right.operand}", kind,
                 f"{left.english} {_WORDS[type(node)]} {right.english}", left.nullable or right.nullable,
                 scalar=left.scalar and right.scalar, tight=False)


def _may_be_negative(part: Value) -> bool:
    if isinstance(part.literal, (int, float)):
        return part.literal <= 0
    return part.column is None or part.column.negative


def as_number(part: Value) -> Value:
    """SQLite's reading of an operand of arithmetic, SUM or AVG: text counts as the number it starts with."""
    if part.numeric:
        return part
    if part.kind == "text" and not part.scalar:
        return replace(part, code=f"pd.to_numeric({part.code}, errors='coerce').fillna(0)", kind="float",
                       tight=True, column=None)
    raise Unsupported("arithmetic on text", part.english)


# --- aggregates ---------------------------------------------------------------------------------------

_METHODS = {"Avg": "mean", "Sum": "sum", "Min": "min", "Max": "max", "Count": "count"}


def aggregate_parts(scope: Scope, node: exp.AggFunc) -> tuple[str, Value | None]:
    """``(method, argument)`` in pandas' words: ``size`` (no argument), ``count``, ``nunique``, ``sum``, …"""
    name = type(node).__name__
    if name not in _METHODS:
        raise Unsupported("aggregate function", node.sql())
    method, argument = _METHODS[name], node.this
    distinct = isinstance(argument, exp.Distinct)
    if distinct:
        if len(argument.expressions) != 1:
            raise Unsupported("aggregate of several columns", node.sql())
        argument = argument.expressions[0]
    if isinstance(argument, exp.Star) or argument is None:
        return "size", None
    inner = value(replace(scope, frame=scope.base, mode="rows"), argument)
    if inner.scalar:
        if method == "count" and inner.literal is not None:
            return "size", None
        raise Unsupported("aggregate of a constant", node.sql())
    if method == "count":
        if distinct:
            return "nunique", inner
        return ("count", inner) if inner.nullable else ("size", None)
    if method in ("sum", "mean"):
        inner = as_number(inner)
        if distinct:
            raise Unsupported("sum or average of distinct values", node.sql())
    return method, inner


_ENGLISH = {"count": "the number of {} values", "nunique": "the number of distinct {}",
            "sum": "the total {}", "mean": "the average {}", "min": "the smallest {}",
            "max": "the largest {}"}
_NAMES = {"count": "count_{}", "nunique": "distinct_{}", "sum": "total_{}", "mean": "average_{}",
          "min": "min_{}", "max": "max_{}"}


def aggregate_english(method: str, argument: Value | None) -> str:
    """``the average age``."""
    return "the number of rows" if argument is None else _ENGLISH[method].format(argument.english)


def aggregate_name(method: str, argument: Value | None) -> str:
    """A column or variable name such as ``average_age``."""
    if argument is None:
        return "count"
    base = argument.column.name if argument.column else "value"
    return re.sub(r"\W+", "_", _NAMES[method].format(base)).strip("_")


def aggregate_kind(method: str, argument: Value | None) -> Kind:
    """The kind of the aggregate's values."""
    if method in ("size", "count", "nunique") or argument is None:
        return "int"
    return "float" if method == "mean" else argument.kind


def _aggregate(scope: Scope, node: exp.AggFunc) -> Value:
    if scope.mode != "whole":
        raise Unsupported("misplaced aggregate", node.sql())
    method, argument = aggregate_parts(scope, node)
    english, kind = aggregate_english(method, argument), aggregate_kind(method, argument)
    if argument is None:
        return Value(f"len({scope.frame.var})", "int", english, scalar=True)
    empty = scope.frame.may_be_empty or argument.nullable
    if method == "sum" and empty:
        code = f"{argument.operand}.sum(min_count=1)"
    else:
        code = f"{argument.operand}.{method}()"
    nullable = empty and method not in ("count", "nunique")
    return Value(code, kind, english, nullable, scalar=True)


def _subquery(scope: Scope, node: exp.Subquery) -> Value:
    """A subquery that stands for one value; a named variable holds it."""
    relation = scope.context.query(scope.context, node.this, scope)
    writer = scope.context.writer
    if relation.scalars:
        (found,) = relation.scalars
        name = writer.name(_variable(found))
        writer.step(f"Find {found.english}, {name}." if found.code else "", f"{name} = {found.code}")
        return replace(found, code=name, english=name, tight=True, column=None)
    (column,) = relation.outputs
    name = writer.name(column.name)
    series = f"{relation.frame.var}[{column.name!r}]"
    first = f"{series}.iloc[0]" if not relation.frame.may_be_empty else f"{series}.head(1).max()"
    writer.step(f"Take its {column.name} as {name}.", f"{name} = {first}")
    nullable = column.nullable or relation.frame.may_be_empty
    return Value(name, column.kind, name, nullable, scalar=True, affinity=column.affinity)


def _variable(found: Value) -> str:
    words = {"average": "average", "largest": "max", "smallest": "min", "total": "total"}
    parts = found.english.split()
    if parts[:1] == ["the"] and len(parts) == 3 and parts[1] in words:
        return f"{words[parts[1]]}_{parts[2]}"
    return "count" if "number" in parts else "value"
