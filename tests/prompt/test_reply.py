import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pandora_train.prompt import parse_reply, write_reply
from pandora_train.records import Step

line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="`\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))


@given(line, line.filter(lambda s: s.strip()))
def test_json_reply_reads_back(reasoning, code):
    parsed = parse_reply(write_reply(reasoning, code, "json"), "json")
    assert (parsed.reasoning, parsed.code, parsed.problem) == (reasoning, code.strip("\n").rstrip(), "")


@given(line.map(str.strip), line.map(str.strip).filter(bool))
def test_fenced_reply_reads_back(reasoning, code):
    parsed = parse_reply(write_reply(reasoning, code, "fenced"), "fenced")
    assert (parsed.reasoning, parsed.code, parsed.problem) == (reasoning, code, "")


@given(st.text(), st.sampled_from(["json", "fenced"]), st.sampled_from(["stop", "length"]))
def test_any_text_gives_code_or_a_problem(text, format, finish):
    parsed = parse_reply(text, format, finish)
    assert bool(parsed.code) != bool(parsed.problem)


def test_block_with_result_wins_over_examples():
    text = "First\n```python\nx = 1\n```\nthen\n```python\nresult = [[1]]\n```\nNote:\n```\nprint(1)\n```"
    assert parse_reply(text, "fenced").code == "result = [[1]]"


def test_open_block_is_code_only_when_the_model_stopped():
    text = "1. Count.\n```python\nresult = [[len(t)]]"
    assert parse_reply(text, "fenced", "stop").code == "result = [[len(t)]]"
    assert "token limit" in parse_reply(text, "fenced", "length").problem


def test_json_amid_prose_with_raw_newlines_is_read():
    text = 'Sure!\n{"reasoning": ["1. a", "2. b"], "code": "x = 1\nresult = [[x]]"} Done.'
    parsed = parse_reply(text, "json")
    assert parsed.code == "x = 1\nresult = [[x]]"
    assert parsed.reasoning == "1. a\n2. b"


def test_deeply_nested_json_is_a_problem_not_a_crash():
    assert parse_reply('{"a":' * 100_000, "json").problem


def test_blocks_of_other_languages_are_not_code():
    text = "As SQL:\n```sql\nSELECT 1\n```\nso\n```python\nresult = [[1]]\n```"
    assert parse_reply(text, "fenced").code == "result = [[1]]"
    assert "code block" in parse_reply("```sql\nSELECT 1\n```", "fenced").problem


def test_half_a_surrogate_pair_can_be_saved():
    parsed = parse_reply('{"reasoning": "\\ud83d", "code": "result = \'\\ud83d\'"}', "json")
    Step(reply="", reasoning=parsed.reasoning, code=parsed.code).model_dump_json()
    assert parsed.code.startswith("result = ")


def test_a_number_of_thousands_of_digits_is_a_problem_not_a_crash():
    assert parse_reply('{"a": ' + "1" * 5000 + "}", "json").problem


def test_the_last_block_with_a_result_is_the_answer():
    text = "```python\nresult = [[1]]\n```\nNo, it is\n```python\nresult = [[2]]\n```"
    assert parse_reply(text, "fenced").code == "result = [[2]]"


def test_a_block_without_a_language_is_code():
    assert parse_reply("```\nresult = [[1]]\n```", "fenced").code == "result = [[1]]"


@pytest.mark.parametrize("code", ["", " \n", None, 3, ["result = 1"]])
def test_json_without_code_is_a_problem(code):
    parsed = parse_reply(json.dumps({"reasoning": "1. Count.", "code": code}), "json")
    assert (parsed.reasoning, parsed.code) == ("1. Count.", "")
    assert "key code" in parsed.problem
