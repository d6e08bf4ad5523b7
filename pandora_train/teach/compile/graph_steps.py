"""Sets of nodes as pandas steps: the part that s-expressions, SPARQL and relation paths share.

A set is a :class:`Const`, a :class:`Var` (already written) or a :class:`Pick`: the values of one column in
the rows of one BOX that satisfy conditions. Conditions on the same subject pile up on one Pick, so that what
stands side by side in a row is filtered there, as a person would, instead of intersecting sets of names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pandora_train.box.box import Box, BoxSet
from pandora_train.box.store import Graph
from pandora_train.teach.compile.program import Compiled, Unsupported, Writer


@dataclass(frozen=True)
class Const:
    """One node or value, by the name it has in the cells."""

    value: str


@dataclass(frozen=True)
class Var:
    """A written variable that holds distinct values."""

    name: str
    what: str
    """What the values are, in words."""


@dataclass(frozen=True)
class Condition:
    """``column op operand``; ``missing`` lets rows without a value pass."""

    column: str
    op: str
    operand: Const | Var | None = None
    missing: bool = False


@dataclass(frozen=True)
class Pick:
    """Distinct values of ``answer`` in the rows of ``box`` that satisfy ``conditions``.

    ``rows`` is the variable that holds rows already written; ``conditions`` are those still to come.
    """

    box: Box
    answer: str
    conditions: tuple[Condition, ...] = ()
    rows: str = ""
    used: frozenset[str] = field(default_factory=frozenset)
    """Columns that conditions restrict: only rows with certain values are left of them."""

    @property
    def subject(self) -> str:
        return str(self.box.frame.columns[0])

    def where(self, *conditions: Condition) -> Pick:
        used = self.used | {c.column for c in conditions}
        return replace(self, conditions=self.conditions + conditions, used=used)


Set = Const | Var | Pick
WORDS = {"==": "is", "!=": "is not", "<": "is less than", "<=": "is at most", ">": "is more than",
         ">=": "is at least"}


@dataclass(frozen=True)
class Place:
    """Where a relation lives: a BOX and its column."""

    box: Box
    column: str

    @property
    def subject(self) -> str:
        return str(self.box.frame.columns[0])


class GraphSteps:
    """Writes set operations over the BOXes of a graph.

    ``names`` turns ids of the source (Freebase MIDs, IRIs) into node names, before the store's own.
    """

    def __init__(self, boxes: BoxSet, graph: Graph, names: Mapping[str, str] | None = None) -> None:
        self.graph, self.boxes, self.names = graph, boxes, names or {}
        self.writer = Writer(boxes)
        self.places: dict[str, list[Place]] = {}
        for box in boxes:
            for column in list(box.frame.columns)[1:]:
                relation = box.original_fields.get(column, column)
                self.places.setdefault(relation, []).append(Place(box, column))

    # --- operations -----------------------------------------------------------------------------------

    def constant(self, node: str) -> Const:
        """A node by source id or name."""
        return Const(self.names.get(node) or self.graph.aliases.get(node) or node)

    def place(self, relation: str) -> tuple[Place, bool]:
        """Where ``relation`` lives, and whether it runs from value to subject there."""
        kept, back = self.graph.locate(relation)
        places = self.places.get(kept)
        if not places:
            raise Unsupported("relation not in the BOXes", relation)
        if len(places) > 1:
            raise Unsupported("relation in several BOXes", relation)
        return places[0], back

    def objects(self, relation: str, subjects: Set, back: bool = False) -> Pick:
        """Values that ``relation`` has for ``subjects``; with ``back``, the subjects that have the values."""
        place, turned = self.place(relation)
        if back != turned:
            return self._having(place, subjects)
        if isinstance(subjects, Pick) and subjects.box is place.box and subjects.answer == place.subject \
                and place.column not in subjects.used:
            return replace(subjects, answer=place.column)
        condition = self._member(place.subject, subjects)
        return Pick(place.box, place.column).where(condition)

    def _having(self, place: Place, values: Set) -> Pick:
        return Pick(place.box, place.subject).where(self._member(place.column, values))

    def any_value(self, relation: str, back: bool = False) -> Pick:
        """Subjects that have ``relation`` at all (``back``: all its values)."""
        place, turned = self.place(relation)
        if back != turned:
            return Pick(place.box, place.column)
        return Pick(place.box, place.subject).where(Condition(place.column, "notna"))

    def compare(self, relation: str, op: str, value: str, missing: bool = False) -> Pick:
        """Subjects with a value of ``relation`` that compares as ``op`` with ``value``."""
        place, turned = self.place(relation)
        if turned:
            raise Unsupported("comparison on an inverse relation", relation)
        return Pick(place.box, place.subject).where(Condition(place.column, op, Const(value), missing))

    def both(self, left: Set, right: Set) -> Set:
        """The intersection."""
        if isinstance(left, Const):
            left, right = right, left
        if not isinstance(left, Pick):
            if not isinstance(right, Pick):
                raise Unsupported("intersection of constants")
            left, right = right, left
        if isinstance(right, Pick):
            if _mergeable(left, right):
                return left.where(*right.conditions)
            if right.answer == right.subject and left.answer != left.subject:
                left, right = right, left  # filter the subjects' own rows by the values found elsewhere
            right = self.var(right)
        return left.where(self._member(left.answer, right))

    def only(self, base: Set, condition: Pick) -> Set:
        """``base`` restricted to the subjects of ``condition``, in place where the rows are the same."""
        return self.both(base, condition)

    def without(self, base: Set, node: Const) -> Pick:
        """``base`` less one node."""
        pick = self.pick(base)
        return pick.where(Condition(pick.answer, "!=", node))

    def extreme(self, base: Set | None, path: list[tuple[str, bool]], largest: bool) -> Pick:
        """Members of ``base`` (``None``: any) with the largest or smallest value at the end of ``path``."""
        (first, back), rest = path[0], path[1:]
        place, turned = self.place(first)
        key, other = place.subject, place.column
        if back != turned:
            key, other = other, key
        pick = self._on(place.box, key, other, base)
        rows, box = self.rows(pick), place.box
        for relation, reverse in rest:
            rows, box, other = self._follow(rows, box, key, other, relation, reverse)
        word = "largest" if largest else "smallest"
        name = self.writer.name(word)
        self.writer.step(f"Find the {word} {other} among them.",
                         f"{name} = {rows}[{other!r}].{'max' if largest else 'min'}()")
        best = self.writer.name(f"{_last(place.box.name)}_best")
        self.writer.step(f"Keep the rows with that {other}.", f"{best} = {rows}[{rows}[{other!r}] == {name}]")
        return Pick(place.box, key, rows=best)

    def _on(self, box: Box, column: str, other: str, base: Set | None) -> Pick:
        """``base`` as conditions on ``column`` of ``box``, with every value of column ``other`` kept."""
        if base is None:
            return Pick(box, column)
        if isinstance(base, Pick) and base.box is box and base.answer == column and other not in base.used:
            return base
        return Pick(box, column).where(self._member(column, base))

    def _follow(self, rows: str, box: Box, key: str, end: str, relation: str, back: bool
                ) -> tuple[str, Box, str]:
        """Extend ``rows`` from column ``end`` by one more relation; gives rows, their BOX, the new end."""
        place, turned = self.place(relation)
        source, target = place.subject, place.column
        if back != turned:
            source, target = target, source
        if place.box is box and end == source:
            return rows, box, target
        if key in (source, target):
            raise Unsupported("path whose columns share a name", relation)
        pairs = self.writer.name("pairs")
        self.writer.step(
            f"Join them with {place.box.name} on {source} to reach its {target}.",
            f"{pairs} = {rows}[[{key!r}, {end!r}]].merge({place.box.name}[[{source!r}, {target!r}]], "
            f"left_on={end!r}, right_on={source!r})")
        return pairs, place.box, target

    # --- writing --------------------------------------------------------------------------------------

    def pick(self, base: Set) -> Pick:
        if not isinstance(base, Pick):
            raise Unsupported("constant where a set is needed")
        return base

    def _member(self, column: str, values: Set) -> Condition:
        if isinstance(values, Const):
            return Condition(column, "==", values)
        return Condition(column, "isin", self.var(values))

    def rows(self, pick: Pick) -> str:
        """Write the rows of ``pick``; the BOX itself when there is no condition."""
        rows = pick.rows
        for condition in pick.conditions:
            source = rows or pick.box.name
            target = rows or self.writer.name(f"{_last(pick.box.name)}_rows")
            sentence, mask = self._mask(pick.box, source, condition)
            opening = "Of these, keep the rows whose" if rows else f"Keep the {pick.box.name} rows whose"
            self.writer.step(f"{opening} {sentence}.", f"{target} = {source}[{mask}]")
            rows = target
        return rows or pick.box.name

    def var(self, base: Set, name: str = "") -> Var:
        """Write the distinct values of ``base`` into a variable."""
        if isinstance(base, Var):
            return base
        pick = self.pick(base)
        rows = self.rows(pick)
        target = self.writer.name(name or pick.answer)
        clean = "" if pick.answer == pick.subject else ".dropna()"
        if rows == pick.box.name:
            sentence = f"Take all distinct {pick.answer} values of {rows}."
        else:
            sentence = f"Take the distinct {pick.answer} values of these rows."
        self.writer.step(sentence, f"{target} = {rows}[{pick.answer!r}]{clean}.unique()")
        return Var(target, pick.answer)

    def _mask(self, box: Box, source: str, condition: Condition) -> tuple[str, str]:
        """The condition in words and as a boolean Series."""
        column = condition.column
        cells = f"{source}[{column!r}]"
        if condition.op == "notna":
            return f"{column} is known", f"{cells}.notna()"
        if isinstance(condition.operand, Var):
            return f"{column} is one of those {condition.operand.what} values", \
                f"{cells}.isin({condition.operand.name})"
        assert condition.operand is not None
        literal = _literal(box, column, condition.op, condition.operand.value)
        words, mask = f"{column} {WORDS[condition.op]} {literal}", f"{cells} {condition.op} {literal}"
        if condition.missing:
            return f"{words}, or is missing", f"{cells}.isna() | ({mask})"
        return words, mask

    def finish(self, answer: Set, count: bool = False) -> Compiled:
        """Write the answer as ``result`` and give the program."""
        pick = self.pick(answer)
        if count:
            rows = self.rows(pick)
            name = self.writer.name("count")
            self.writer.step(f"Count the distinct {pick.answer} values.",
                             f"{name} = {rows}[{pick.answer!r}].nunique()", f"result = [[str({name})]]")
            return self.writer.compiled()
        values = self.var(pick, "answers")
        numeric = pick.box.frame[pick.answer].dtype != "str"
        item = "str(value)" if numeric else "value"
        self.writer.step("Return one row per value.", f"result = [[{item}] for value in {values.name}]")
        return self.writer.compiled()


def _mergeable(left: Pick, right: Pick) -> bool:
    """Whether rows that satisfy both are the rows of subjects that satisfy both (all combinations exist)."""
    return (left.box is right.box and left.answer == right.answer == left.subject
            and not left.rows and not right.rows and not (left.used & right.used))


def _last(name: str) -> str:
    return name.rstrip("_0123456789").rpartition("_")[2] or name


def _literal(box: Box, column: str, op: str, value: str) -> str:
    """``value`` as Python source for a comparison with the column's cells."""
    if box.frame[column].dtype == "str":
        if op in (">=", "<"):  # cells may be partial dates: '2008' stands for its first day
            value = re.sub(r"^(-?\d{4,})(-01-01|(-\d\d)-01)$", r"\1\3", value)
        return repr(value)
    try:
        number = float(value)
    except ValueError:
        if op in ("==", "!="):
            return repr(value)
        raise Unsupported("text compared with numbers", value) from None
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
