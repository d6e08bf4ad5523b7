"""What is labelled, what is dropped; text cannot forge a turn, and the prompt is the one that is served."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pandora_train.errors import UserError
from pandora_train.llm.tokens import turn_end
from pandora_train.rows import SftRow, read_rows, training_rows
from pandora_train.train.encode import Sample, encode, encode_rows
from pandora_train.train.tree import build_tree

from .conftest import SPECIAL, conversation, prompt_and_completion


def row(messages: list[Any], id: str = "r") -> SftRow:
    return SftRow.model_validate({"id": id, "benchmark": "files", "group": "g", **prompt_and_completion(messages)})


def test_the_last_answer_and_its_end_alone_are_labelled(tokenizer: Any) -> None:
    messages = conversation("shop", 4, corrected=True)
    (sample,), _ = encode_rows([row(messages)], tokenizer, 4096)
    labelled = [t for t, mark in zip(sample.tokens, sample.labelled, strict=True) if mark]
    assert tokenizer.decode(labelled) == messages[-1]["content"] + "<|im_end|>"
    assert labelled[-1] == turn_end(tokenizer) == tokenizer.convert_tokens_to_ids("<|im_end|>")


@pytest.mark.parametrize("completion", ["1. Count.", "```python\nresult = 1\n```", "\n\nlines first", "  spaces", "\u00e9"])
def test_prompt_tokens_equal_those_of_serving(tokenizer: Any, completion: str) -> None:
    *messages, _ = conversation("zoo", 4, corrected=True)
    prompt, answer = encode(messages, completion, tokenizer)
    assert prompt == tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert tokenizer.decode(answer) == completion + "<|im_end|>"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([*SPECIAL, "a", "\n", "assistant\n", "<", "|", "é\u200b"]), max_size=8))
def test_no_text_forges_a_turn(tokenizer: Any, pieces: list[str]) -> None:
    messages = conversation("shop", 1)
    messages[1]["content"] += "".join(pieces)
    (sample,), _ = encode_rows([row(messages)], tokenizer, 4096)
    turns = sample.tokens.count(tokenizer.convert_tokens_to_ids("<|im_start|>"))
    ends = sample.tokens.count(tokenizer.convert_tokens_to_ids("<|im_end|>"))
    assert (turns, ends) == (3, 3)
    assert tokenizer.convert_tokens_to_ids("<|endoftext|>") not in sample.tokens


def test_rows_that_cannot_be_trained_on_are_dropped_and_counted(tokenizer: Any) -> None:
    def answering(text: str, id: str) -> SftRow:
        return row([*conversation("shop", 1)[:2], {"role": "assistant", "content": text}], id)

    long = answering("word " * 300, "long")
    rows = [answering("  ", "a"), answering("result = x == '<|im_end|>'", "b"), long, row(conversation("zoo", 1), "c")]
    samples, counts = encode_rows(rows, tokenizer, 400)
    assert [s.id for s in samples] == ["c"]
    assert counts == {"dropped: empty completion": 1, "dropped: turn marker in the completion": 1,
                      "dropped: too long": 1}


def test_a_template_that_asks_otherwise_than_it_writes_is_refused(tokenizer: Any) -> None:
    other = copy.deepcopy(tokenizer)
    other.chat_template = "{{ messages | length }}" + tokenizer.chat_template
    with pytest.raises(UserError, match="otherwise than it asks"):
        encode(conversation("shop", 1)[:2], "x", other)


def test_a_template_without_an_end_of_turn_is_refused(tokenizer: Any) -> None:
    other = copy.deepcopy(tokenizer)
    other.chat_template = tokenizer.chat_template.replace("'<|im_end|>' + ", "")
    with pytest.raises(UserError, match="never learn to stop"):
        encode(conversation("shop", 1)[:2], "x", other)


def test_labels_are_never_shared() -> None:
    """Two rows with equal prompt and equal first answer tokens: each keeps its own labels."""
    tokens = tuple(range(100))
    rows = [Sample(str(n), "g", (*tokens, n), tuple(i >= 60 for i in range(101))) for n in (200, 201)]
    tree = build_tree(rows)
    assert len(tree.targets) == sum(r.targets for r in rows)
    assert tree.nodes[0].stop == 59


def test_rows_file_problems_are_named(tmp_path: Path, write_rows: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match="no Parquet rows"):
        read_rows(tmp_path / "none")
    with pytest.raises(UserError, match="occurs twice"):
        read_rows(write_rows(2, id="same"))
    with pytest.raises(UserError, match=r"row 1: .*role"):
        read_rows(write_rows(1, prompt=[{"role": "robot", "content": "x"}]))
    with pytest.raises(UserError, match="ends with a user's turn"):
        read_rows(write_rows(1, prompt=[{"role": "assistant", "content": "x"}]))
    with pytest.raises(UserError, match="distill again"):
        read_rows(write_rows(1, prompt=None, messages=[{"role": "user", "content": "x"}]))
    (tmp_path / "train.parquet").write_bytes(b"no parquet")
    with pytest.raises(UserError, match="not readable Parquet"):
        read_rows(tmp_path)
    with pytest.raises(UserError, match="set data="):
        training_rows("", "", 0, 0)


def test_held_out_rows_are_never_trained_on(tmp_path: Path, write_rows: Callable[..., Path]) -> None:
    """A distill folder's heldout.parquet is no training file, whatever the others are called."""
    write_rows(3).rename(tmp_path / "shard-1.parquet")
    write_rows(2).rename(tmp_path / "heldout.parquet")
    assert len(read_rows(tmp_path)) == 3
    with pytest.raises(UserError, match="r0 is in"):
        training_rows(str(tmp_path), "", 0, 0)
    write_rows(1, id="other").rename(tmp_path / "heldout.parquet")
    assert [len(rows) for rows in training_rows(str(tmp_path), "", 0, 0)] == [3, 1]


def test_held_out_takes_whole_groups(write_rows: Callable[..., Path]) -> None:
    train, held = training_rows(str(write_rows(12)), "", 0.1, 0)
    assert {r.group for r in train}.isdisjoint({r.group for r in held})
    assert len(train) + len(held) == 12
    assert held
