"""Sets of nodes as pandas code: the part that s-expressions, SPARQL and relation paths share.

A set is a :class:`Const`, a :class:`Var` (already written) or a :class:`Pick`: the values of one column in
the rows of one BOX that satisfy conditions. Conditions on the same subject pile up on one Pick, so that what
stands side by side in a row is filtered there, as a person would, instead of intersecting sets of names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pandora_train.box.box import Box, BoxSet
from pandora_train.box.triples import Graph
from pandora_train.compile.writer import Compiled, Unsupported, Writer


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


NodeSet = Const | Var | Pick
TYPE_FIELD = "type"
"""Relation that holds explicit types where BOX names do not tell them."""
WORDS = {"==": "is", "!=": "is not", "<": "is less than", "<=": "is at most", ">": "is more than",
         ">=": "is at least"}


@dataclass(frozen=True)
class RelationPlace:
    """Where a relation lives: a BOX and its column."""

    box: Box
    column: str

    @property
    def subject(self) -> str:
        return str(self.box.frame.columns[0])


class SetWriter:
    """Writes set operations over the BOXes of a graph.

    ``names`` turns ids of the source (Freebase MIDs, IRIs) into node names, before the store's own.
    """

    def __init__(self, boxes: BoxSet, graph: Graph, names: Mapping[str, str] | None = None) -> None:
        self.graph, self.boxes, self.names = graph, boxes, names or {}
        self.writer = Writer(boxes)
        self.places: dict[str, list[RelationPlace]] = {}
        for box in boxes:
            for column in list(box.frame.columns)[1:]:
                relation = box.original_fields.get(column, column)
                self.places.setdefault(relation, []).append(RelationPlace(box, column))

    # --- operations -----------------------------------------------------------------------------------

    def constant(self, node: str) -> Const:
        """A node by source id or name."""
        return Const(self.names.get(node) or self.graph.aliases.get(node) or node)

    def located(self, relation: str) -> tuple[list[RelationPlace], bool]:
        """Where ``relation`` lives (subjects of several types: in several BOXes), and whether it runs from
        value to subject there."""
        name = self.graph.aliases.get(relation, relation)
        stored, back = self.graph.locate(name)
        if stored not in self.places:
            raise Unsupported("relation not in the BOXes", relation)
        return self.places[stored], back

    def place(self, relation: str) -> tuple[RelationPlace, bool]:
        """As :meth:`located`, where one BOX is needed."""
        places, back = self.located(relation)
        if len(places) > 1:
            raise Unsupported("relation in several BOXes", relation)
        return places[0], back

    def objects(self, relation: str, subjects: NodeSet, back: bool = False) -> NodeSet:
        """Values that ``relation`` has for ``subjects``; with ``back``, the subjects that have the values."""
        places, turned = self.located(relation)
        if back == turned and isinstance(subjects, Pick):
            for place in places:  # all that these subjects have stands in their own rows
                if subjects.box is place.box and subjects.answer == place.subject \
                        and place.column not in subjects.used:
                    return replace(subjects, answer=place.column)
        if len(places) > 1 and isinstance(subjects, Pick):
            subjects = self.var(subjects)
        return self._union([self._step(place, subjects, back != turned) for place in places])

    def _step(self, place: RelationPlace, given: NodeSet, back: bool) -> Pick:
        key, answer = (place.column, place.subject) if back else (place.subject, place.column)
        return Pick(place.box, answer).where(self._member(key, given))

    def any_value(self, relation: str, back: bool = False) -> NodeSet:
        """Subjects that have ``relation`` at all (``back``: all its values)."""
        places, turned = self.located(relation)
        if back != turned:
            return self._union([Pick(p.box, p.column) for p in places])
        return self._union([Pick(p.box, p.subject).where(Condition(p.column, "notna")) for p in places])

    def compare(self, relation: str, op: str, value: str, missing: bool = False) -> NodeSet:
        """Subjects with a value of ``relation`` that compares as ``op`` with ``value``."""
        places, turned = self.located(relation)
        if turned:
            raise Unsupported("comparison on an inverse relation", relation)
        condition = (op, Const(value), missing)
        return self._union([Pick(p.box, p.subject).where(Condition(p.column, *condition)) for p in places])

    def _union(self, parts: list[Pick]) -> NodeSet:
        """One Pick as it is; several are written and put together."""
        return parts[0] if len(parts) == 1 else self.either(list(parts))

    def either(self, parts: list[NodeSet]) -> Var:
        """The union of written sets."""
        written = [self.var(part) for part in parts]
        name = self.writer.name("either")
        together = ", ".join(f"*{v.name}" for v in written)
        self.writer.step("Put these together without duplicates.",
                         f"{name} = sorted({{{together}}}, key=str)")
        return Var(name, written[0].what)

    def of_class(self, base: NodeSet | None, kind: str) -> NodeSet | None:
        """``base`` (``None``: anything) restricted to a class; ``None`` when that is still anything.

        Where types are only inferred from relations nothing is filtered: a node without evidence for a type
        may still have it, and what the query's relations say about its type holds already.
        """
        if not self.graph.types:
            return base
        if TYPE_FIELD in self.places:
            members = self.objects(TYPE_FIELD, self.constant(kind), back=True)
        else:
            members = self.members(kind)
            if isinstance(base, Pick) and (base.box, base.answer) == (members.box, members.answer):
                return base
        return members if base is None else self.both(base, members)

    def members(self, kind: str) -> Pick:
        """All subjects of a type's BOX."""
        kind = self.graph.aliases.get(kind, kind)
        for box in self.boxes:
            if box.original == kind:
                return Pick(box, str(box.frame.columns[0]))
        raise Unsupported("class not in the BOXes", kind)

    def both(self, left: NodeSet, right: NodeSet) -> NodeSet:
        """The intersection."""
        if not isinstance(left, Pick):
            left, right = right, left
        if not isinstance(left, Pick):
            return self._common(left, right)
        if isinstance(right, Pick):
            if _mergeable(left, right):
                return left.where(*right.conditions)
            if right.answer == right.subject and left.answer != left.subject:
                left, right = right, left  # filter the subjects' own rows by the values found elsewhere
            right = self.var(right)
        return left.where(self._member(left.answer, right))

    def _common(self, left: NodeSet, right: NodeSet) -> Var:
        if isinstance(left, Const) or isinstance(right, Const):
            raise Unsupported("intersection with a constant")
        a, b = self.var(left), self.var(right)
        name = self.writer.name("common")
        self.writer.step("Keep the values that are in both.",
                         f"{name} = [v for v in {a.name} if v in {b.name}]")
        return Var(name, a.what)

    def without(self, base: NodeSet, node: Const) -> NodeSet:
        """``base`` less one node."""
        if isinstance(base, Pick):
            return base.where(Condition(base.answer, "!=", node))
        values = self.var(base)
        name = self.writer.name("others")
        self.writer.step(f"Leave out {node.value!r}.",
                         f"{name} = [v for v in {values.name} if v != {node.value!r}]")
        return Var(name, values.what)

    def extreme(self, base: NodeSet | None, path: list[tuple[str, bool]], largest: bool) -> Pick:
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
        return self._best(place.box, rows, key, other, largest)

    def best(self, base: Pick, answer: str, ranked: str, largest: bool) -> Pick:
        """``answer`` in the rows of ``base`` with the largest or smallest ``ranked``."""
        return self._best(base.box, self.rows(base), answer, ranked, largest)

    def _best(self, box: Box, rows: str, answer: str, ranked: str, largest: bool) -> Pick:
        word = "largest" if largest else "smallest"
        name = self.writer.name(word)
        self.writer.step(f"Find the {word} {ranked} among them.",
                         f"{name} = {rows}[{ranked!r}].{'max' if largest else 'min'}()")
        best = self.writer.name(f"{_last(box.name)}_best")
        self.writer.step(f"Keep the rows with that {ranked}.",
                         f"{best} = {rows}[{rows}[{ranked!r}] == {name}]")
        return Pick(box, answer, rows=best)

    def first(self, base: Pick, answer: str, ranked: str, descending: bool, limit: int) -> Compiled:
        """The first ``limit`` distinct values of ``answer`` in the order of ``ranked``; ends the program."""
        rows, ordered = self.rows(base), self.writer.name("ordered")
        self.writer.step(
            f"Sort them by {ranked}{', largest first' if descending else ''}.",
            f"{ordered} = {rows}.dropna(subset=[{ranked!r}]).sort_values({ranked!r}, "
            f"ascending={not descending}, kind='stable')")
        answers = self.writer.name("answers")
        self.writer.step(f"Take the first {limit} distinct {answer} values.",
                         f"{answers} = {ordered}[{answer!r}].dropna().unique()[:{limit}]")
        numeric = base.box.frame[answer].dtype != "str"
        item = "str(value)" if numeric else "value"
        self.writer.step("Return one row per value.", f"result = [[{item}] for value in {answers}]")
        return self.writer.compiled()

    def _on(self, box: Box, column: str, other: str, base: NodeSet | None) -> Pick:
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

    def pick(self, base: NodeSet) -> Pick:
        if not isinstance(base, Pick):
            raise Unsupported("constant where a set is needed")
        return base

    def _member(self, column: str, values: NodeSet) -> Condition:
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

    def var(self, base: NodeSet, name: str = "") -> Var:
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
        text = literal(box, column, condition.op, condition.operand.value)
        words, mask = f"{column} {WORDS[condition.op]} {text}", f"{cells} {condition.op} {text}"
        if condition.missing:
            return f"{words}, or is missing", f"{cells}.isna() | ({mask})"
        return words, mask

    def finish(self, answer: NodeSet, count: bool = False) -> Compiled:
        """Write the answer as ``result`` and give the program."""
        if count:
            return self._count(answer)
        numeric = isinstance(answer, Pick) and answer.box.frame[answer.answer].dtype != "str"
        values = self.var(answer, "answers")
        item = "str(value)" if numeric or isinstance(answer, Var) else "value"
        self.writer.step("Return one row per value.", f"result = [[{item}] for value in {values.name}]")
        return self.writer.compiled()

    def _count(self, answer: NodeSet) -> Compiled:
        name = self.writer.name("count")
        if isinstance(answer, Pick):
            rows = self.rows(answer)
            sentence = f"Count the distinct {answer.answer} values."
            code = f"{rows}[{answer.answer!r}].nunique()"
        else:
            sentence, code = "Count them.", f"len({self.var(answer).name})"
        self.writer.step(sentence, f"{name} = {code}", f"result = [[str({name})]]")
        return self.writer.compiled()


def _mergeable(left: Pick, right: Pick) -> bool:
    """Whether rows that satisfy both are the rows of subjects that satisfy both (all combinations exist)."""
    return (left.box is right.box and left.answer == right.answer == left.subject
            and not left.rows and not right.rows and not (left.used & right.used))


def _last(name: str) -> str:
    return name.rstrip("_0123456789").rpartition("_")[2] or name


def literal(box: Box | None, column: str, op: str, value: str, numeric: bool = False) -> str:
    """``value`` as Python source for a comparison with the column's cells (without ``box``: ``numeric``)."""
    if not numeric and (box is None or box.frame[column].dtype == "str"):
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
