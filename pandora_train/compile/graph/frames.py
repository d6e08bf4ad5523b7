"""SPARQL to pandas in general: each triple pattern is a frame whose columns are its variables; the frames are
merged, filtered, sorted and projected as the algebra says.

Rows are solutions with their multiplicity, since each pattern's frame has distinct rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

from rdflib.term import BNode, URIRef, Variable

from pandora_train.compile.graph.filters import (
    ABSENT,
    Masks,
    Solutions,
    about_language,
    column_of,
    operand,
    plain,
    type_iris,
)
from pandora_train.compile.graph.sets import RelationPlace, SetWriter, literal
from pandora_train.compile.writer import Compiled, Unsupported

AGGREGATES = {"Count": "count", "Max": "max", "Min": "min", "Sum": "sum", "Avg": "mean"}
WORDS = {"count": "Count", "max": "Take the largest of", "min": "Take the smallest of", "sum": "Add up",
         "mean": "Take the average of"}


def aggregate_name(aggregate: Any) -> str:
    """``Count``, ``Max``, …: rdflib writes it with a prefix, some with a trailing underscore."""
    return str(aggregate.name).removeprefix("Aggregate_").strip("_")


def compile_frames(p: Any, sets: SetWriter) -> Compiled:
    """Compile rdflib's algebra of a SELECT query."""
    return _FrameCompiler(sets).compile(p)


