"""What a prompt shows of a BOX set: ``name = pd.DataFrame({'field': [...], ...})``, and the foreign keys.

A :class:`Schema` is that view as data: names, and the types and values that the prompt settings ask for. The
agent makes it from BOXes, the memory keeps it, and one function writes either as text.

Names come from strangers' files. Each is written as a Python literal, so a quote, a line break or a control
character cannot end the line, and characters that could spell a chat template's turn marker (``<|im_end|>``,
``</s>``, ``[INST]``) or a code fence are written as escapes (``'<\\x7cim_end|>'`` in spirit): as Python the
literal still is the exact name, as text it is no marker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pandas as pd

from pandora_train.box.box import BoxSet
from pandora_train.records import Record

Values = Literal["none", "samples", "matched"]
Place = tuple[str, str]
"""(BOX, field)."""
SHOWN = 3
"""Cell values shown per field, at most, when values are asked for."""
LONGEST = 60
"""Characters of a shown text value, at most."""
_MARKER = re.compile(r"<(?=[A-Za-z/|\uff5c!])|\[(?=/?(?:INST|SYS|AVAILABLE|TOOL))|`(?=``)")


class SchemaField(Record):
    """One field as shown."""

    name: str
    type: str = ""
    """``int``, ``float``, ``bool``, ``str`` or ``object`` where types are shown, else empty."""
    values: tuple[str, ...] = ()
    """Cell values as literals, where values are shown."""


class SchemaBox(Record):
    """One BOX as shown."""

    name: str
    fields: tuple[SchemaField, ...]


class Schema(Record):
    """A BOX set as shown."""

    boxes: tuple[SchemaBox, ...]
    keys: tuple[tuple[Place, Place], ...] = ()
    """Foreign keys: the first place refers to the second."""

    @property
    def places(self) -> list[Place]:
        """All fields in order."""
        return [(box.name, field.name) for box in self.boxes for field in box.fields]


def schema_of(boxes: BoxSet, values: Values = "none", types: bool = False, question: str = "") -> Schema:
    """The view of ``boxes`` for one question.

    ``values``: ``samples`` takes the first distinct values of each field, ``matched`` those that occur in the
    question.
    """
    return Schema(
        boxes=tuple(SchemaBox(name=box.name, fields=tuple(
            SchemaField(name=str(field), type=_type(box.frame[field]) if types else "",
                        values=tuple(literal(v) for v in _shown_values(box.frame[field], values, question)))
            for field in box.frame.columns)) for box in boxes),
        keys=tuple(((k.box, k.field), (k.to_box, k.to_field)) for k in boxes.foreign_keys))


def schema_text(schema: Schema, question: str = "", fits: Callable[[str], bool] = lambda text: True) -> str:
    """``schema`` in one line a BOX, then one line of foreign keys, made to fit.

    What does not fit goes without values and types first, then without the fields whose names share least
    with the question, those of the last BOXes first; a last line tells how much is not shown. Names are never
    altered or cut short. At worst the note alone is left, whether or not that fits.
    """
    everything = set(schema.places)
    full = _render(schema, everything)
    if fits(full):
        return full
    bare = Schema(keys=schema.keys, boxes=tuple(
        SchemaBox(name=b.name, fields=tuple(SchemaField(name=f.name) for f in b.fields))
        for b in schema.boxes))
    text = _render(bare, everything)
    return text if fits(text) else _cut(bare, _by_relevance(bare, question), fits)


def literal(value: Any) -> str:
    """``value`` as a Python literal on one line that contains no chat turn marker and no code fence."""
    return _MARKER.sub(lambda m: f"\\x{ord(m.group()):02x}", repr(value))


def _render(schema: Schema, places: set[Place]) -> str:
    lines = []
    for box in schema.boxes:
        fields = [f for f in box.fields if (box.name, f.name) in places]
        if fields or not box.fields:
            shown = ", ".join(f"{literal(f.name)}: {_cells(f)}" for f in fields)
            lines.append(f"{box.name} = pd.DataFrame({{{shown}}})")
    keys = [(place, to) for place, to in schema.keys if {place, to} <= places]
    if keys:
        lines.append("# foreign keys: " + ", ".join(f"{_access(*k)} = {_access(*to)}" for k, to in keys))
    return "\n".join(lines)


def _access(box: str, field: str) -> str:
    return f"{box}.{field}" if field.isidentifier() else f"{box}[{literal(field)}]"


def _cells(field: SchemaField) -> str:
    """``[...]`` with the values, or where there are none the type, before the dots."""
    return "[" + ", ".join([*(field.values or (field.type,) * bool(field.type)), "..."]) + "]"


def _type(column: pd.Series) -> str:
    kind = {"i": "int", "u": "int", "f": "float", "b": "bool"}.get(getattr(column.dtype, "kind", "O"))
    return kind or ("str" if column.dtype == "str" else "object")


def _shown_values(column: pd.Series, values: Values, question: str) -> list[Any]:
    if values == "none":
        return []
    if values == "matched":
        column = _matched(column, question)
    shown = []
    for value in column.dropna().drop_duplicates().head(SHOWN):
        plain = value.item() if hasattr(value, "item") else value
        shown.append(plain[:LONGEST] + "…" if isinstance(plain, str) and len(plain) > LONGEST else plain)
    return shown


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


# --- making it fit --------------------------------------------------------------------------------------


def _by_relevance(schema: Schema, question: str) -> list[Place]:
    """All fields, those whose names share most with the question first, then in schema order.

    A field counts its own words double and its BOX's once. A BOX's first field (its subject) and its keys
    come right after its best field, since the others mean nothing without them.
    """
    asked = set(_stems(question))
    keys = {place for key in schema.keys for place in key}
    scores: dict[Place, float] = {}
    for box in schema.boxes:
        around = len(set(_stems(box.name)) & asked)
        own = {f.name: 2 * len(set(_stems(f.name)) & asked) + around for f in box.fields}
        for position, (field, score) in enumerate(own.items()):
            needed = position == 0 or (box.name, field) in keys
            scores[box.name, field] = max(score, max(own.values()) - 0.5) if needed else score
    return sorted(scores, key=lambda place: -scores[place])  # stable: schema order among equals


def _stems(text: str) -> Iterator[str]:
    """Lower-case words, split at underscores and camel case, without a plural s."""
    for word in re.findall(r"[^\W\d_]+|\d+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text)):
        yield re.sub(r"(?<=\w\w)s$", "", word.lower())


def _cut(schema: Schema, ranked: list[Place], fits: Callable[[str], bool]) -> str:
    """The longest beginning of ``ranked`` whose schema fits; at worst the note alone."""

    def text(shown: int) -> str:
        note = f"# not shown for length: {len(ranked) - shown} of {len(ranked)} fields"
        hidden = len(schema.boxes) - len({box for box, _ in ranked[:shown]})
        note += f", {hidden} of {len(schema.boxes)} BOXes" if hidden else ""
        body = _render(schema, set(ranked[:shown]))
        return f"{body}\n{note}" if body else note

    low, high = 0, len(ranked)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(text(middle)) else (low, middle - 1)
    return text(low)
