"""Errors and empty results come with help that a model can act on."""

from __future__ import annotations

import pandas as pd
import pytest

from pandora_train.box.box import Box, BoxSet
from pandora_train.sandbox import Sandbox

BOXES = BoxSet((
    Box("singer", pd.DataFrame({"Singer_ID": [1, 2, 3], "Name": ["Ann", "Bob", "Cid"], "n": [1, 2, 3],
                                "Country": ["France", "United States", "Spain"], "Age": ["30", "41", "25"],
                                "born": ["2020-01-01", "2020-02-01", "2021-01-01"]})),
    Box("concert", pd.DataFrame({"concert_ID": [1, 2], "Theme": ["x", "y"], "singer": ["1", "2"]})),
))


@pytest.mark.parametrize(("code", "said"), [
    ("result = singer['name']", "nearest: singer['Name']"),
    ("result = singer[['Name', 'Agee']]", "nearest: singer['Age']"),
    ("result = singer.groupby('country').size()", "nearest: singer['Country']"),
    ("result = singer['Theme']", "'Theme' is a column of concert"),
    ("result = singer['concert']", "'concert' is a BOX"),
    ("result = singer['name']", "columns of singer: 'Singer_ID', 'Name'"),
    ("result = singer.pivot(index='Name', columns='Cuntry', values='n')", "nearest: singer['Country']"),
    ("result = singer.loc[99]", "use .iloc for positions"),
    ("result = singers.Name", "nearest: singer;"),
    ("result = Name", "write singer['Name']"),
    ("x = 1", "assign the answer to result"),
    ("result = singer.append(singer)", "use pd.concat"),
    ("result = singer.applymap(str)", "use .map(f)"),
    ("result = singer.iteritems()", "use .items()"),
    ("result = singer.ix[0]", "use .loc or .iloc"),
    ("result = np.product([2, 3])", "use np.prod"),
    ("result = singer.Nme", "nearest: singer['Name']"),
    ("result = singer.fillna(method='ffill')", ".ffill() or .bfill()"),
    ("result = singer.groupby('Name', axis=1).size()", "no axis= here"),
    ("result = pd.date_range('2020', periods=2, freq='M')", "spelled 'ME'"),
    ("result = singer.set_index(pd.to_datetime(singer.born)).resample('Q').size()", "spelled 'QE'"),
    ("result = singer[singer['Age'] > 30]", "singer['Age'] str"),
    ("result = singer[singer['Age'] > 30]", "pd.to_numeric"),
    ("result = singer['Age'].mean()", "pd.to_numeric"),
    ("result = singer['n'] + singer['Name']", "don't mix"),
    ("result = singer.merge(concert, left_on='Singer_ID', right_on='singer')", "differ in dtype"),
    ("result = singer.n.str.lower()", "only text has .str"),
    ("result = singer.born.dt.year", "pd.to_datetime"),
    ("result = singer[singer.n > 1 and singer.n < 3]", "combine conditions with &"),
    ("singer[singer.n > 1]['Age'] = 3", "frame.loc[rows, 'column'] = value"),
    ("result = singer[singer.Country == 'france'].iloc[0]", "nearest 'France'"),
    ("result = pd.read_csv('singer.csv')", "already loaded: singer, concert"),
    ("import sklearn", "only pandas, numpy"),
    ("import threading\nthreading.Thread(target=print).start()", "no threads"),
    ("result = singer.Name.tolist", "parentheses of a call"),
])
def test_an_error_has_a_hint(sandbox: Sandbox, code: str, said: str) -> None:
    error = sandbox.run(BOXES, code).error
    assert error
    assert said in error.hint, error


@pytest.mark.parametrize(("condition", "said"), [
    ("singer.Country == 'france'", "singer['Country'] == 'france': no such value, nearest 'France'"),
    ("singer['Country'] == 'USA'", "nearest 'United States'"),
    ("singer['Country'].isin(['Frnace'])", "in 'Frnace': no such value, nearest 'France'"),
    ("singer['Country'].str.contains('franc')", "contains 'franc'"),
    ("singer['Name'] == 'zzzzzz'", "no such value, values are 'Ann', 'Bob', 'Cid'"),
    ("singer.n > 50", "values lie between 1 and 3"),
    ("50 < singer.n", "singer['n'] > 50: no row"),
    ("singer['Age'] == 30", "the column is text (str), compare with '30'"),
    ("singer['n'] == '2'", "compare with a number"),
    ("(singer.Country == 'France') & (singer.n == 3)", "no row meets all conditions"),
])
def test_an_empty_result_tells_the_values_that_exist(sandbox: Sandbox, condition: str, said: str) -> None:
    execution = sandbox.run(BOXES, f"result = singer[{condition}]['Name'].tolist()")
    assert execution.empty
    assert said in execution.hint


def test_filters_are_seen_through_variables_and_queries(sandbox: Sandbox) -> None:
    by_name = sandbox.run(BOXES, "wanted = 'Spian'\nresult = singer[singer.Country == wanted].Name")
    assert "nearest 'Spain'" in by_name.hint
    by_query = sandbox.run(BOXES, "result = singer.query(\"Country == 'Spian'\").Name")
    assert "nearest 'Spain'" in by_query.hint


def test_a_result_with_rows_has_no_hint(sandbox: Sandbox) -> None:
    assert sandbox.run(BOXES, "result = singer[singer.n > 1].Name").hint == ""


def test_the_line_is_the_innermost_of_the_code(sandbox: Sandbox) -> None:
    code = "def f(t):\n    return t['nope']\n\nresult = f(singer)"
    error = sandbox.run(BOXES, code).error
    assert error
    assert (error.type, error.line) == ("KeyError", 2)


def test_a_hostile_column_name_is_only_text_in_a_hint(sandbox: Sandbox) -> None:
    boxes = BoxSet((Box("t", pd.DataFrame({"a\x1b[2J'); import os #": [1]})),))
    error = sandbox.run(boxes, "result = t['a']").error
    assert error
    assert "\x1b" not in error.hint
