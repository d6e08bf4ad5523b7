"""SQL's scalar functions -> pandas, on Series and on single values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from pandora_train.compile.sql.scope import Kind, SqlValue
from pandora_train.compile.sql.types import as_number, as_text
from pandora_train.compile.writer import Unsupported

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?")
_DATE_PARTS = {"%Y": "[:4]", "%m": "[5:7]", "%d": "[8:10]", "%Y-%m": "[:7]", "%Y-%m-%d": "[:10]",
               "%H": "[11:13]", "%M": "[14:16]"}
_PART_WORDS = {"%Y": "the year of", "%m": "the month of", "%d": "the day of",
               "%Y-%m": "the year and month of", "%Y-%m-%d": "the date of", "%H": "the hour of",
               "%M": "the minute of"}

Function = Callable[[exp.Expression, list[SqlValue]], SqlValue]


def _method(part: SqlValue, series: str, scalar: str, english: str) -> SqlValue:
    """A ``.str`` method on a Series, or the plain method on one text."""
    code = f"{part.operand}{scalar if part.scalar else series}"
    return replace(part, code=code, kind="text", english=english, affinity=False, tight=True, column=None,
                   literal=None)


def _constant(part: SqlValue, what: str) -> str | int | float:
    if part.literal is None:
        raise Unsupported(f"{what} that is not constant", part.english)
    return part.literal


def _length(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    part = as_text(arguments[0])
    code = f"len({part.code})" if part.scalar else f"{part.operand}.str.len()"
    return replace(part, code=code, kind="int", english=f"the length of {part.english}", affinity=False,
                   tight=True, column=None, literal=None)


def _case(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    """UPPER and LOWER change ASCII letters only."""
    part = as_text(arguments[0])
    series = part.column.series if part.column else None
    if series is not None and not all(v.isascii() for v in series.dropna().unique()):
        raise Unsupported("case of letters beyond ASCII", node.sql())
    name = "upper" if isinstance(node, exp.Upper) else "lower"
    return _method(part, f".str.{name}()", f".{name}()", f"{part.english} in {name} case")


def _trim(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    part = as_text(arguments[0])
    side = str(node.args.get("position") or "").upper()
    name = {"": "strip", "LEADING": "lstrip", "TRAILING": "rstrip"}[side]
    what = repr(_constant(arguments[1], "characters to trim")) if len(arguments) > 1 else "' '"
    return _method(part, f".str.{name}({what})", f".{name}({what})", f"{part.english} trimmed")


def _replace(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    part = as_text(arguments[0])
    old, new = (str(_constant(a, "text to replace")) for a in arguments[1:3])
    return _method(part, f".str.replace({old!r}, {new!r}, regex=False)", f".replace({old!r}, {new!r})",
                   f"{part.english} with {old!r} replaced by {new!r}")


def _substring(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    part = as_text(arguments[0])
    numbers = [_constant(a, "substring") for a in arguments[1:]]
    start, length = numbers[0], numbers[1] if len(numbers) > 1 else None
    if not isinstance(start, int) or start == 0 or isinstance(length, str | float) or (length or 0) < 0:
        raise Unsupported("substring", node.sql())
    first = start - 1 if start > 0 else start
    last = None if length is None else first + length
    if start < 0 and last is not None and last >= 0:
        last = None
    cut = f"[{first or ''}:{'' if last is None else last}]"
    words = f"the part {cut}"
    if length is not None and start > 0:
        words = f"the first {length} characters"
        if start > 1:
            words = f"characters {start} to {start + length - 1}"
    return _method(part, f".str{cut}", cut, f"{words} of {part.english}")


def _position(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    part, inner = as_text(arguments[0]), repr(str(_constant(arguments[1], "text to find")))
    code = f"{part.operand}.str.find({inner}) + 1" if not part.scalar else f"{part.operand}.find({inner}) + 1"
    return replace(part, code=code, kind="int", english=f"the position of {inner} in {part.english}",
                   affinity=False, tight=False, column=None, literal=None)


def _concat(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    left, right = (as_text(a) for a in arguments)
    english = f"{left.english} followed by {right.english}"
    return SqlValue(f"{left.operand} + {right.operand}", "text", english,
                    left.nullable or right.nullable, left.scalar and right.scalar, tight=False)


def _absolute(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    part = as_number(arguments[0])
    code = f"abs({part.code})" if part.scalar else f"{part.operand}.abs()"
    return replace(part, code=code, english=f"the absolute {part.english}", affinity=False, tight=True,
                   column=None, literal=None)


def _round(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    part = as_number(arguments[0])
    digits = _constant(arguments[1], "digits to round to") if len(arguments) > 1 else 0
    if not isinstance(digits, int) or digits < 0:
        raise Unsupported("rounding", node.sql())
    code = f"round({part.code}, {digits})" if part.scalar else f"{part.operand}.round({digits})"
    words = f"{part.english} rounded to {digits} decimals" if digits else f"{part.english} rounded"
    return replace(part, code=code, kind="float", english=words, affinity=False, tight=True, column=None,
                   literal=None)


def _coalesce(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    filled = arguments[0]
    for other in arguments[1:]:
        if not filled.nullable:
            break
        if filled.scalar or (filled.kind == "text") != (other.kind == "text"):
            raise Unsupported("replacing NULL by another type", node.sql())
        kind = filled.kind if filled.kind == other.kind else "float"
        filled = SqlValue(f"{filled.operand}.fillna({other.code})", kind,
                          f"{filled.english}, or {other.english} where it is missing", other.nullable)
    return replace(filled, affinity=False) if filled is arguments[0] else filled


def _nullif(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    left, right = arguments
    if left.scalar or (left.kind == "text") != (right.kind == "text"):
        raise Unsupported("NULLIF", node.sql())
    return replace(left, code=f"{left.operand}.mask({left.operand} == {right.operand})", nullable=True,
                   english=f"{left.english} unless it is {right.english}", affinity=False, tight=True,
                   column=None)


def _cast(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    part, target = arguments[0], str(node.args["to"]).upper()
    if "CHAR" in target or "TEXT" in target:
        return replace(as_text(part), affinity=True)
    numeric = as_number(part)
    if any(word in target for word in ("REAL", "FLOA", "DOUB")):
        return replace(numeric, kind="float", affinity=True, column=None, literal=None)
    if "INT" in target:
        if numeric.kind == "int":
            return replace(numeric, affinity=True)
        code = f"int({numeric.code})" if numeric.scalar else f"np.trunc({numeric.code})"
        return replace(numeric, code=code, kind="int", english=f"{part.english} as a whole number",
                       affinity=True, tight=True, column=None, literal=None)
    return replace(numeric, affinity=True)


def _iso(part: SqlValue, node: exp.Expression) -> SqlValue:
    """A column of ISO dates as text; other formats give NULL in SQLite and are not covered."""
    series = part.column.series if part.column else None
    if part.kind != "text" or series is None or not all(map(_ISO.fullmatch, series.dropna().unique())):
        raise Unsupported("date function on something else than ISO dates", node.sql())
    return part


def _date_part(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    pattern = "%Y-%m-%d" if isinstance(node, exp.Date) else node.args["format"].name
    part = _iso(arguments[0], node)
    if pattern not in _DATE_PARTS:
        raise Unsupported("date format", pattern)
    return _method(part, f".str{_DATE_PARTS[pattern]}", "", f"{_PART_WORDS[pattern]} {part.english}")


def _negative(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    part = as_number(arguments[0])
    return replace(part, code=f"-{part.operand}", english=f"minus {part.english}", affinity=False, tight=True,
                   column=None, literal=None)


def _anonymous(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    if node.name.lower() == "julianday" and len(arguments) == 1:
        part = _iso(arguments[0], node)
        return replace(part, code=f"pd.to_datetime({part.code}).map(pd.Timestamp.to_julian_date)",
                       kind="float", english=f"the day number of {part.english}", affinity=False, column=None)
    raise Unsupported("function", node.name)


def _extreme(node: exp.Expression, arguments: list[SqlValue]) -> SqlValue:
    """MIN and MAX of several values of one row."""
    name = "minimum" if isinstance(node, exp.Least) else "maximum"
    extreme = arguments[0]
    for other in arguments[1:]:
        if not (extreme.numeric and other.numeric) or (extreme.scalar and other.scalar):
            raise Unsupported("MIN or MAX of several texts", node.sql())
        kind: Kind = "int" if extreme.kind == other.kind == "int" else "float"
        extreme = SqlValue(f"np.{name}({extreme.code}, {other.code})", kind,
                           f"the {name} of {extreme.english} and {other.english}",
                           extreme.nullable or other.nullable)
    return extreme


FUNCTIONS: dict[type[exp.Expression], Function] = {
    exp.Length: _length, exp.Upper: _case, exp.Lower: _case, exp.Trim: _trim, exp.Replace: _replace,
    exp.Substring: _substring, exp.StrPosition: _position, exp.DPipe: _concat, exp.Abs: _absolute,
    exp.Round: _round, exp.Coalesce: _coalesce, exp.Nullif: _nullif, exp.Cast: _cast, exp.Neg: _negative,
    exp.TimeToStr: _date_part, exp.Date: _date_part, exp.Least: _extreme, exp.Greatest: _extreme,
    exp.Anonymous: _anonymous,
}


def arguments_of(node: exp.Expression) -> list[exp.Expression]:
    """A function's arguments in SQL's order."""
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    if isinstance(node, exp.TimeToStr):
        return [node.this.this if isinstance(node.this, exp.TsOrDsToTimestamp) else node.this]
    names = ("this", "start", "length", "substr", "expression", "replacement", "decimals")
    named = [node.args[n] for n in names if isinstance(node.args.get(n), exp.Expression)]
    return named + list(node.args.get("expressions") or [])
