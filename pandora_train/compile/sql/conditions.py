"""SQL conditions -> boolean masks, true exactly where SQL's three-valued condition is true."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from pandora_train.compile.sql.nested import exists, hold, in_set
from pandora_train.compile.sql.scope import FrameColumn, Mask, QueryScope, Relation, SqlValue, listed
from pandora_train.compile.sql.types import is_number, numbers_only, same_type
from pandora_train.compile.sql.values import value
from pandora_train.compile.writer import Unsupported

_SYMBOLS: dict[type[exp.Expression], str] = {exp.EQ: "==", exp.NEQ: "!=", exp.GT: ">", exp.GTE: ">=",
                                             exp.LT: "<", exp.LTE: "<="}
_OPPOSITE = {"==": "!=", "!=": "==", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}
_MIRRORED = {"==": "==", "!=": "!=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}
_WORDS = {"==": "is", "!=": "is not", ">": "is above", ">=": "is at least", "<": "is below",
          "<=": "is at most"}


def condition(scope: QueryScope, node: exp.Expression, positive: bool = True) -> Mask:
    """The rows where ``node`` is true, or, unless ``positive``, where it is false (never where NULL)."""
    if isinstance(node, exp.Paren):
        return condition(scope, node.this, positive)
    if isinstance(node, exp.Not):
        return condition(scope, node.this, not positive)
    if isinstance(node, (exp.And, exp.Or)):
        parts = [condition(scope, part, positive) for part in node.flatten()]
        return combine(parts, isinstance(node, exp.And) == positive)
    if type(node) in _SYMBOLS:
        symbol = _SYMBOLS[type(node)]
        return _comparison(scope, node, symbol if positive else _OPPOSITE[symbol])
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise Unsupported("condition", f"{type(node).__name__}: {node.sql()}")
    return handler(scope, node, positive)


def combine(parts: list[Mask], conjunction: bool) -> Mask:
    """All (``conjunction``) or any of ``parts``."""
    if len(parts) == 1:
        return parts[0]
    word = "and" if conjunction else "or"
    code = (" & " if conjunction else " | ").join(p.operand for p in parts)
    english = f" {word} ".join(f"({p.english})" if " or " in p.english and conjunction else p.english
                               for p in parts)
    return Mask(code, english, missing=any(p.missing for p in parts), scalar=all(p.scalar for p in parts))


def _comparison(scope: QueryScope, node: exp.Expression, symbol: str) -> Mask:
    return compare(value(scope, node.this), value(scope, node.expression), symbol)


def compare(left: SqlValue, right: SqlValue, symbol: str) -> Mask:
    """``left symbol right`` under SQLite's rules on types and NULL."""
    if left.scalar and not right.scalar:
        left, right, symbol = right, left, _MIRRORED[symbol]
    english = f"{left.english} {_WORDS[symbol]} {right.english}"
    if left.numeric and not left.scalar and isinstance(right.literal, str) and not is_number(right.literal):
        return _against_text(left, english, symbol)
    mixed = left.kind == "mixed" and symbol in (">", ">=")
    if right.kind == "mixed" and symbol not in ("==", "!="):
        raise Unsupported("mixed column compared", english)
    left, right = same_type(left, right, symbol)
    missing = any(v.nullable and v.numeric and not v.scalar for v in (left, right))
    mask = Mask(f"{left.operand} {symbol} {right.operand}", english, missing=missing, scalar=left.scalar)
    if mixed:  # SQLite sorts text after all numbers
        stored = left.code.removeprefix("pd.to_numeric(").removesuffix(", errors='coerce')")
        text_too = Mask(f"{left.code}.isna() & {stored}.notna()", f"{stored} is text")
        return combine([mask, text_too], conjunction=False)
    if symbol != "!=":
        return mask
    return _guarded(mask, [v for v in (left, right) if v.nullable])


def _against_text(figure: SqlValue, english: str, symbol: str) -> Mask:
    """Numbers beside text that is none: never equal, and before it in SQLite's order."""
    if symbol in ("<", "<=", "!="):
        return Mask(f"{figure.operand}.notna()", f"{english} (numbers come before text)", tight=True)
    return Mask(f"{figure.operand}.isin([])", f"{english} (numbers come before text: none)", tight=True)


def _guarded(mask: Mask, values: list[SqlValue]) -> Mask:
    """NULL is never unequal in SQL, while NaN is in pandas."""
    if not values:
        return mask
    guards = [f"pd.notna({v.code})" if v.scalar else f"{v.operand}.notna()" for v in values]
    code = " & ".join([mask.operand, *guards])
    return replace(mask, code=code, english=f"{mask.english} and not missing", tight=False)


