"""What to do about an error, in a sentence: made for a model that repairs its own code."""

from __future__ import annotations

import ast
import contextlib
import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from . import values

MOST_COLUMNS = 40


@dataclass(frozen=True)
class Failure:
    """An exception of generated code and what surrounds it."""

    error: BaseException
    message: str
    line: str
    """The source line it came from; empty if unknown."""
    names: dict[str, Any]
    """The code's variables, BOXes included."""
    frames: dict[str, pd.DataFrame]
    code: str


def for_error(error: BaseException, message: str, line: int | None, code: str, names: dict[str, Any],
              frames: dict[str, pd.DataFrame]) -> str:
    """The first rule that has something to say about the error; empty if none has."""
    lines = code.splitlines()
    text = lines[line - 1] if line and line <= len(lines) else ""
    failure = Failure(error, message, text, names, frames, code)
    for rule in RULES:
        with contextlib.suppress(Exception):
            hint = rule(failure)
            if hint:
                return hint
    return ""


def for_empty(code: str, names: dict[str, Any], frames: dict[str, pd.DataFrame]) -> str:
    """On an empty result: see :mod:`.values`."""
    with contextlib.suppress(Exception):
        return values.for_empty(code, names, frames)
    return ""


def _near(name: str, known: list[str]) -> list[str]:
    """Known names near ``name``: equal but for case and punctuation first."""
    squeezed = re.sub(r"\W|_", "", name).casefold()
    same = [k for k in known if re.sub(r"\W|_", "", k).casefold() == squeezed]
    folded = {k.casefold(): k for k in known}
    alike = difflib.get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.55)
    return list(dict.fromkeys([*same, *(folded[a] for a in alike)]))[:3]


def _tables(failure: Failure) -> dict[str, pd.DataFrame]:
    """The frames of the failing line, else all: BOXes, then what the code made of them."""
    made = {n: v for n, v in failure.names.items() if isinstance(v, pd.DataFrame) and n not in failure.frames}
    tables = {n: failure.names.get(n) for n in failure.frames}
    known = {n: t for n, t in (tables | made).items() if isinstance(t, pd.DataFrame)}
    words = set(re.findall(r"\w+", failure.line))
    return {n: t for n, t in known.items() if n in words} or known


def _labels(table: pd.DataFrame) -> list[str]:
    return [str(c) for c in table.columns]


def _list(names: list[str]) -> str:
    return ", ".join(repr(n) for n in names[:MOST_COLUMNS]) + (", …" if len(names) > MOST_COLUMNS else "")


def missing_column(failure: Failure) -> str:
    """A KeyError on a column: where it is, or the nearest that exist."""
    if not isinstance(failure.error, KeyError):
        return ""
    key = failure.error.args[0] if failure.error.args else ""
    wanted = [key] if isinstance(key, str) and not re.search(r"in index|in the \[|labels are not", key) \
        else re.findall(r"'([^']+)'", failure.message.partition("[")[2] or failure.message)
    tables = _tables(failure)
    said = []
    for name in wanted:
        if any(name in _labels(t) for t in tables.values()) and len(tables) == 1:
            continue
        said.append(_one_missing(name, tables, failure))
    if not said and not isinstance(key, str):
        return f"{key!r} is not a label here; use .iloc for positions and .loc for labels"
    columns = "; ".join(f"columns of {n}: {_list(_labels(t))}" for n, t in list(tables.items())[:3])
    return ". ".join([*said, columns])


def _one_missing(name: str, tables: dict[str, pd.DataFrame], failure: Failure) -> str:
    if name in failure.frames:
        return f"'{name}' is a BOX, a variable of its own, not a column"
    elsewhere = [n for n, t in failure.frames.items() if name in _labels(t) and n not in tables]
    if elsewhere:
        return f"'{name}' is a column of {', '.join(elsewhere)}"
    pairs = [(n, c) for n, t in tables.items() for c in _near(name, _labels(t))]
    if not pairs:
        pairs = [(n, c) for n, t in failure.frames.items() for c in _near(name, _labels(t))]
    near = ", ".join(f"{n}[{c!r}]" for n, c in pairs[:4])
    return f"there is no column '{name}'" + (f"; nearest: {near}" if near else "")