class _FrameCompiler:
    def __init__(self, sets: SetWriter) -> None:
        self.sets, self.writer = sets, sets.writer
        self.masks = Masks(sets, self.frame)

    def compile(self, p: Any) -> Compiled:
        frame = self.frame(p)
        self.writer.step("Return its rows.", f"result = {frame.name}.values.tolist()")
        return self.writer.compiled()

    def frame(self, p: Any) -> Solutions:
        """Write the frame of an algebra node."""
        kinds: dict[str, Callable[[Any], Solutions]] = {
            "BGP": self._parts, "Join": self._parts,
            "LeftJoin": self._optional, "Filter": self._filter, "Union": self._union, "Minus": self._minus,
            "ToMultiSet": self._nested, "Extend": self._extend, "OrderBy": self._order,
            "Project": self._project, "Distinct": self._distinct, "Reduced": self._distinct,
            "Slice": self._slice, "values": self._values,
        }
        name = "VALUES without a row" if isinstance(p, list) else p.name
        if name not in kinds:
            raise Unsupported("SPARQL operator", name)
        return kinds[name](p)

    def _write(self, base: str, sentence: str, code: str, like: Solutions,
               columns: tuple[str, ...] | None = None, numeric: frozenset[str] | None = None) -> Solutions:
        name = self.writer.name(base)
        self.writer.step(sentence, f"{name} = {code}")
        return replace(like, name=name, columns=like.columns if columns is None else columns,
                       numeric=like.numeric if numeric is None else numeric)

    # --- patterns -------------------------------------------------------------------------------------

    def _parts(self, p: Any) -> Solutions:
        """A join of any depth: all its triple patterns first, then the other parts."""
        triples, others = _flat(p)
        frames = [self._patterns(triples)] if triples else []
        frames += [self.frame(part) for part in others]
        if not frames:
            raise Unsupported("pattern without triples")
        return reduce(self._join, frames)

    def _patterns(self, triples: list[Any]) -> Solutions:
        todo = [t for t in triples if not self._implied(t, triples)]
        if not todo:
            raise Unsupported("pattern without triples")
        done = self._piece(todo.pop(0))
        while todo:
            touching = [t for t in todo if {str(v) for v in t if isinstance(v, Variable)} & set(done.columns)]
            triple = (touching or todo)[0]
            todo.remove(triple)
            done = self._join(done, self._piece(triple))
        return done

    def _implied(self, triple: Any, triples: Any) -> bool:
        """A type pattern over a graph whose types are only inferred from its relations."""
        subject, predicate, _ = triple
        others = [t for t in triples if t is not triple and subject in (t[0], t[2])]
        return str(predicate) in type_iris(self.sets) and not self.sets.graph.types and bool(others)

    def _piece(self, triple: Any) -> Solutions:
        subject, predicate, obj = triple
        if not isinstance(predicate, URIRef):
            raise Unsupported("variable as predicate")
        if str(predicate) in type_iris(self.sets):
            return self._members(subject, obj)
        places, back = self.sets.located(operand(self.sets, predicate).value)
        ends = (obj, subject) if back else (subject, obj)
        frames = [self._at(place, *ends) for place in places]
        return frames[0] if len(frames) == 1 else self._stack(frames)

    def _members(self, subject: Any, kind: Any) -> Solutions:
        if not isinstance(subject, Variable) or not isinstance(kind, URIRef):
            raise Unsupported("type pattern")
        pick = self.sets.members(operand(self.sets, kind).value)
        column, variable = pick.answer, str(subject)
        code = f"{pick.box.name}[[{column!r}]].drop_duplicates().set_axis([{variable!r}], axis=1)"
        like = Solutions("", (variable,), frozenset())
        return self._write(variable, f"Take all {pick.box.name} subjects as {variable}.", code, like)

    def _at(self, place: RelationPlace, subject: Any, obj: Any) -> Solutions:
        """One place of a relation as a frame with one column per variable."""
        box, name = place.box, place.box.name
        ends = [(place.subject, subject), (place.column, obj)]
        known = [(c, t) for c, t in ends if not isinstance(t, Variable | BNode)]
        free = [(c, str(t)) for c, t in ends if isinstance(t, Variable | BNode)]
        if not free:
            raise Unsupported("pattern without variables")
        source, words = name, f"From {name} take"
        for column, term in known:
            text = literal(box, column, "==", operand(self.sets, term).value)
            source = f"{name}[{name}[{column!r}] == {text}]"
            words = f"From the {name} rows whose {column} is {text} take"
        numeric = frozenset(v for c, v in free if box.frame[c].dtype != "str")
        columns = tuple(v for _, v in free)
        if len(columns) == 2 and columns[0] == columns[1]:
            source = f"{name}[{name}[{place.subject!r}] == {name}[{place.column!r}]]"
            free, columns = free[:1], columns[:1]
        shown = " and ".join(f"{c} as {v}" if c != v else c for c, v in free)
        labels = [c for c, _ in free]
        code = f"{source}[{labels!r}].dropna().drop_duplicates().set_axis({list(columns)!r}, axis=1)"
        return self._write("pairs", f"{words} {shown}.", code, Solutions("", columns, numeric))

    def _stack(self, frames: list[Solutions]) -> Solutions:
        if len({f.numeric for f in frames}) > 1:
            raise Unsupported("numbers and text in one column")
        names = ", ".join(f.name for f in frames)
        return self._write("stacked", "Put them under each other.",
                           f"pd.concat([{names}], ignore_index=True)", frames[0])

    def _join(self, left: Solutions, right: Solutions, how: str = "inner") -> Solutions:
        shared = [c for c in left.columns if c in right.columns]
        if (left.optional | right.optional) & set(shared):
            raise Unsupported("join on a value that may be missing")
        if any((c in left.numeric) != (c in right.numeric) for c in shared):
            raise Unsupported("join of numbers with text")
        columns = left.columns + tuple(c for c in right.columns if c not in shared)
        if not shared and how != "inner":
            raise Unsupported("optional part without a shared variable")
        how_text = (f"on={shared!r}" + (", how='left'" if how == "left" else "")) if shared else "how='cross'"
        sentence = f"Join both on {' and '.join(shared)}." if shared else "Combine every row of both."
        if how == "left":
            sentence = f"Add {right.name} where {' and '.join(shared)} is the same, and keep the other rows."
        missing = frozenset(c for c in right.columns if c not in shared) if how == "left" else frozenset()
        like = Solutions("", columns, left.numeric | right.numeric, left.optional | right.optional | missing)
        return self._write("joined", sentence, f"{left.name}.merge({right.name}, {how_text})", like)

    def _optional(self, p: Any) -> Solutions:
        left = self.frame(p.p1)
        if getattr(p.expr, "name", "") != "TrueFilter":
            raise Unsupported("optional part with a filter on the rest")
        try:
            return self._join(left, self.frame(p.p2), "left")
        except Unsupported as e:
            if e.reason == ABSENT:
                return left
            raise

    def _union(self, p: Any) -> Solutions:
        parts: list[Solutions] = []
        for side in (p.p1, p.p2):
            try:
                parts.append(self.frame(side))
            except Unsupported as e:  # a side about a relation that no node here has adds nothing
                if e.reason != ABSENT:
                    raise
        if not parts:
            raise Unsupported(ABSENT)
        if len(parts) == 1:
            return parts[0]
        a, b = parts
        common = set(a.columns) & set(b.columns)
        if any((c in a.numeric) != (c in b.numeric) for c in common):
            raise Unsupported("numbers and text in one column")
        columns = a.columns + tuple(c for c in b.columns if c not in a.columns)
        optional = a.optional | b.optional | (set(columns) - common)
        like = Solutions("", columns, a.numeric | b.numeric, optional)
        return self._write("either", "Put the rows of both under each other.",
                           f"pd.concat([{a.name}, {b.name}], ignore_index=True)", like)

    def _minus(self, p: Any) -> Solutions:
        left = self.frame(p.p1)
        try:
            right = self.frame(p.p2)
        except Unsupported as e:
            if e.reason == ABSENT:
                return left
            raise
        shared = [c for c in left.columns if c in right.columns]
        if not shared:
            return left
        if len(shared) > 1 or (left.optional | right.optional) & set(shared):
            raise Unsupported("MINUS over several variables")
        mask = f"~{left.name}[{shared[0]!r}].isin({right.name}[{shared[0]!r}])"
        return self._write("kept", f"Leave out rows whose {shared[0]} is in the other.",
                           f"{left.name}[{mask}]", left)

    def _values(self, p: Any) -> Solutions:
        columns = tuple(dict.fromkeys(str(v) for row in p.res for v in row))
        if any(len(row) != len(columns) for row in p.res):
            raise Unsupported("VALUES with UNDEF")
        data = {c: [operand(self.sets, row[Variable(c)]).value for row in p.res] for c in columns}
        words = f"Start from the given {' and '.join(columns)}."
        return self._write("given", words, f"pd.DataFrame({data!r})", Solutions("", columns, frozenset()))

    def _nested(self, p: Any) -> Solutions:
        return self.frame(p.p)

    # --- filters --------------------------------------------------------------------------------------

    def _filter(self, p: Any) -> Solutions:
        frame = self.frame(p.p)
        tests = [p.expr]
        if getattr(p.expr, "name", "") == "ConditionalAndExpression":
            tests = [p.expr.expr, *p.expr.other]
        for test in tests:
            if about_language(test):
                continue  # literals in other languages are not in the store
            words, mask = self.masks.test(frame, test)
            frame = self._write("kept", f"Keep the rows where {words}.", f"{frame.name}[{mask}]", frame)
        return frame

    # --- modifiers ------------------------------------------------------------------------------------

    def _extend(self, p: Any) -> Solutions:
        if not isinstance(p.expr, Variable):
            raise Unsupported("computed value")
        new, old = str(p.var), str(p.expr)
        if p.p.name == "AggregateJoin":
            return self._aggregate(p.p, new, old)
        frame = self.frame(p.p)
        column_of(frame, p.expr)
        columns = tuple(new if c == old else c for c in frame.columns)
        numeric = frozenset(new if c == old else c for c in frame.numeric)
        return self._write("renamed", f"Call {old} {new}.",
                           f"{frame.name}.rename(columns={{{old!r}: {new!r}}})", frame, columns, numeric)

    def _aggregate(self, p: Any, new: str, result: str) -> Solutions:
        if len(p.A) != 1 or str(p.A[0].res) != result or p.p.expr is not None:
            raise Unsupported("GROUP BY")
        one, frame = p.A[0], self.frame(p.p.p)
        how = AGGREGATES.get(aggregate_name(one))
        if how is None:
            raise Unsupported("aggregate", one.name)
        if not isinstance(one.vars, Variable):
            if how != "count":
                raise Unsupported("aggregate of an expression")
            cells = f"{frame.name}[{frame.columns[0]!r}].size" if not one.distinct else \
                f"len({frame.name}.drop_duplicates())"
            words = "Count the rows."
        else:
            column = column_of(frame, one.vars)
            if how in ("sum", "mean") and column not in frame.numeric:
                raise Unsupported("sum of text")
            cells = f"{frame.name}[{column!r}]"
            if how == "count":
                cells += ".nunique()" if one.distinct else ".count()"
            else:
                cells += f"{'.drop_duplicates()' if one.distinct else ''}.{how}()"
            words = f"{WORDS[how]} the {'distinct ' if one.distinct else ''}{column} values."
        number = how not in ("max", "min") or column in frame.numeric
        numeric = frozenset({new}) if number else frozenset()
        code = f"pd.DataFrame({{{new!r}: [{cells}]}})"
        return self._write(how, words, code, Solutions("", (new,), numeric))

    def _order(self, p: Any) -> Solutions:
        frame = self.frame(p.p)
        by = [column_of(frame, plain(c.expr)) for c in p.expr]
        if frame.optional & set(by):
            raise Unsupported("order by a value that may be missing")
        up = [c.order != "DESC" for c in p.expr]
        words = " and then ".join(f"{c}{'' if a else ', largest first'}" for c, a in zip(by, up, strict=True))
        return self._write("ordered", f"Sort by {words}.",
                           f"{frame.name}.sort_values({by!r}, ascending={up!r}, kind='stable')", frame)

    def _project(self, p: Any) -> Solutions:
        frame = self.frame(p.p)
        wanted = tuple(str(v) for v in p.PV)
        if missing := [v for v in wanted if v not in frame.columns]:
            raise Unsupported("projection of a variable without a pattern", ", ".join(missing))
        if wanted == frame.columns:
            return frame
        return self._write("answers", f"Keep only {' and '.join(wanted)}.", f"{frame.name}[{list(wanted)!r}]",
                           frame, wanted, frame.numeric & set(wanted))

    def _distinct(self, p: Any) -> Solutions:
        frame = self.frame(p.p)
        return self._write("distinct", "Remove duplicates.", f"{frame.name}.drop_duplicates()", frame)

    def _slice(self, p: Any) -> Solutions:
        frame = self.frame(p.p)
        start = p.start or 0
        end = "" if p.length is None else str(start + p.length)
        skip = f", after the first {start}" if start else ""
        words = f"Keep the first {p.length} rows{skip}." if end else f"Leave out the first {start} rows."
        return self._write("first", words, f"{frame.name}.iloc[{start or ''}:{end}]", frame)


def _flat(p: Any) -> tuple[list[Any], list[Any]]:
    """The triple patterns below nested joins, and their other parts."""
    if p.name == "BGP":
        return list(p.triples), []
    if p.name != "Join":
        return [], [p]
    (a, x), (b, y) = _flat(p.p1), _flat(p.p2)
    return a + b, x + y
