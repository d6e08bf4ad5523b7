"""SQL expressions -> pandas expressions: columns, constants, arithmetic, functions, aggregates."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from pandora_train.compile.sql.functions import FUNCTIONS, arguments_of
from pandora_train.compile.sql.nested import scalar
from pandora_train.compile.sql.scope import (
    Kind,
    QueryScope,
    SqlValue,
    column_value,
    is_text_literal,
    resolve,
    signature,
)
from pandora_train.compile.sql.types import as_number, number, text
from pandora_train.compile.writer import Unsupported


def value(scope: QueryScope, node: exp.Expression) -> SqlValue:
    """The pandas expression for ``node`` over the frame at hand."""
    if isinstance(node, exp.Paren):
        return value(scope, node.this)
    if isinstance(node, exp.Alias):
        return value(scope, node.this)
    if scope.frame.computed and (column := scope.frame.computed.get(signature(scope, node))):
        return column_value(scope.frame, column)
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
        return scalar(scope, node.this)
    if type(node) in FUNCTIONS:
        return FUNCTIONS[type(node)](node, [value(scope, a) for a in arguments_of(node)])
    if isinstance(node, exp.Case):
        return _case(scope, node, node.args["ifs"], node.args.get("default"))
    if isinstance(node, exp.If):
        return _case(scope, node, [node], node.args.get("false"))
    if isinstance(node, (exp.Predicate, exp.Connector, exp.Not)):
        return _truth(scope, node)
    raise Unsupported("expression", f"{type(node).__name__}: {node.sql()}")


def literal(scope: QueryScope, node: exp.Expression) -> SqlValue | None:
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


def _column(scope: QueryScope, node: exp.Column) -> SqlValue:
    alias = scope.aliases.get(node.name.lower()) if not node.table else None
    if alias is not None and scope.frame.find("", node.name.lower()) is None:
        return value(scope, alias)
    column = resolve(scope, node)
    if scope.mode == "whole" and not column.scalar:  # any row will do
        first = f"{column.code}.head(1).max()" if scope.frame.may_be_empty else f"{column.code}.iloc[0]"
        return replace(column, code=first, english=f"the first {column.english}", scalar=True, column=None)
    return column


def _truth(scope: QueryScope, node: exp.Expression) -> SqlValue:
    """A condition as 1 or 0; where it could be NULL it is not supported."""
    if scope.mode == "whole" or any(resolve(scope, c).nullable for c in node.find_all(exp.Column)):
        raise Unsupported("condition as a value", node.sql())
    mask = scope.context.condition(scope, node)
    return SqlValue(mask.number, "int", f"whether {mask.english}")


def _case(scope: QueryScope, node: exp.Expression, ifs: list[exp.Expression],
          default: exp.Expression | None) -> SqlValue:
    """CASE and IIF: the first condition that is true chooses."""
    if scope.mode == "whole":
        raise Unsupported("CASE over aggregates", node.sql())
    operand = node.this if isinstance(node, exp.Case) else None
    tests = [i.this if operand is None else exp.EQ(this=operand.copy(), expression=i.this.copy())
             for i in ifs]
    masks = [scope.context.condition(scope, test) for test in tests]
    results = [value(scope, i.args["true"]) for i in ifs]
    last = None if default is None or isinstance(default, exp.Null) else value(scope, default)
    branches = [*results, *([last] if last else [])]
    kinds = {b.kind for b in branches}
    if kinds - {"int", "float"} and kinds != {"text"}:
        raise Unsupported("CASE of several types", node.sql())
    kind: Kind = "text" if "text" in kinds else "int" if kinds == {"int"} else "float"
    english = ", ".join(f"{b.english} where {m.english}" for b, m in zip(results, masks, strict=True))
    english += f", else {last.english}" if last else ""
    nullable = last is None or any(b.nullable for b in branches)
    if [b.code for b in branches] == ["1", "0"]:
        return SqlValue(masks[0].number, "int", english)
    other = last.code if last else "None" if kind == "text" else "np.nan"
    chosen = ", ".join(b.code for b in results)
    tests_code = ", ".join(m.filled for m in masks)
    code = f"np.select([{tests_code}], [{chosen}], default={other})"
    return SqlValue(f"pd.Series({code}, index={scope.frame.var}.index)", kind, english, nullable, array=code)


_SYMBOLS: dict[type[exp.Expression], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/",
                                             exp.Mod: "%"}
_WORDS: dict[type[exp.Expression], str] = {exp.Add: "plus", exp.Sub: "minus", exp.Mul: "times",
                                           exp.Div: "divided by", exp.Mod: "modulo"}


def _arithmetic(scope: QueryScope, node: exp.Expression) -> SqlValue:
    left, right = as_number(value(scope, node.this)), as_number(value(scope, node.expression))
    kind: Kind = "int" if left.kind == right.kind == "int" else "float"
    english = f"{left.english} {_WORDS[type(node)]} {right.english}"
    scalar = left.scalar and right.scalar
    nullable = left.nullable or right.nullable
    if not isinstance(node, (exp.Div, exp.Mod)):
        code = f"{left.operand} {_SYMBOLS[type(node)]} {right.operand}"
        return SqlValue(code, kind, english, nullable, scalar, tight=False)
    divisor, symbol = right.operand, _SYMBOLS[type(node)]
    if not _at_least(right, 1) and not scalar:  # dividing by zero gives NULL
        nullable = nullable or not right.scalar
        divisor = divisor if right.scalar else f"{divisor}.replace(0, np.nan)"
    if right.literal == 0 or (isinstance(node, exp.Mod) and not (_at_least(left, 0) and kind == "int")):
        raise Unsupported("division by zero or remainder of negative numbers", node.sql())
    if isinstance(node, exp.Mod) or (kind == "int" and _at_least(left, 0) and _at_least(right, 0)):
        symbol = "%" if isinstance(node, exp.Mod) else "//"  # floor and truncation agree
        return SqlValue(f"{left.operand} {symbol} {divisor}", kind, english, nullable, scalar, tight=False)
    code = f"{left.operand} / {divisor}"
    if kind == "int":
        return SqlValue(f"np.trunc({code})", kind, english, nullable, scalar)
    return SqlValue(code, kind, english, nullable, scalar, tight=False)


def _at_least(part: SqlValue, least: int) -> bool:
    """Whether all values are known to be ``least`` or more."""
    if isinstance(part.literal, (int, float)):
        return part.literal >= least
    if part.code.startswith("len("):
        return least <= 0
    if part.column is None or part.column.series is None or not part.numeric:
        return False
    return bool((part.column.series.dropna() >= least).all())


# --- aggregates ---------------------------------------------------------------------------------------

_METHODS = {"GroupConcat": "join", "Avg": "mean", "Sum": "sum", "Min": "min", "Max": "max", "Count": "count"}


def aggregate_parts(scope: QueryScope, node: exp.AggFunc) -> tuple[str, SqlValue | None]:
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
        return (f"{method}_distinct" if distinct else method), inner
    return method, inner


_ENGLISH = {"count": "the number of {} values", "nunique": "the number of distinct {}",
            "sum": "the total {}", "mean": "the average {}", "min": "the smallest {}",
            "max": "the largest {}", "join": "the {} values joined",
            "sum_distinct": "the total of the distinct {}", "mean_distinct": "the average of the distinct {}"}
_NAMES = {"count": "count_{}", "nunique": "distinct_{}", "sum": "total_{}", "mean": "average_{}",
          "min": "min_{}", "max": "max_{}", "join": "joined_{}", "sum_distinct": "total_{}",
          "mean_distinct": "average_{}"}


def aggregate_english(method: str, argument: SqlValue | None) -> str:
    """``the average age``."""
    return "the number of rows" if argument is None else _ENGLISH[method].format(argument.english)


def aggregate_name(method: str, argument: SqlValue | None) -> str:
    """A column or variable name such as ``average_age``."""
    if argument is None:
        return "count"
    base = argument.column.name if argument.column else "value"
    return re.sub(r"\W+", "_", _NAMES[method].format(base)).strip("_")


def aggregate_kind(method: str, argument: SqlValue | None) -> Kind:
    """The kind of the aggregate's values."""
    if method in ("size", "count", "nunique") or argument is None:
        return "int"
    return "float" if method.startswith("mean") else argument.kind


