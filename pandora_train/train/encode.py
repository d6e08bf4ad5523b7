"""Rows become tokens and loss marks: the chat template once, the loss on what the assistant writes.

The text of a row is rendered by the tokenizer's own chat template, and tokenised in one piece, so that its
tokens equal those that a server makes of the same messages. An assistant's span runs from the end of the
generation prompt through the end-of-turn token; a newline that the template puts after it is not labelled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pandora_train.errors import UserError
from pandora_train.llm.protocol import Message
from pandora_train.prompt.build import neutralise
from pandora_train.train.rows import SftRow
from pandora_train.train.shorten import shorter


@dataclass(frozen=True)
class Sample:
    """One encoded row."""

    id: str
    group: str
    tokens: tuple[int, ...]
    labelled: tuple[bool, ...]
    """Per token: whether predicting it counts in the loss."""

    @property
    def targets(self) -> int:
        """Number of labelled tokens."""
        return sum(self.labelled)

    @property
    def shareable(self) -> int:
        """Tokens at the start that may be shared: up to the one that predicts the first label."""
        return self.labelled.index(True) - 1


def encode_rows(rows: Sequence[SftRow], tokenizer: Any, max_tokens: int) -> tuple[list[Sample], Counter[str]]:
    """Samples of at most ``max_tokens`` tokens, and counts of what was shortened or dropped, by reason."""
    samples: list[Sample] = []
    counts: Counter[str] = Counter()
    for row in rows:
        messages: list[Message] | None = [
            {"role": t.role, "content": neutralise(t.content)} for t in row.messages]
        if not any(t.role == "assistant" and t.content.strip() for t in row.messages):
            counts["dropped: no assistant turn"] += 1
            continue
        sample, cuts = _fit(row, messages, tokenizer, max_tokens)
        counts.update(cuts)
        if sample is not None:
            samples.append(sample)
    return samples, counts


def encode(messages: Sequence[Message], tokenizer: Any) -> tuple[list[int], list[bool]]:
    """Token ids and loss marks of one conversation (neutralised text).

    Raises :class:`UserError` when the chat template cannot be split into turns.
    """
    text, spans = render_spans(messages, tokenizer)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    marks, spans_left = [], list(spans)
    for start, end in encoded["offset_mapping"]:
        while spans_left and start >= spans_left[0][1]:
            spans_left.pop(0)
        marks.append(bool(spans_left) and spans_left[0][0] <= start and end <= spans_left[0][1]
                     and end > start)
    return list(encoded["input_ids"]), marks


def render_spans(messages: Sequence[Message], tokenizer: Any) -> tuple[str, list[tuple[int, int]]]:
    """The rendered conversation and the character spans of its assistant turns, end-of-turn included."""
    text = _render(messages, tokenizer, False)
    spans: list[tuple[int, int]] = []
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = _render(messages[:i], tokenizer, True)
        after = _render(messages[: i + 1], tokenizer, False)
        if not after.startswith(before) or not text.startswith(after):
            raise UserError("the model's chat template changes earlier turns when later ones are added; "
                            "training needs one whose turns only append")
        spans.append((len(before), len(before) + _turn_length(after[len(before):], message, tokenizer)))
    return text, spans


def _render(messages: Sequence[Message], tokenizer: Any, generation: bool) -> str:
    from jinja2 import TemplateError

    try:
        return str(tokenizer.apply_chat_template(list(messages), tokenize=False,
                                                 add_generation_prompt=generation))
    except TemplateError as e:
        raise UserError(f"the model's chat template refuses the rows ({e}): choose a model whose template "
                        "takes a system turn") from None


def _turn_length(turn: str, message: Message, tokenizer: Any) -> int:
    """Characters from the turn's start through its first special token after the content."""
    content = message["content"].strip()
    tail = turn.find(content) + len(content)
    ends = [(turn.find(s, tail), s) for s in _special(tokenizer) if turn.find(s, tail) >= 0]
    if content not in turn:
        raise UserError("the model's chat template rewrites what the assistant says; training needs one that "
                        "leaves it as it is")
    if not ends:
        raise UserError("the model's chat template ends an assistant turn with no special token, so the "
                        "model could never learn to stop; choose an instruction-tuned model")
    at, special = min(ends)
    return at + len(special)


def _special(tokenizer: Any) -> list[str]:
    return [t.content for t in tokenizer.added_tokens_decoder.values() if t.special]


def _fit(row: SftRow, messages: list[Message] | None, tokenizer: Any, limit: int
         ) -> tuple[Sample | None, list[str]]:
    """The row's sample, shortened until it fits, with what was done; ``None`` when nothing more can go."""
    cuts: list[str] = []
    while messages is not None:
        tokens, marks = encode(messages, tokenizer)
        if not any(marks):
            return None, [*cuts, "dropped: no label"]
        if len(tokens) <= limit:
            sample = Sample(row.id, f"{row.benchmark}/{row.group}", tuple(tokens), tuple(marks))
            return sample, sorted(set(cuts))
        messages, cut = shorter(messages)
        cuts.append(cut)
    return None, ["dropped: too long"]
