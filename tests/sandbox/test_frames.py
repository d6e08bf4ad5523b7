"""Frames cross in a neutral form and arrive as they left."""

from __future__ import annotations

import datetime as dt
import decimal
import gc
import weakref
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pandora_train.box.box import Box, BoxSet
from pandora_train.errors import UserError
from pandora_train.sandbox.frames import BoxEncoder, encode
from pandora_train.sandbox.inside import wire


def there(frame: pd.DataFrame) -> pd.DataFrame:
    sent = encode({"t": frame})
    return wire.frames(sent.description, bytearray(sent.block))["t"]


def python_text(frame: pd.DataFrame) -> pd.DataFrame:
    """The same frame with text stored as Python objects, as inside the sandbox."""
    text = pd.StringDtype("python", na_value=np.nan)
    return frame.astype({c: text for c in frame.columns if isinstance(frame[c].dtype, pd.StringDtype)})


@pytest.mark.parametrize("column", [
    [1, 2, 3], [1.5, np.nan, -0.0], [True, False, True], ["a", "b", "a"], ["a", None, ""], [None, None, None],
    pd.array([1, None, 3], dtype="Int64"), pd.array([1.5, None, 3], dtype="Float64"),
    pd.array([True, None, False], dtype="boolean"), pd.to_datetime(["2020-01-31", None, "2021-01-01"]),
    pd.to_datetime(["2020-01-31", None, "2021-01-01"]).tz_localize("Europe/Paris"),
    pd.to_timedelta(["1 day", None, "2 h"]), pd.Categorical(["a", None, "b"], ordered=True),
    np.array([1, 2, 3], dtype="int8"), np.array([1, 2, 3], dtype="uint64"), np.array([1, 2, 3], dtype="float32"),
], ids=str)
def test_a_column_arrives_as_it_left(column: Any) -> None:
    frame = pd.DataFrame({"c": column})
    pd.testing.assert_frame_equal(there(frame), python_text(frame), check_column_type=False, check_categorical=False)


def test_an_object_column_keeps_the_type_of_every_cell() -> None:
    values = [1, "a", 2.5, None, True, b"x", dt.date(2020, 1, 31), dt.time(5), decimal.Decimal("1.50"), 10**30,
              pd.Timestamp("2020-01-31 05:00"), pd.Timedelta("1 day"), dt.datetime(2020, 1, 1)]
    arrived = there(pd.DataFrame({"c": pd.Series(values, dtype=object)}))["c"].tolist()
    assert arrived == values
    assert [type(v) for v in arrived] == [type(v) for v in values]


def test_arrived_frames_can_be_written_to() -> None:
    frame = there(pd.DataFrame({"n": [1, 2], "t": ["a", "b"]}))
    frame.loc[0, "n"] = 9
    frame.loc[0, "t"] = "z"
    assert frame.to_numpy().tolist() == [[9, "z"], [2, "b"]]


def test_an_index_that_says_something_arrives() -> None:
    frame = pd.DataFrame({"n": [1, 2]}, index=["x", "y"])
    assert there(frame).index.tolist() == ["x", "y"]


def test_empty_frames_arrive() -> None:
    assert there(pd.DataFrame()).shape == (0, 0)
    assert there(pd.DataFrame({"a": pd.Series([], dtype="str")})).shape == (0, 1)
    assert there(pd.DataFrame(index=range(3))).shape == (3, 0)


def test_repeated_columns_are_the_users_error() -> None:
    with pytest.raises(UserError, match="two columns"):
        encode({"t": pd.DataFrame([[1, 2]], columns=["a", "a"])})


def test_cells_without_a_neutral_form_are_the_users_error() -> None:
    with pytest.raises(UserError, match="column 'c' holds a set"):
        encode({"t": pd.DataFrame({"c": pd.Series([{1}], dtype=object)})})


def test_text_is_the_same_bytes_whoever_stores_it() -> None:
    pytest.importorskip("pyarrow")
    arrow = pd.DataFrame({"c": pd.Series(["straße", None, "", "a"], dtype=pd.StringDtype("pyarrow", na_value=np.nan))})
    python = arrow.astype(pd.StringDtype("python", na_value=np.nan))
    assert encode({"t": arrow}) == encode({"t": python})


def test_arrow_columns_arrive_as_plain_ones() -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"n": pd.Series([1, None], dtype="int64[pyarrow]")})
    assert there(frame)["n"].isna().tolist() == [False, True]


def test_a_box_set_is_encoded_once_and_forgotten_with_it() -> None:
    encoder = BoxEncoder()
    boxes = BoxSet((Box("t", pd.DataFrame({"a": [1]})),))
    assert encoder(boxes) is encoder(boxes)
    gone = weakref.ref(boxes)
    del boxes
    gc.collect()
    assert gone() is None


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.one_of(st.none(), st.text()), st.one_of(st.none(), st.integers(-2**60, 2**60)),
                          st.floats(), st.booleans()), max_size=20))
def test_any_table_arrives_as_it_left(table: list[tuple[Any, ...]]) -> None:
    frame = pd.DataFrame({
        "s": pd.Series([r[0] for r in table], dtype=pd.StringDtype("python", na_value=np.nan)),
        "i": pd.array([r[1] for r in table], dtype="Int64"), "f": pd.array([r[2] for r in table], dtype="float64"),
        "b": pd.array([r[3] for r in table], dtype="bool")})
    pd.testing.assert_frame_equal(there(frame), frame, check_column_type=False)
