"""Work of the kind that generated code does, done before there is any.

:func:`load` once in the zygote, so that lazily imported modules are there. :func:`touch` in every child while
it waits for a request: a fork copies each page of memory when it first writes to it, a few microseconds a
page, so those that every execution writes to are written to before the clock runs. No more than those: the
rest would cost programs that don't need them.
"""

from __future__ import annotations

import json
import marshal
import struct

import pandas as pd

from . import cells, hints, wire

_DESCRIPTION = marshal.dumps([("t", 3, None, ["k", "x", "n"], [
    ("text", ["a", "b"], ("plain", "<i4", 3, 0)), ("plain", "<f8", 3, 16), ("plain", "<i8", 3, 40)])])
_BLOCK = struct.pack("<3i4x3d3q", 0, 1, 0, 1.0, 2.0, 3.0, 1, 2, 3)
_CODE = "result = t['k'].tolist()"


def touch() -> None:
    """The way in and out, with a program that does next to nothing."""
    names = {"pd": pd, **wire.frames(_DESCRIPTION, bytearray(_BLOCK))}
    exec(compile(_CODE, "<warm-up>", "exec"), names)
    _out(names["result"])


def _out(result: object) -> None:
    json.dumps(cells.rows(result, 1000, 100_000)[0], ensure_ascii=False)


def load() -> None:
    """Group-by, merge, sort, filter, text and dates, a hint, and the way of results out."""
    left = pd.DataFrame({"k": ["a", "b", "a"], "x": [1.0, None, 3.0], "n": [1, 2, 3],
                         "d": ["2020-01-31", "2021-03-03", None]})
    right = pd.DataFrame({"k": ["a", "b"], "name": ["Anna", "Bob"]})
    both = left.merge(right, on="k", how="left").sort_values(["k", "x"], ascending=[True, False])
    for result in (
        both.groupby("k").agg(total=("x", "sum"), rows=("n", "count")).reset_index(),
        both[both["name"].str.contains("A", case=False) & both["x"].gt(0)].head(2)[["k", "x"]],
        both["n"].astype("Int64").sum(), both["k"].value_counts(), both["k"].unique().tolist(),
        pd.to_datetime(both["d"], format="mixed").dt.year.tolist(),
        both.drop_duplicates("k").pivot_table(index="k", values="n", aggfunc="max"),
        pd.to_numeric(both["n"].astype(str), errors="coerce").nlargest(1),
        both.loc[both["k"].isin(["a"]), "x"].fillna(0).mean(),
    ):
        _out(result)
    for _ in range(3):
        touch()
    code = "result = t[t['k'] == 'aa']['xx']"
    frames = {"t": left}
    hints.for_error(KeyError("xx"), "'xx'", 1, code, dict(frames), frames)
    hints.for_empty(code, dict(frames), frames)
