"""Variable names for BOXes: valid, free, and none that generated code needs itself."""

import builtins
import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pandora_train.box import identifier


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("singer", "singer"), ("Order Items", "Order_Items"), ("list", "list_"), ("class", "class_"), ("pd", "pd_"),
        ("result", "result_"), ("2 fast", "t_2_fast"), ("", "Table"), ("--", "Table"), ("straße", "straße"),
        ("\ufb01eld", "field"), ("x\u00b2", "x2"), ("license", "license"), ("a;import os", "a_import_os"),
    ],
)
def test_names_stay_near_the_original(text: str, name: str) -> None:
    assert identifier(text) == name


@given(st.lists(st.text(max_size=8)))
def test_names_are_unique_variables_that_python_reads_back(texts: list[str]) -> None:
    taken: set[str] = set()
    names = [identifier(t, taken) for t in texts]
    assert len(set(names)) == len(names)
    space: dict[str, int] = {}
    for number, name in enumerate(names):
        assert not keyword.iskeyword(name)
        assert name not in {"pd", "np", "result", "list", "sum", "sorted"}
        exec(f"{name} = {number}", space)
    assert [space[n] for n in names] == list(range(len(names)))
    assert not set(names) & (set(dir(builtins)) - {"copyright", "credits", "exit", "help", "license", "quit"})