def unknown_name(failure: Failure) -> str:
    """A NameError: a BOX of nearly that name, a column used as a variable, or the missing ``result``."""
    found = re.search(r"name '([^']+)' is not defined", failure.message)
    if not isinstance(failure.error, NameError) or not found:
        return ""
    name = found.group(1)
    if name == "result":
        return "assign the answer to result, a list with one inner list per row: result = [[...], ...]"
    holders = [n for n, t in failure.frames.items() if name in _labels(t)]
    if holders:
        return f"'{name}' is a column: write {holders[0]}['{name}']"
    own = [n for n in failure.names if not n.startswith("__")]
    near = _near(name, [*failure.frames, *own])
    nearest = f"nearest: {', '.join(near)}; " if near else ""
    return f"{nearest}BOXes: {', '.join(failure.frames)}"


REPLACED = {
    # pandas 1 and 2 -> pandas 3, as models remember them
    "append": "pd.concat([a, b])", "applymap": ".map(f)", "iteritems": ".items()", "ix": ".loc or .iloc",
    "mad": "(s - s.mean()).abs().mean()", "lookup": ".loc with pd.factorize", "swapaxes": ".T",
    "is_monotonic": ".is_monotonic_increasing", "as_matrix": ".to_numpy()", "get_value": ".at[row, column]",
    "sort": ".sort_values(by)", "order": ".sort_values()", "weekofyear": ".isocalendar().week",
    "week": ".isocalendar().week", "Int64Index": "pd.Index", "Float64Index": "pd.Index",
    "datetime": "import datetime", "np": "np, which is there", "pad": ".ffill()", "backfill": ".bfill()",
    # numpy 1 -> 2, where numpy's own message doesn't say so
    "product": "np.prod", "cumproduct": "np.cumprod", "trapz": "np.trapezoid",
}
ARGUMENTS = {
    "method": ".ffill() or .bfill() instead of fillna(method=…)", "axis": "transpose first: .T",
    "inplace": "assign the result: x = x.method(…)", "infer_datetime_format": "leave it out",
    "level": ".groupby(level=…)", "closed": 'inclusive="both", "left", "right" or "neither"',
    "numeric_only": "choose the numeric columns first", "sort": ".sort_values(…) afterwards",
}
FREQUENCIES = {
    "M": "ME", "Q": "QE", "Y": "YE", "A": "YE", "BM": "BME", "BQ": "BQE", "BA": "BYE", "BY": "BYE",
    "AS": "YS", "H": "h", "T": "min", "S": "s", "L": "ms", "U": "us", "N": "ns", "SM": "SME", "CBM": "CBME",
}


def unknown_attribute(failure: Failure) -> str:
    """An AttributeError: the replacement in pandas 3 or numpy 2, a column, a near attribute."""
    if not isinstance(failure.error, AttributeError):
        return ""
    if ".str accessor" in failure.message:
        return "only text has .str: convert with .astype(str) first" + _dtypes(failure)
    if ".dt accessor" in failure.message:
        mend = "only datetimes have .dt: convert with pd.to_datetime(…, errors='coerce') first"
        return mend + _dtypes(failure)
    found = re.search(r"'?(\w+)'? (?:object )?has no attribute '(\w+)'", failure.message)
    if not found:
        return ""
    owner, name = found.groups()
    if name in REPLACED:
        return f"pandas 3 and numpy 2 have no {owner}.{name}: use {REPLACED[name]}"
    tables = _tables(failure)
    near = [f"{n}[{c!r}]" for n, t in tables.items() for c in _near(name, _labels(t))]
    owner_object = failure.error.obj
    public = [a for a in dir(owner_object) if not a.startswith("_")] if owner_object is not None else []
    near += ["." + a for a in difflib.get_close_matches(name, public, n=2, cutoff=0.7)]
    return f"nearest: {', '.join(near[:4])}" if near else ""


