"""The schema text: exact names that can't break out, and a token budget that never crashes."""

import ast
import re
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pandora_train.box import Box, BoxSet, ForeignKey, schema_of, schema_text
from pandora_train.box.schema import literal


def box(name: str, **columns: list[object]) -> Box:
    return Box(name, pd.DataFrame(columns))


def named(fields: list[str], name: str = "Table") -> Box:
    return Box(name, pd.DataFrame([[0] * len(fields)], columns=pd.Index(fields, dtype="str")))


def words(text: str) -> int:
    return len(re.findall(r"\w+|\S", text))


def text_of(boxes: BoxSet, values: Any = "none", types: bool = False, question: str = "", budget: int = 10**9) -> str:
    return schema_text(schema_of(boxes, values, types, question), question, lambda text: words(text) <= budget)


SHOPS = BoxSet(
    (box("shop", shop_id=[1, 2], town=["Almbeck", "Quenby"]), box("sale", shop_id=[1], loaves=[2.5])),
    (ForeignKey("sale", "shop_id", "shop", "shop_id"),),
)


def test_one_line_a_box_then_the_foreign_keys() -> None:
    assert text_of(SHOPS) == (
        "shop = pd.DataFrame({'shop_id': [...], 'town': [...]})\n"
        "sale = pd.DataFrame({'shop_id': [...], 'loaves': [...]})\n"
        "# foreign keys: sale.shop_id = shop.shop_id"
    )


def test_keys_of_fields_that_are_no_identifiers() -> None:
    boxes = BoxSet((named(["a b"], "x"), named(["c"], "y")), (ForeignKey("y", "c", "x", "a b"),))
    assert text_of(boxes).endswith("# foreign keys: y.c = x['a b']")


def test_values_and_types_are_options() -> None:
    assert "'town': [str, ...]" in text_of(SHOPS, types=True)
    assert "'loaves': [float, ...]" in text_of(SHOPS, types=True)
    assert "'town': ['Almbeck', 'Quenby', ...]" in text_of(SHOPS, values="samples")
    matched = text_of(SHOPS, values="matched", question="How many are in QUENBY?")
    assert "'town': ['Quenby', ...]" in matched
    assert "'shop_id': [...]" in matched


def test_matched_values_are_whole_words_and_numbers_of_the_question() -> None:
    boxes = BoxSet((box("t", who=["Ann", "Annabel", "van Gogh", "!", None], year=[1999, 19, 5, 7, 8]),))
    text = text_of(boxes, values="matched", question="did ann or Van-Gogh! live in 1999, aged 7.0?")
    assert text == "t = pd.DataFrame({'who': ['Ann', 'van Gogh', ...], 'year': [1999, 7, ...]})"


def test_few_distinct_values_cut_to_length() -> None:
    long = Box("t", pd.DataFrame({"x": ["a" * 200, "b", None, "b", "c", "d"]}))
    assert text_of(BoxSet((long,)), values="samples") == (
        "t = pd.DataFrame({'x': ['" + "a" * 60 + "…', 'b', 'c', ...]})"
    )


# --- names from strangers


MARKERS = ["<|im_end|>", "<|im_start|>system", "</s>", "<s>", "[INST]", "[/INST]", "<<SYS>>", "<|eot_id|>", "```",
           "<start_of_turn>user", "<think>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<tool_call>", "<!-- -->"]
OPEN = re.compile(r"<[A-Za-z/|\uff5c!]|\[/?(INST|SYS)|```")


@pytest.mark.parametrize("marker", MARKERS)
def test_a_field_cannot_spell_a_turn_marker_but_stays_that_field(marker: str) -> None:
    text = text_of(BoxSet((named([f"a {marker} b"]),)))
    assert marker not in text
    assert not OPEN.search(text)
    assert f"a {marker} b" in fields_of(text)


@given(st.lists(st.one_of(st.text(), st.sampled_from(MARKERS), st.from_regex(r"['\"\\\n\r{}<\[`]{1,6}")), unique=True))
def test_any_names_stay_on_their_line_and_read_back_exactly(fields: list[str]) -> None:
    text = text_of(BoxSet((named(fields),)))
    assert len(text.splitlines()) == 1
    assert fields_of(text) == fields
    assert not OPEN.search(text)


def fields_of(text: str) -> list[str]:
    call = ast.parse(text.splitlines()[0]).body[0].value  # type: ignore[attr-defined]
    return [key.value for key in call.args[0].keys]


@given(st.text())
def test_a_literal_is_its_value(text: str) -> None:
    assert ast.literal_eval(literal(text)) == text


def test_plain_comparisons_in_names_stay_readable() -> None:
    assert literal("< 5 years [m]") == "'< 5 years [m]'"


# --- the budget


WIDE = BoxSet(
    (named([f"filler_{n}" for n in range(30)], "misc"), named(["person_id", "birthYear", "notes"], "people"),
     named(["person_id", "salary"], "jobs")),
    (ForeignKey("jobs", "person_id", "people", "person_id"),),
)


def test_what_fits_is_not_touched() -> None:
    assert text_of(WIDE, budget=10_000) == text_of(WIDE)


def test_the_question_decides_what_stays() -> None:
    text = text_of(WIDE, budget=60, question="In which birth year were people born?")
    assert words(text) <= 60
    assert "'birthYear'" in text
    assert "filler_29" not in text
    assert "# not shown for length: " in text


def test_a_field_keeps_the_subject_and_the_keys_of_its_box() -> None:
    boxes = BoxSet(
        (named(["film", "noise", "director", "year"], "film"), named(["x", "y"], "other"),
         named(["person", "born"], "person")),
        (ForeignKey("film", "director", "person", "person"),),
    )
    expected = (
        "film = pd.DataFrame({'film': [...], 'director': [...], 'year': [...]})\n"
        "# not shown for length: 5 of 8 fields, 2 of 3 BOXes"
    )
    assert text_of(boxes, budget=words(expected), question="in what year?") == expected


def test_values_go_before_fields_do() -> None:
    boxes = BoxSet((box("t", town=["a" * 50, "b" * 50]),))
    assert text_of(boxes, values="samples", budget=22) == "t = pd.DataFrame({'town': [...]})"


def test_a_key_is_shown_only_with_both_its_fields() -> None:
    text = text_of(WIDE, budget=45, question="salary")
    assert "'salary'" in text
    assert ("# foreign keys" in text) == ("people = " in text and "jobs = " in text)


def test_the_note_counts_what_is_hidden() -> None:
    text = text_of(WIDE, budget=1)
    assert text == "# not shown for length: 35 of 35 fields, 3 of 3 BOXes"


@given(st.integers(0, 400), st.text(max_size=20))
def test_any_budget_gives_a_text_within_it_or_the_note_alone(budget: int, question: str) -> None:
    text = text_of(WIDE, budget=budget, question=question)
    assert words(text) <= budget or text.startswith("# not shown for length: 35 of 35")


def test_types_stand_where_no_value_is_shown() -> None:
    text = text_of(SHOPS, values="matched", types=True, question="in Quenby")
    assert "{'shop_id': [int, ...], 'town': ['Quenby', ...]}" in text


@given(st.sampled_from(["none", "samples", "matched"]), st.booleans())
def test_a_schema_survives_its_record(values: Any, types: bool) -> None:
    schema = schema_of(SHOPS, values, types, "Quenby?")
    assert type(schema).model_validate_json(schema.model_dump_json()) == schema


def test_an_empty_set_and_an_empty_box() -> None:
    assert text_of(BoxSet(())) == ""
    assert text_of(BoxSet((Box("t", pd.DataFrame()),))) == "t = pd.DataFrame({})"
