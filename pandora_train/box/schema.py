"""What a prompt shows of a BOX set: ``name = pd.DataFrame({'field': [...], ...})``, and the foreign keys.

Names come from strangers' files. Each is written as a Python literal, so a quote, a line break or a control
character cannot end the line, and characters that could spell a chat template's turn marker (``<|im_end|>``,
``</s>``, ``[INST]``) or a code fence are written as escapes (``'<\\x7cim_end|>'`` in spirit): as Python the
literal still is the exact name, as text it is no marker.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from pandora_train.box.box import BoxSet, ForeignKey

Values = Literal["none", "samples", "matched"]
SHOWN = 3
"""Cell values shown per field, at most, when values are asked for."""
LONGEST = 60
"""Characters of a shown text value, at most."""
_MARKER = re.compile(r"<(?=[A-Za-z/|\uff5c!])|\[(?=/?(?:INST|SYS|AVAILABLE|TOOL))|`(?=``)")


def schema_text(
    boxes: BoxSet,
    *,
    count: Callable[[str], int] | None = None,
    budget: int | None = None,
    values: Values = "none",
    question: str = "",
    types: bool = False,
) -> str:
    """The schemas of ``boxes``, one line each, then one line of foreign keys.

    ``values``: ``samples`` shows the first distinct values of each field, ``matched`` those that occur in the
    question. ``types`` writes ``[int, ...]`` instead of ``[...]``. With a ``budget`` (tokens, as ``count``
    sees them; without ``count``, a third of the characters) the text is made to fit: first without values and
    types, then without the fields whose names share least with the question, those of the last BOXes first; a
    last line tells how much is not shown. Names are never altered or cut short.
    """
    everything = [(b.name, str(f)) for b in boxes for f in b.frame.columns]
    texts = [_render(boxes, set(everything), _View(values, question, types))]
    if values != "none" or types:
        texts.append(_render(boxes, set(everything), _View()))
    if budget is None:
        return texts[0]
    fits = _within(count or (lambda text: math.ceil(len(text) / 3)), budget)
    for text in texts:
        if fits(text):
            return text
    return _cut(boxes, _by_relevance(boxes, question), fits)


def literal(value: Any) -> str:
    """``value`` as a Python literal on one line that contains no chat turn marker and no code fence."""
    return _MARKER.sub(lambda m: f"\\x{ord(m.group()):02x}", repr(value))


@dataclass(frozen=True)
class _View:
    values: Values = "none"
    question: str = ""
    types: bool = False


def _render(boxes: BoxSet, fields: set[tuple[str, str]], view: _View) -> str:
    lines = []
    for box in boxes:
        kept = [str(f) for f in box.frame.columns if (box.name, str(f)) in fields]
        if kept or not len(box.frame.columns):
            shown = ", ".join(f"{literal(f)}: {_cells(box.frame[f], view)}" for f in kept)
            lines.append(f"{box.name} = pd.DataFrame({{{shown}}})")
    keys = [k for k in boxes.foreign_keys if {(k.box, k.field), (k.to_box, k.to_field)} <= fields]
    if keys:
        lines.append("# foreign keys: " + ", ".join(_key(k) for k in keys))
    return "\n".join(lines)


def _key(key: ForeignKey) -> str:
    return f"{_access(key.box, key.field)} = {_access(key.to_box, key.to_field)}"


def _access(box: str, field: str) -> str:
    return f"{box}.{field}" if field.isidentifier() else f"{box}[{literal(field)}]"


def _cells(column: pd.Series, view: _View) -> str:
    items: list[str] = []
    if view.values != "none":
        items = [literal(v) for v in _shown_values(column, view)]
    elif view.types:
        items = [_type(column)]
    return "[" + ", ".join([*items, "..."]) + "]"


def _type(column: pd.Series) -> str:
    kind = {"i": "int", "u": "int", "f": "float", "b": "bool"}.get(getattr(column.dtype, "kind", "O"))
    return kind or ("str" if column.dtype == "str" else "object")


def _shown_values(column: pd.Series, view: _View) -> list[Any]:
    if view.values == "matched":
        column = _matched(column, view.question)
    found = []
    for value in column.dropna().drop_duplicates().head(SHOWN):
        plain = value.item() if hasattr(value, "item") else value
        found.append(plain[:LONGEST] + "…" if isinstance(plain, str) and len(plain) > LONGEST else plain)
    return found


def _matched(column: pd.Series, question: str) -> pd.Series:
    """The cells that the question names: numbers in it, or whole words of it (case and punctuation aside)."""
    if pd.api.types.is_numeric_dtype(column):
        return column[column.isin([float(n) for n in re.findall(r"\d+(?:\.\d+)?", question)])]
    words = f" {_normal(question)} "
    distinct = column.dropna().drop_duplicates()
    named = [v for v in distinct if len(str(v)) <= len(words) and _normal(str(v))]
    return pd.Series([v for v in named if f" {_normal(str(v))} " in words], dtype=column.dtype)


def _normal(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


# --- the token budget -----------------------------------------------------------------------------------


def _within(count: Callable[[str], int], budget: int) -> Callable[[str], bool]:
    return lambda text: count(text) <= budget


def _by_relevance(boxes: BoxSet, question: str) -> list[tuple[str, str]]:
    """All fields, those whose names share most with the question first, then in schema order.

    A field counts its own words double and its BOX's once. A BOX's first field (its subject) and its keys
    come right after its best field, since the others mean nothing without them.
    """
    asked = set(_stems(question))
    keys = {end for k in boxes.foreign_keys for end in ((k.box, k.field), (k.to_box, k.to_field))}
    scores: dict[tuple[str, str], float] = {}
    for box in boxes:
        around = len(set(_stems(box.name)) & asked)
        own = {str(f): 2 * len(set(_stems(str(f))) & asked) + around for f in box.frame.columns}
        for position, (field, score) in enumerate(own.items()):
            needed = position == 0 or (box.name, field) in keys
            scores[box.name, field] = max(score, max(own.values()) - 0.5) if needed else score
    return sorted(scores, key=lambda item: -scores[item])  # stable: schema order among equals


def _stems(text: str) -> Iterator[str]:
    """Lower-case words, split at underscores and camel case, without a plural s."""
    for word in re.findall(r"[^\W\d_]+|\d+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text)):
        yield re.sub(r"(?<=\w\w)s$", "", word.lower())


def _cut(boxes: BoxSet, ranked: list[tuple[str, str]], fits: Callable[[str], bool]) -> str:
    """The longest beginning of ``ranked`` whose schema fits; at worst the note alone."""

    def text(kept: int) -> str:
        names = {box for box, _ in ranked[:kept]}
        note = f"# not shown for length: {len(ranked) - kept} of {len(ranked)} fields"
        hidden = len(boxes.boxes) - len(names)
        note += f", {hidden} of {len(boxes.boxes)} BOXes" if hidden else ""
        body = _render(boxes, set(ranked[:kept]), _View())
        return f"{body}\n{note}" if body else note

    low, high = 0, len(ranked)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(text(middle)):
            low = middle
        else:
            high = middle - 1
    return text(low)
