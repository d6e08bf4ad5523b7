"""What is labelled, what is shortened, what is dropped; text cannot forge a turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pandora_train.errors import UserError
from pandora_train.train.encode import Sample, encode, encode_rows
from pandora_train.train.rows import SftRow, Turn, read_rows, training_rows
from pandora_train.train.shorten import shorter
from pandora_train.train.tree import build_tree

from .conftest import SPECIAL, conversation


def labelled_text(messages: list[Any], tokenizer: Any) -> list[str]:
    """The labelled runs of a conversation, as text."""
    tokens, marks = encode(messages, tokenizer)
    runs: list[list[int]] = []
    for i, (token, mark) in enumerate(zip(tokens, marks, strict=True)):
        if mark:
            if not marks[i - 1]:
                runs.append([])
            runs[-1].append(token)
    return [tokenizer.decode(r) for r in runs]


def row(messages: list[Any], id: str = "r") -> SftRow:
    return SftRow(id=id, benchmark="files", group="g", messages=tuple(Turn(**m) for m in messages))


def test_each_assistant_turn_and_its_end_is_labelled(tokenizer: Any) -> None:
    messages = conversation("shop", 4, corrected=True)
    wanted = [m["content"] + "<|im_end|>" for m in messages if m["role"] == "assistant"]
    assert labelled_text(messages, tokenizer) == wanted


def test_prompt_tokens_equal_those_of_serving(tokenizer: Any) -> None:
    messages = conversation("zoo", 4, corrected=True)
    tokens, marks = encode(messages, tokenizer)
    for turns in (2, 4):
        served = tokenizer.apply_chat_template(messages[:turns], add_generation_prompt=True)["input_ids"]
        assert tokens[: len(served)] == served
        assert marks[len(served)]
        assert not marks[len(served) - 1]


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


def test_long_prompts_lose_demonstrations_then_unused_frames_never_the_answer(tokenizer: Any) -> None:
    messages = conversation("shop", 2)
    messages[0]["content"] += "\n\n### Example\nold\n\nQuestion: x" + "\n\n### Example\nnew\n\nQuestion: y"
    full, answer = len(encode(messages, tokenizer)[0]), labelled_text(messages, tokenizer)

    def fit(limit: int) -> tuple[str, dict[str, int]]:
        samples, counts = encode_rows([row(messages)], tokenizer, limit)
        tokens = samples[0].tokens
        assert [tokenizer.decode([t for t, m in zip(tokens, samples[0].labelled, strict=True) if m])] == answer
        return tokenizer.decode(tokens), dict(counts)

    text, counts = fit(full - 1)
    assert "new" in text
    assert "old" not in text
    assert counts == {"shortened: demonstrations": 1}
    bare = len(encode(conversation("shop", 2), tokenizer)[0])
    text, counts = fit(bare - 1)
    assert "item = pd" in text
    assert "sale = pd" not in text
    assert counts == {"shortened: demonstrations": 1, "shortened: schema": 1}
    samples, left = encode_rows([row(messages)], tokenizer, 100)
    assert samples == []
    assert left == {"dropped: too long": 1}


def test_a_frame_goes_with_its_foreign_keys() -> None:
    frames = [f"{name} = pd.DataFrame({{'id': [...]}})" for name in ("item", "sale", "item_tag")]
    keys = "# foreign keys: sale['a, b'] = item.id, item_tag.id = item.id, item.id = sale.id"
    question = {"role": "user", "content": "\n".join([*frames, keys, "", "Question: items?"])}
    answer = {"role": "assistant", "content": "result = [[len(item)]]"}
    without_tag, _ = shorter([question, answer])
    assert without_tag is not None
    assert "\n# foreign keys: sale['a, b'] = item.id, item.id = sale.id\n\nQ" in without_tag[0]["content"]
    bare, _ = shorter(without_tag)
    assert bare == [{"role": "user", "content": f"{frames[0]}\n\nQuestion: items?"}, answer]
    assert shorter(bare) == (None, "dropped: too long")


def test_rows_without_an_answer_are_dropped_and_counted(tokenizer: Any) -> None:
    empty = conversation("shop", 1)[:2]
    blank = [*empty, {"role": "assistant", "content": "  "}]
    samples, counts = encode_rows([row(empty, "a"), row(blank, "b"), row(conversation("zoo", 1), "c")],
                                  tokenizer, 4096)
    assert [s.id for s in samples] == ["c"]
    assert counts == {"dropped: no assistant turn": 2}


def test_a_template_that_rewrites_earlier_turns_is_refused(tokenizer: Any) -> None:
    import copy

    other = copy.deepcopy(tokenizer)
    other.chat_template = "{{ messages | length }}" + tokenizer.chat_template
    with pytest.raises(UserError, match="turns only append"):
        encode(conversation("shop", 1), other)


def test_a_template_without_an_end_of_turn_is_refused(tokenizer: Any) -> None:
    import copy

    other = copy.deepcopy(tokenizer)
    other.chat_template = tokenizer.chat_template.replace("'<|im_end|>' + ", "")
    with pytest.raises(UserError, match="never learn to stop"):
        encode(conversation("shop", 1)[:3], other)


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
        read_rows(write_rows(1, messages=[{"role": "robot", "content": "x"}]))
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