def changed_arguments(failure: Failure) -> str:
    """Arguments and frequencies that pandas 3 no longer takes."""
    found = re.search(r"unexpected keyword argument '(\w+)'", failure.message)
    if isinstance(failure.error, TypeError) and found and found.group(1) in ARGUMENTS:
        return f"pandas 3 has no {found.group(1)}= here: {ARGUMENTS[found.group(1)]}"
    found = re.search(r"Invalid frequency: (\w+)", failure.message)
    if found:
        new = FREQUENCIES.get(re.sub(r"^\d+|-\w+$", "", found.group(1)))
        return f"in pandas 3 the frequency '{found.group(1)}' is spelled '{new}'" if new else ""
    if "ME" in failure.message and "no longer supported" in failure.message:
        return "in pandas 3 frequencies are 'ME', 'QE', 'YE', 'h', 'min', 's'"
    return ""


def _dtypes(failure: Failure) -> str:
    """dtypes of the columns named on the failing line."""
    told = {}
    for node in ast.walk(ast.parse(failure.line.strip().rstrip(":") or "0")):
        column = values.column_of(node) if isinstance(node, (ast.Subscript, ast.Attribute)) else None
        if column is None:
            continue
        for name, table in {column[0]: failure.names.get(column[0]), **_tables(failure)}.items():
            if isinstance(table, pd.DataFrame) and column[1] in table.columns:
                told[f"{name}['{column[1]}']"] = str(table[column[1]].dtype)
                break
    if not told:
        tables = list(_tables(failure).items())[:2]
        told = {f"{n}['{c}']": str(t[c].dtype) for n, t in tables for c in t.columns[:20]}
    return "; dtypes: " + ", ".join(f"{c} {d}" for c, d in told.items()) if told else ""


MIXED = re.compile(
    r"not supported between instances of|Invalid comparison between|unsupported operand|can only concatenate|"
    r"[Cc]ould not convert|agg function failed|does not support (operation|reduction)|"
    r"Cannot perform reduction|operation '\w+' not supported for dtype")


def text_and_numbers(failure: Failure) -> str:
    """Text met a number: which column is what, and how to convert it."""
    if not isinstance(failure.error, (TypeError, ValueError)):
        return ""
    if MIXED.search(failure.message):
        mend = "text and numbers don't mix: convert text with pd.to_numeric(column, errors='coerce')"
        return mend + _dtypes(failure)
    if "trying to merge on" in failure.message:
        mend = "the keys differ in dtype: convert one of them with .astype(str) or pd.to_numeric"
        return mend + _dtypes(failure)
    return ""


def outside_world(failure: Failure) -> str:
    """Files, packages, threads: not here."""
    if isinstance(failure.error, ModuleNotFoundError):
        return "only pandas, numpy and Python's standard library can be imported"
    if isinstance(failure.error, (OSError, ImportError)):
        return ("there are no files, network or processes here; the data is already loaded: "
                + ", ".join(failure.frames))
    if "start new thread" in failure.message:
        return "there are no threads here"
    return ""


def habits(failure: Failure) -> str:
    """Mistakes with a known mend."""
    message, kind = failure.message, type(failure.error).__name__
    if kind == "ChainedAssignmentError":
        return "assign in one step: frame.loc[rows, 'column'] = value"
    if "truth value of a" in message:
        return "combine conditions with &, | and ~, each in parentheses; or reduce with .any() or .all()"
    if kind == "MemoryError" or kind == "_ArrayMemoryError":
        return "too much memory: check that the keys of a merge are unique on one side"
    if isinstance(failure.error, IndexError) and re.search(r"out-of-bounds|out of (bounds|range)", message):
        found = values.for_empty(failure.code, failure.names, failure.frames)
        return "there is no such row: what it selects from is shorter" + (f"; {found}" if found else "")
    if kind == "TypeError" and "result holds" in message:
        return "the parentheses of a call are missing"
    return ""


RULES: tuple[Callable[[Failure], str], ...] = (
    missing_column, unknown_name, unknown_attribute, changed_arguments, text_and_numbers, outside_world,
    habits)