def _between(scope: QueryScope, node: exp.Expression, positive: bool) -> Mask:
    subject = value(scope, node.this)
    low, high = value(scope, node.args["low"]), value(scope, node.args["high"])
    if not positive or subject.scalar or subject.kind == "mixed":
        parts = [compare(subject, low, ">=" if positive else "<"),
                 compare(subject, high, "<=" if positive else ">")]
        return combine(parts, positive)
    low, high = same_type(subject, low, ">=")[1], same_type(subject, high, "<=")[1]
    return Mask(f"{subject.operand}.between({low.code}, {high.code})",
                f"{subject.english} is between {low.english} and {high.english}", tight=True,
                missing=subject.nullable and subject.numeric)


def _is(scope: QueryScope, node: exp.Expression, positive: bool) -> Mask:
    subject = value(scope, node.this)
    if not isinstance(node.expression, exp.Null):
        return _is_value(scope, node, positive)
    if subject.scalar:
        raise Unsupported("condition without a column", node.sql())
    if positive:
        return Mask(f"{subject.operand}.isna()", f"{subject.english} is missing", tight=True)
    return Mask(f"{subject.operand}.notna()", f"{subject.english} is not missing", tight=True)


def _is_value(scope: QueryScope, node: exp.Expression, positive: bool) -> Mask:
    """IS between values: like ``=``, but NULL is NULL and differs from everything else."""
    positive = positive != isinstance(node, exp.NullSafeNEQ)
    left, right = value(scope, node.this), value(scope, node.expression)
    if right.literal is None:
        raise Unsupported("IS between columns", node.sql())
    if positive:
        return compare(left, right, "==")
    unequal = compare(replace(left, nullable=False), right, "!=")
    if not left.nullable:
        return unequal
    return combine([unequal, Mask(f"{left.operand}.isna()", f"{left.english} is missing", tight=True)], False)


def _glob(scope: QueryScope, node: exp.Expression, positive: bool) -> Mask:
    """GLOB heeds case; ``*`` and ``?`` are its wild cards."""
    subject, pattern = value(scope, node.this), value(scope, node.expression)
    if subject.kind != "text" or subject.scalar or not isinstance(pattern.literal, str):
        raise Unsupported("GLOB", node.sql())
    wild = {"*": ".*", "?": "."}
    if "[" in pattern.literal:
        raise Unsupported("GLOB with a set of characters", node.sql())
    regex = "".join(wild.get(c) or re.escape(c) for c in pattern.literal)
    code, words = f"{subject.operand}.str.fullmatch({regex!r})", f"matches {pattern.literal!r}"
    if positive:
        return Mask(code, f"{subject.english} {words}", tight=True)
    mask = Mask(f"~{code}", f"{subject.english} {_negated(words)}", tight=True)
    return _guarded(mask, [subject] if subject.nullable else [])


def _escaped_like(scope: QueryScope, node: exp.Expression, positive: bool) -> Mask:
    return _like(scope, node.this, positive, escape=node.expression.name)


def _like(scope: QueryScope, node: exp.Expression, positive: bool, escape: str = "") -> Mask:
    positive = positive != bool(node.args.get("negate"))
    subject, pattern = value(scope, node.this), value(scope, node.expression)
    if subject.scalar or not isinstance(pattern.literal, (str, int, float)):
        raise Unsupported("LIKE with a pattern that is no constant", node.sql())
    subject_text = subject.operand if subject.kind == "text" else f"{subject.operand}.astype(str)"
    if subject.kind == "mixed" and subject.nullable:
        raise Unsupported("LIKE on numbers", node.sql())
    call, english = _like_call(str(pattern.literal), escape)
    code = f"{subject_text}{call}"
    words = f"{subject.english} {english if positive else _negated(english)}"
    if positive:
        return Mask(code, words, tight=True)
    return _guarded(Mask(f"~{code}", words, tight=True), [subject] if subject.nullable else [])


def _like_call(pattern: str, escape: str = "") -> tuple[str, str]:
    """The ``.str`` call for a LIKE pattern, which ignores the case of ASCII letters, and its words."""
    core = pattern.strip("%")
    cased = any(c.isalpha() for c in core)
    beyond = any(c.lower() != c.upper() and not c.isascii() for c in core)
    if "%" in core or "_" in core or beyond or (escape and escape in pattern):
        regex = _regex(pattern, escape, beyond)
        case = ", case=False" if cased and not beyond else ""
        return f".str.fullmatch({regex!r}{case})", f"matches the pattern {pattern!r}"
    starts, ends = pattern.startswith("%"), pattern.endswith("%")
    lower = ".str.lower()" if cased else ""
    if starts and ends:
        return f".str.contains({core!r}{', case=False' if cased else ''}, regex=False)", f"contains {core!r}"
    if ends:
        return f"{lower}.str.startswith({core.lower()!r})", f"starts with {core!r}"
    if starts:
        return f"{lower}.str.endswith({core.lower()!r})", f"ends with {core!r}"
    return f"{lower}.eq({core.lower()!r})", f"is {core!r} in any case"


