"""Step programs over one table (TrustUQA's, for WikiTQ questions) become pandas code.

An output is a set of rows, the values of one column, or a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pandora_train.box.box import BoxSet
from pandora_train.compile.programs.cells import CellReader, CellTest, literal
from pandora_train.compile.programs.language import Argument, StepQuery, parse_program, reference
from pandora_train.compile.writer import Compiled, Unsupported, Writer


@dataclass(frozen=True)
class Output:
    """What a query gives: a frame of rows, a column of values (with their frame), or a number."""

    kind: Literal["rows", "values", "number"]
    name: str
    """A variable or short expression."""
    frame: str = ""
    column: str = ""


def compile_table_program(program: str, boxes: BoxSet) -> Compiled:
    """Write a step program as pandas over a single table; raises :class:`Unsupported` for the rest."""
    if len(boxes.boxes) != 1:
        raise Unsupported("not a single table")
    queries = _needed(parse_program(program))
    compiler = _TableProgram(boxes)
    for query in queries:
        compiler.run(query)
    return compiler.finish(queries[-1].number)


def _needed(queries: list[StepQuery]) -> list[StepQuery]:
    """The queries that the last one needs: a careful person writes no dead code."""
    by_number = {q.number: q for q in queries}
    needed, stack = set(), [queries[-1].number]
    while stack:
        number = stack.pop()
        if number in needed:
            continue
        if number not in by_number:
            raise Unsupported("unknown output", str(number))
        needed.add(number)
        named = (reference(a.value) for a in by_number[number].arguments)
        references = [n for n in named if n is not None]
        stack += references
        if any(n >= number for n in references):
            raise Unsupported("output used before it is made")
    return [q for q in queries if q.number in needed]


class _TableProgram:
    def __init__(self, boxes: BoxSet) -> None:
        self.box = boxes.boxes[0]
        self.table = self.box.name
        self.cells = CellReader(self.box)
        self.writer = Writer(boxes)
        self.outputs: dict[int, Output] = {}

    def run(self, query: StepQuery) -> None:
        """Compile one query and remember its output."""
        functions: dict[str, Callable[[StepQuery], Output]] = {
            "get_information": self._get, "count": self._count, "max": self._extreme, "min": self._extreme,
            "next_row": self._neighbour, "previous_row": self._neighbour,
            "set_intersection": self._combine, "set_difference": self._combine, "set_union": self._combine,
            "calculate_difference": self._difference, "subtract": self._difference,
            "difference": self._difference, "subtraction": self._difference,
            "sum": self._fold, "average": self._fold, "mode": self._mode, "most": self._mode,
            "first": self._first, "unique": self._set,
        }
        if query.function not in functions:
            raise Unsupported("operation", query.function)
        self.outputs[query.number] = functions[query.function](query)

    def finish(self, number: int) -> Compiled:
        """End the program with ``result``."""
        last = self.outputs[number]
        if last.kind == "rows":
            raise Unsupported("the answer is rows, no column is named")
        if last.kind == "number":
            self.writer.step("Return that value.", f"result = [[{last.name}]]")
        else:
            self.writer.step(f"Return the values of {last.column}.",
                             f"result = [[value] for value in {last.name}.unique()]")
        return self.writer.compiled()

    # --- look-ups

    def _get(self, query: StepQuery) -> Output:
        column = self.cells.column(query.get("relation").value)
        keys = {a.key for a in query.arguments}
        if keys == {"relation"}:
            return _column(self.table, column)
        if keys == {"relation", "head_entity"}:
            return _column(self._rows_of(query.get("head_entity").value), column)
        if keys == {"relation", "tail_entity"}:
            return self._filter(column, query.get("tail_entity"))
        raise Unsupported("arguments", ", ".join(sorted(keys)))

    def _rows_of(self, entity: str) -> str:
        """The frame whose rows an entity stands for: an earlier output, or the rows that hold the text."""
        output = self._reference(entity)
        if output is not None:
            if output.kind == "number":
                raise Unsupported("a number as rows")
            return output.name if output.kind == "rows" else output.frame
        column = self.cells.column_with(entity)
        return self._keep(entity, self.cells.condition(self.table, column, "=", entity))

    def _filter(self, column: str, argument: Argument) -> Output:
        output = self._reference(argument.value)
        if output is None:
            if argument.operator in ("<", ">", "<=", ">=") and column != CellReader.ROW_NUMBER:
                condition = self._against(column, argument.operator, literal(argument.value))
            else:
                condition = self.cells.condition(self.table, column, argument.operator, argument.value)
            return Output("rows", self._keep(argument.value, condition))
        if argument.operator == "=" and output.kind == "values":
            text = f"{self.table}[{column!r}].isin({output.name})"
            return Output("rows", self._keep(column, (f"{column} is one of those values", text)))
        if output.kind == "rows" and column == CellReader.ROW_NUMBER and argument.operator == "=":
            return output
        if output.kind == "rows":
            raise Unsupported("rows as a value")
        value = output.name if output.kind == "number" else self._number(output)
        if argument.operator == "=" and output.column == column and not self.cells.numeric(column):
            condition = (f"{column} is that value", f"{self.table}[{column!r}] == {value}")
        else:
            condition = self._against(column, argument.operator, value)
        return Output("rows", self._keep(column, condition))

    def _against(self, column: str, operator: str, number: str) -> CellTest:
        """``column operator number`` where ``number`` is a number or a variable that holds one."""
        if column == CellReader.ROW_NUMBER:
            raise Unsupported("row number against a value")
        numbers = self._numbers(f"{self.table}[{column!r}]", column)
        return self.cells.against(numbers, column, operator, number)

    def _numbers(self, series: str, column: str) -> str:
        """``series`` as numbers: itself where the column is typed, else a variable of its own."""
        expression = self.cells.numbers(series, column)
        if expression == series:
            return series
        name = self.writer.name(_word(column) or "numbers")
        self.writer.step(f"Read {column} as numbers.", f"{name} = {expression}")
        return name

    def _keep(self, base: str, condition: CellTest) -> str:
        name = self.writer.name(_word(base) + "_rows")
        self.writer.step(f"Keep the rows of {self.table} where {condition[0]}.",
                         f"{name} = {self.table}[{condition[1]}]")
        return name

    def _reference(self, value: str) -> Output | None:
        number = reference(value)
        if number is not None and number not in self.outputs:  # two queries may have one number
            raise Unsupported("output used before it is made")
        return None if number is None else self.outputs[number]

    def _set(self, query: StepQuery, *keys: str) -> Output:
        output = self._reference(query.get(*(keys or ("set",))).value)
        if output is None:
            raise Unsupported("a literal as a set")
        return output

    # --- operations

    def _count(self, query: StepQuery) -> Output:
        of = self._set(query)
        if of.kind == "number":
            raise Unsupported("count of a number")
        name = self.writer.name("count")
        if of.kind == "rows":
            self.writer.step("Count these rows.", f"{name} = len({of.name})")
        else:
            self.writer.step(f"Count the different values of {of.column}.", f"{name} = {of.name}.nunique()")
        return Output("number", name)

    def _extreme(self, query: StepQuery) -> Output:
        of = self._set(query)
        if of.kind == "rows":  # the largest row number is the last row
            word, method = ("last", "tail") if query.function == "max" else ("first", "head")
            name = self.writer.name(f"{word}_row")
            self.writer.step(f"Take the {word} of these rows.", f"{name} = {of.name}.{method}(1)")
            return Output("rows", name)
        of = self._values(of)
        word = "largest" if query.function == "max" else "smallest"
        name = self.writer.name(f"{word}_{_word(of.column)}")
        sentence = f"Find the {word} value of {of.column}."
        if self.cells.numeric(of.column):
            self.writer.step(sentence, f"{name} = {of.name}.{query.function}()")
        else:  # the answer is the cell as written, so the number only chooses its row
            numbers = self._numbers(of.name, of.column)
            cell = f"{of.frame}.loc[{numbers}.idx{query.function}(), {of.column!r}]" if of.frame else \
                f"{of.name}[{numbers}.idx{query.function}()]"
            self.writer.step(sentence, f"{name} = {cell}")
        return Output("number", name, column=of.column)

    def _neighbour(self, query: StepQuery) -> Output:
        of = self._set(query)
        frame = of.name if of.kind == "rows" else of.frame
        if not frame:
            raise Unsupported("rows beside a number")
        forward = query.function == "next_row"
        name = self.writer.name("next_rows" if forward else "previous_rows")
        word = "after" if forward else "before"
        shifted = f"{frame}.index {'+' if forward else '-'} 1"
        self.writer.step(f"Take the row right {word} each of these.",
                         f"{name} = {self.table}[{self.table}.index.isin({shifted})]")
        return Output("rows", name)

    def _combine(self, query: StepQuery) -> Output:
        a, b = self._set(query, "set1"), self._set(query, "set2")
        if a.kind != b.kind or a.kind == "number":
            raise Unsupported("sets of two kinds")
        ending = ".index" if a.kind == "rows" else ""
        within = f"{a.name}{ending}.isin({b.name}{ending})"
        names = {"set_intersection": "both", "set_difference": "rest", "set_union": "either"}
        name = self.writer.name(names[query.function])
        if query.function == "set_intersection":
            self.writer.step("Keep what is in both sets.", f"{name} = {a.name}[{within}]")
        elif query.function == "set_difference":
            self.writer.step("Keep what is only in the first set.", f"{name} = {a.name}[~{within}]")
        else:
            tail = ".drop_duplicates()" if a.kind == "values" else ""
            joined = f"pd.concat([{a.name}, {b.name}]){tail}"
            if a.kind == "rows":
                joined = (f"{self.table}[{self.table}.index.isin({a.name}.index)"
                          f" | {self.table}.index.isin({b.name}.index)]")
            self.writer.step("Put both sets together.", f"{name} = {joined}")
        return Output(a.kind, name, a.frame, a.column)

    def _difference(self, query: StepQuery) -> Output:
        if len(query.arguments) != 2:
            raise Unsupported("arguments", query.function)
        a, b = (self._operand(x.value) for x in query.arguments)
        name = self.writer.name("difference")
        self.writer.step("Take the difference of the two values.", f"{name} = abs({a} - {b})")
        return Output("number", name)

    def _operand(self, value: str) -> str:
        output = self._reference(value)
        if output is None:
            if not re.fullmatch(r"-?\d+(\.\d+)?", value):
                raise Unsupported("text in arithmetic", value)
            return value
        if output.kind == "values":
            return self._number(output)
        if output.kind == "rows" or (output.column and not self.cells.numeric(output.column)):
            raise Unsupported("text in arithmetic")
        return output.name

    def _number(self, of: Output) -> str:
        """The first value of a column, as a number in a variable of its own."""
        name = self.writer.name(_word(of.column) or "number")
        self.writer.step(f"Read {of.column} as a number.",
                         f"{name} = {self.cells.numbers(of.name, of.column)}.iloc[0]")
        return name

    def _fold(self, query: StepQuery) -> Output:
        of = self._values(self._set(query))
        word, method = ("total", "sum") if query.function == "sum" else ("average", "mean")
        name = self.writer.name(f"{word}_{_word(of.column)}")
        numbers = self._numbers(of.name, of.column)
        self.writer.step(f"Take the {word} of {of.column}.", f"{name} = {numbers}.{method}()")
        return Output("number", name)

    def _mode(self, query: StepQuery) -> Output:
        of = self._values(self._set(query))
        name = self.writer.name(f"most_common_{_word(of.column)}")
        self.writer.step(f"Find the most common value of {of.column}.", f"{name} = {of.name}.mode()")
        return Output("values", name, column=of.column)

    def _first(self, query: StepQuery) -> Output:
        of = self._set(query)
        name = self.writer.name("first")
        if of.kind == "number":
            raise Unsupported("first of a number")
        self.writer.step("Take the first of them.", f"{name} = {of.name}.head(1)")
        frame = of.frame if of.kind == "values" else ""
        return Output(of.kind, name, frame, of.column)

    def _values(self, of: Output) -> Output:
        if of.kind != "values":
            raise Unsupported("no column is named")
        return of


def _column(frame: str, column: str) -> Output:
    """One column of a frame; row numbers stand for the rows themselves."""
    if column == CellReader.ROW_NUMBER:
        return Output("rows", frame)
    return Output("values", f"{frame}[{column!r}]", frame, column)


def _word(text: str) -> str:
    """A short variable word from a value or column name."""
    words = re.findall(r"[A-Za-z]+", text)
    return "_".join(words[:2]).lower() or "matching"