def joined_text(node: exp.AggFunc, argument: SqlValue) -> str:
    """``', '.join`` for GROUP_CONCAT."""
    separator = node.args.get("separator")
    if isinstance(node.this, exp.Distinct) or argument.kind != "text" or not (
            separator is None or isinstance(separator, exp.Literal)):
        raise Unsupported("GROUP_CONCAT", node.sql())
    return f"{separator.name if separator is not None else ','!r}.join"


def _aggregate(scope: QueryScope, node: exp.AggFunc) -> SqlValue:
    if scope.mode != "whole":
        raise Unsupported("misplaced aggregate", node.sql())
    method, argument = aggregate_parts(scope, node)
    english, kind = aggregate_english(method, argument), aggregate_kind(method, argument)
    if argument is None:
        own = [t.title for t in scope.frame.tables if t.alias] == [scope.frame.var]
        english += f" of {scope.frame.var}" if own else ""
        return SqlValue(f"len({scope.frame.var})", "int", english, scalar=True)
    empty = scope.frame.may_be_empty or argument.nullable
    cells = argument.operand + (".drop_duplicates()" if method.endswith("_distinct") else "")
    if method == "join":
        code = joined_text(node, argument) + f"({argument.code}{'.dropna()' if argument.nullable else ''})"
        return SqlValue(f"{code} or None", kind, english, empty, scalar=True, tight=False)
    if method.startswith("sum") and empty:
        code = f"{cells}.sum(min_count=1)"
    else:
        code = f"{cells}.{method.removesuffix('_distinct')}()"
    nullable = empty and method not in ("count", "nunique")
    return SqlValue(code, kind, english, nullable, scalar=True)