def _regex(pattern: str, escape: str, both_cases: bool) -> str:
    """A LIKE pattern as a regular expression; ``both_cases`` writes each ASCII letter as ``[aA]``."""
    parts, literal = [], False
    for c in pattern:
        if escape and c == escape and not literal:
            literal = True
            continue
        written = f"[{c.lower()}{c.upper()}]" if both_cases and c.isascii() and c.isalpha() else re.escape(c)
        parts.append(written if literal else {"%": ".*", "_": "."}.get(c, written))
        literal = False
    return "".join(parts)


def _negated(english: str) -> str:
    verb, _, rest = english.partition(" ")
    plain = {"contains": "contain", "starts": "start", "ends": "end", "matches": "match"}.get(verb)
    return f"does not {plain} {rest}" if plain else f"is not {rest}"


def _in(scope: QueryScope, node: exp.Expression, positive: bool) -> Mask:
    subject = value(scope, node.this)
    if subject.scalar:
        raise Unsupported("condition without a column", node.sql())
    query = node.args.get("query")
    if query is not None:
        return _in_query(scope, subject, query, positive)
    options = [same_type(subject, value(scope, item), "==")[1] for item in node.expressions]
    if not options or any(o.literal is None for o in options):
        raise Unsupported("IN list that is not constant", node.sql())
    items, words = ", ".join(o.code for o in options), listed([o.english for o in options], "or")
    if positive:
        return Mask(f"{subject.operand}.isin([{items}])", f"{subject.english} is {words}", tight=True)
    mask = Mask(f"~{subject.operand}.isin([{items}])", f"{subject.english} is not {words}", tight=True)
    return _guarded(mask, [subject] if subject.nullable else [])


def _in_query(scope: QueryScope, subject: SqlValue, query: exp.Expression, positive: bool) -> Mask:
    relation, finished = in_set(scope, subject, query, positive)
    if relation is None:
        return finished
    if len(relation.scalars or relation.outputs) != 1:
        raise Unsupported("IN over several columns", query.sql())
    if relation.scalars:
        return compare(subject, hold(scope, relation.scalars[0]), "==" if positive else "!=")
    column = relation.outputs[0]
    if subject.kind == "text" and column.kind in ("int", "float"):
        if not positive and subject.nullable:
            raise Unsupported("text compared with numbers", query.sql())
        subject = replace(numbers_only(subject), nullable=subject.nullable or positive)
    return membership(subject, relation, column, positive)


def membership(subject: SqlValue, relation: Relation, column: FrameColumn, positive: bool) -> Mask:
    """``subject [NOT] IN relation``: NULL is in nothing, and nothing is outside a set that holds NULL."""
    series = f"{relation.frame.var}[{column.name!r}]{relation.cut}"
    if subject.numeric and column.kind == "text":
        series = f"pd.to_numeric({series}, errors='coerce')"
    if column.nullable and subject.nullable and positive:
        series += ".dropna()"
    inside = f"{subject.operand}.isin({series})"
    where = f"the {column.name} of {relation.frame.var}"
    if positive:
        return Mask(inside, f"{subject.english} is among {where}", tight=True)
    mask = Mask(f"~{inside}", f"{subject.english} is not among {where}", tight=True)
    if column.nullable:
        mask = Mask(f"{mask.code} & {series}.notna().all()", f"{mask.english}, none of which is missing")
    if subject.nullable and relation.frame.may_be_empty:  # nothing, not even NULL, is in an empty set
        code = f"{mask.operand} & ({subject.operand}.notna() | (len({relation.frame.var}) == 0))"
        return Mask(code, f"{mask.english} and not missing")
    return _guarded(mask, [subject] if subject.nullable else [])


def _exists(scope: QueryScope, node: exp.Expression, positive: bool) -> Mask:
    return exists(scope, node.this, positive)


_HANDLERS: dict[type[exp.Expression], Callable[[QueryScope, exp.Expression, bool], Mask]] = {
    exp.Between: _between, exp.Is: _is, exp.Like: _like, exp.In: _in, exp.Exists: _exists,
    exp.NullSafeEQ: _is_value, exp.NullSafeNEQ: _is_value, exp.Glob: _glob, exp.Escape: _escaped_like,
}
