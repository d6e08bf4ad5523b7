"""Work of the kind that generated code does, done once so that children find its modules loaded."""

from __future__ import annotations

import json

import pandas as pd

from . import cells


def run() -> None:
    """Group-by, merge, sort, filter, text and dates over small frames, and the way of a result out."""
    left = pd.DataFrame({"k": ["a", "b", "a"], "x": [1.0, None, 3.0], "n": [1, 2, 3],
                         "d": ["2020-01-31", "2021-03-03", None]})
    right = pd.DataFrame({"k": ["a", "b"], "name": ["Anna", "Bob"]})
    both = left.merge(right, on="k", how="left").sort_values(["k", "x"], ascending=[True, False])
    results = [
        both.groupby("k").agg(total=("x", "sum"), rows=("n", "count")).reset_index(),
        both[both["name"].str.contains("A", case=False) & both["x"].gt(0)].head(2)[["k", "x"]],
        both["n"].astype("Int64").sum(), both["k"].value_counts(), both["k"].unique().tolist(),
        pd.to_datetime(both["d"], format="mixed").dt.year.tolist(),
        both.drop_duplicates("k").pivot_table(index="k", values="n", aggfunc="max"),
        pd.to_numeric(both["n"].astype(str), errors="coerce").nlargest(1),
        both.loc[both["k"].isin(["a"]), "x"].fillna(0).mean(),
    ]
    for result in results:
        json.dumps(cells.rows(result, 1000, 100_000)[0])
