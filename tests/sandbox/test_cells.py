"""``result`` becomes rows of text: one property a test. Runs the child's own code in this process."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pandora_train.sandbox.inside import cells


def rows(result: Any) -> list[list[str | None]]:
    return cells.rows(result, 1000, 1_000_000)[0]


def shape(result: Any) -> str:
    return cells.rows(result, 1000, 1_000_000)[2]


def types(result: Any) -> list[str]:
    return cells.rows(result, 1000, 1_000_000)[1]


@pytest.mark.parametrize(("value", "text"), [
    (3, "3"), (6.0, "6.0"), (True, "True"), ("", ""), (" a ", " a "), (np.int64(3), "3"), (np.float64(0.1), "0.1"),
    (np.float32(0.1), "0.1"), (np.bool_(False), "False"), (decimal.Decimal("1.50"), "1.50"), (b"ab", "ab"),
    (dt.date(2020, 1, 31), "2020-01-31"), (pd.Timestamp("2020-01-31"), "2020-01-31"),
    (dt.datetime(2020, 1, 31, 5), "2020-01-31T05:00:00"), (np.datetime64("2020-01-31"), "2020-01-31"),
    (pd.Timestamp("2020-01-31", tz="UTC"), "2020-01-31T00:00:00+00:00"), (dt.time(5, 6), "05:06:00"),
    (float("inf"), "inf"), (1e300, "1e+300"), (10**30, "1" + "0" * 30), (-0.0, "-0.0"),
])
def test_a_scalar_is_one_row_of_one_cell(value: Any, text: str) -> None:
    assert rows(value) == [[text]]
    assert shape(value) == "scalar"


@pytest.mark.parametrize("missing", [None, math.nan, np.nan, pd.NaT, pd.NA, np.datetime64("NaT"), np.float32("nan"),
                                     decimal.Decimal("nan")])
def test_what_is_missing_becomes_null(missing: Any) -> None:
    assert rows([[missing, 1]]) == [[None, "1"]]


@pytest.mark.parametrize(("result", "expected", "kind"), [
    ([["a", 1]], [["a", "1"]], "rows"), ([], [], "rows"), ([[]], [[]], "rows"), (["a", 2], [["a"], ["2"]], "list"),
    (pd.Series([1, 2], index=["x", "y"]), [["1"], ["2"]], "series"),
    (pd.DataFrame({"k": ["a"], "v": [1.5]}, index=[7]), [["a", "1.5"]], "frame"),
    (pd.DataFrame(), [], "frame"), (pd.DataFrame({"k": []}), [], "frame"),
    ([("a", 1)], [["a", "1"]], "other"), (("a", "b"), [["a"], ["b"]], "other"), ({"b", "a"}, [["a"], ["b"]], "other"),
    ({"a": 1}, [["a", "1"]], "other"), ({"a": [1, 2]}, [["a", "1", "2"]], "other"),
    (np.array([1, 2]), [["1"], ["2"]], "other"), (np.array([[1, 2]]), [["1", "2"]], "other"),
    (np.array(5), [["5"]], "scalar"), (pd.Index(["a"]), [["a"]], "other"),
    (pd.MultiIndex.from_tuples([("a", 1)]), [["a", "1"]], "other"), (range(2), [["0"], ["1"]], "other"),
    ((x for x in "ab"), [["a"], ["b"]], "other"), ({"a": 1}.keys(), [["a"]], "other"),
    ([{"a": 1, "b": 2}], [["1", "2"]], "other"), ([[pd.Series([5])]], [["5"]], "other"),
    ([[np.array([5])]], [["5"]], "other"), ([[["x"]]], [["x"]], "other"),
    (pd.Categorical(["a", "b"]), [["a"], ["b"]], "other"),
])
def test_every_shape_is_brought_to_rows(result: Any, expected: list[list[str]], kind: str) -> None:
    if isinstance(result, (type(x for x in ""),)):
        found, _, found_kind = cells.rows(result, 10, 1000)
        assert (found, found_kind) == (expected, kind)
    else:
        assert (rows(result), shape(result)) == (expected, kind)


@pytest.mark.parametrize(("column", "kind"), [
    ([1, 2], "int"), ([1, None], "int"), ([1, 2.5], "float"), ([True], "bool"), (["a"], "str"),
    ([dt.date(2020, 1, 1)], "date"), ([None], "null"), ([1, "a"], "mixed"), ([True, 1], "mixed"),
])
def test_the_type_of_a_column(column: list[Any], kind: str) -> None:
    assert types([[v] for v in column]) == [kind]


def test_an_integer_column_with_missing_values_stays_integer() -> None:
    frame = pd.DataFrame({"n": pd.array([1, None], dtype="Int64")})
    assert rows(frame) == [["1"], [None]]


def test_midnights_are_dates_only_when_the_whole_column_is_midnights() -> None:
    assert rows(pd.Series(pd.to_datetime(["2020-01-31", None]))) == [["2020-01-31"], [None]]
    mixed = pd.Series(pd.to_datetime(["2020-01-31 00:00", "2020-01-31 05:00"]))
    assert rows(mixed) == [["2020-01-31T00:00:00"], ["2020-01-31T05:00:00"]]


@pytest.mark.parametrize("forgotten", [len, [].append, pd.Series([1]).sum, int, math, lambda: 1])
def test_a_forgotten_call_is_an_error(forgotten: Any) -> None:
    with pytest.raises(TypeError, match="not a value"):
        rows(forgotten)


def test_a_group_by_without_aggregation_is_an_error() -> None:
    with pytest.raises(TypeError, match="without an aggregation"):
        rows(pd.DataFrame({"k": [1]}).groupby("k"))


def test_too_many_rows_and_too_much_text_are_refused() -> None:
    with pytest.raises(cells.TooMuch, match="rows"):
        cells.rows([[1]] * 11, 10, 1000)
    with pytest.raises(cells.TooMuch, match="bytes"):
        cells.rows([["x" * 2000]], 10, 1000)
    with pytest.raises(cells.TooMuch, match="columns"):
        cells.rows([[1] * 5001], 10, 1_000_000)


@given(st.lists(st.lists(st.one_of(st.none(), st.text(), st.integers(-10**30, 10**30), st.booleans()), max_size=4)))
def test_rows_keep_their_number_their_length_and_their_texts(result: list[list[Any]]) -> None:
    found = rows(result) if len(result) <= 1000 else []
    assert [len(r) for r in found] == [len(r) for r in result]
    for row, line in zip(result, found, strict=True):
        assert line == [None if v is None else str(v) for v in row]


@given(st.floats(allow_nan=False))
def test_a_float_survives_as_text(value: float) -> None:
    text = rows(value)[0][0]
    assert text is not None
    assert float(text) == value
