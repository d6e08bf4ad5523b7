"""How a table's cells are matched and read as numbers, chosen from what the column holds.

WikiTQ cells are text as written: ``1,234``, ``45%``, ``Italy (ITA)``. The code says what a careful person
would, no more: plain comparison where it works, else commas removed, else the first number in the cell.
"""

from __future__ import annotations

import re

import pandas as pd

from pandora_train.box.box import Box
from pandora_train.compile.writer import Unsupported

CellTest = tuple[str, str]
"""A condition in English, and as an expression."""
_WORDS = {"=": "is", "==": "is", "!=": "is not", "<": "is below", ">": "is above", "<=": "is at most",
          ">=": "is at least"}


class CellReader:
    """Column look-up, conditions and number reading for one BOX."""

    ROW_NUMBER = "row_number"

    def __init__(self, box: Box) -> None:
        self.box = box
        self.columns = [str(c) for c in box.frame.columns]

    def column(self, relation: str) -> str:
        """The column a relation names: equal, or the only one equal up to case and punctuation."""
        if relation in self.columns or relation == self.ROW_NUMBER:
            return relation
        alike = [c for c in self.columns if _plain(c) == _plain(relation)]
        if len(alike) != 1:
            raise Unsupported("unknown column", relation)
        return alike[0]

    def column_with(self, entity: str) -> str:
        """The first column with a cell that is ``entity``."""
        for column in self.columns:
            if any(_plain(str(v)) == _plain(entity) for v in self._cells(column)):
                return column
        raise Unsupported("unknown entity", entity)

    def numeric(self, column: str) -> bool:
        """Whether the column is typed as numbers."""
        return pd.api.types.is_numeric_dtype(self.box.frame[column])

    def numbers(self, series: str, column: str) -> str:
        """An expression for ``series`` (values of ``column``) as numbers, NaN where there is none."""
        if self.numeric(column):
            return series
        cells = [str(v) for v in self._cells(column)]
        if not cells:
            raise Unsupported("empty column", column)
        if all(re.fullmatch(r"-?[\d,]+(\.\d+)?", c) for c in cells):
            return f"pd.to_numeric({series}.str.replace(',', ''), errors='coerce')"
        if sum(bool(re.search(r"\d", c)) for c in cells) < len(cells) / 2:
            raise Unsupported("not numbers", column)
        if all(re.search(r"(?<!\d)\d{4}(?!\d)", c) for c in cells if re.search(r"\d", c)):
            return rf"{series}.str.extract(r'(?<!\d)(\d{{4}})(?!\d)')[0].astype(float)"
        cleaned = f"{series}.str.replace(',', '')" if any("," in c for c in cells) else series
        return rf"{cleaned}.str.extract(r'(-?\d+(?:\.\d+)?)')[0].astype(float)"

    def condition(self, table: str, column: str, operator: str, value: str) -> CellTest:
        """``column = 'value'`` or ``!=``, or any comparison of the row number, for a literal value."""
        if column == self.ROW_NUMBER:
            return self.against(f"{table}.index + 1", "the row number", operator, literal(value))
        english, expression = self._equal(table, column, value)
        if operator == "!=":
            return english.replace(" is ", " is not ", 1).replace(" contains ", " does not contain ", 1), \
                   f"~({expression})" if " " in expression else f"~{expression}"
        return english, expression

    def against(self, numbers: str, column: str, operator: str, number: str) -> CellTest:
        """``numbers operator number``, where ``numbers`` reads ``column``."""
        expression = f"{numbers} {'==' if operator == '=' else operator} {number}"
        shown = number if re.fullmatch(r"-?[\d.]+", number) else "that value"
        return f"{column} {_WORDS[operator]} {shown}", expression

    def _equal(self, table: str, column: str, value: str) -> CellTest:
        cells = [str(v) for v in self._cells(column)]
        series = f"{table}[{column!r}]"
        if self.numeric(column):
            return f"{column} is {literal(value)}", f"{series} == {literal(value)}"
        if value in cells:
            return f"{column} is {value!r}", f"{series} == {value!r}"
        folded = sorted({c for c in cells if _plain(c) == _plain(value)})
        if len(folded) == 1:
            return f"{column} is {folded[0]!r}", f"{series} == {folded[0]!r}"
        if value.strip() and any(value.lower() in c.lower() for c in cells):
            return (f"{column} contains {value!r}",
                    f"{series}.str.contains({value!r}, case=False, regex=False, na=False)")
        raise Unsupported("unknown value", f"{column} = {value}")

    def _cells(self, column: str) -> list[object]:
        return list(self.box.frame[column].dropna())


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def literal(value: str) -> str:
    """A number written in a program (``50,000``, ``1989``); a year inside a longer date counts."""
    cleaned = value.strip().replace(",", "").rstrip("%")
    if not re.fullmatch(r"-?\d+(\.\d+)?", cleaned):
        year = re.findall(r"(?<!\d)\d{4}(?!\d)", value)
        if len(year) != 1:
            raise Unsupported("not a number", value)
        return str(year[0])
    return cleaned
