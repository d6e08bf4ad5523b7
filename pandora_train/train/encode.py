"""Rows become tokens and loss marks: the chat template once, the loss on the completion.

The prompt's tokens are those that a server makes of the same messages. The completion's follow them: its text
and the special token that ends the turn, as the model's own chat template writes them after the generation
prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pandora_train.errors import UserError
from pandora_train.llm.protocol import Message
from pandora_train.prompt import neutralise
from pandora_train.rows import SftRow


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
    """Samples of at most ``max_tokens`` tokens, and counts of the rows that were dropped, by reason."""
    samples: list[Sample] = []
    counts: Counter[str] = Counter()
    for row in rows:
        completion = row.completion[0]["content"]
        if not completion.strip():
            counts["dropped: empty completion"] += 1
        elif completion != neutralise(completion):  # as text a literal, as tokens a turn's end
            counts["dropped: turn marker in the completion"] += 1
        else:
            sample = sample_of(row, tokenizer)
            if len(sample.tokens) <= max_tokens:
                samples.append(sample)
            else:
                counts["dropped: too long"] += 1
    return samples, counts


def sample_of(row: SftRow, tokenizer: Any) -> Sample:
    """One row's tokens; see :func:`encode`."""
    prompt, answer = encode(row.prompt, row.completion[0]["content"], tokenizer)
    return Sample(row.id, f"{row.benchmark}/{row.group}", (*prompt, *answer),
                  (False,) * len(prompt) + (True,) * len(answer))


def encode(messages: Sequence[Message], completion: str, tokenizer: Any) -> tuple[list[int], list[int]]:
    """(prompt, completion) token ids; the second are labelled, the end of the turn included.

    ``messages`` end with a user's turn; strangers' markers in them are neutralised. Raises :class:`UserError`
    when the chat template refuses the messages, or has no place where the completion ends.
    """
    turns: list[Message] = [{"role": m["role"], "content": neutralise(m["content"])} for m in messages]
    before = _render(turns, tokenizer, generation=True)
    whole = _render([*turns, {"role": "assistant", "content": completion}], tokenizer, generation=False)
    if not whole.startswith(before):
        raise UserError("the model's chat template writes a finished turn otherwise than it asks for one, so "
                        "the prompts of training would not be those of serving; choose another model")
    answer = whole[len(before): len(before) + _turn_length(whole[len(before):], completion, tokenizer)]
    prompt_ids, ids = _ids(before, tokenizer), _ids(before + answer, tokenizer)
    if ids[: len(prompt_ids)] == prompt_ids:
        return prompt_ids, ids[len(prompt_ids):]
    return prompt_ids, _ids(answer, tokenizer)  # the seam would merge: a server's prompt never does


def _ids(text: str, tokenizer: Any) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def _render(messages: Sequence[Message], tokenizer: Any, generation: bool) -> str:
    from jinja2 import TemplateError

    try:
        return str(tokenizer.apply_chat_template(list(messages), tokenize=False,
                                                 add_generation_prompt=generation))
    except TemplateError as e:
        raise UserError(f"the model's chat template refuses the rows ({e}); without a system role, distill "
                        "with prompt.system_role=false") from None


def _turn_length(turn: str, completion: str, tokenizer: Any) -> int:
    """Characters from the turn's start through its first special token after the completion."""
    content = completion.strip()
    tail = turn.find(content) + len(content)
    if content not in turn:
        raise UserError("the model's chat template rewrites what the assistant says; training needs one that "
                        "leaves it as it is")
    ends = [(turn.find(s, tail), s) for s in _special(tokenizer) if turn.find(s, tail) >= 0]
    if not ends:
        raise UserError("the model's chat template ends an assistant turn with no special token, so the "
                        "model could never learn to stop; choose an instruction-tuned model")
    at, special = min(ends)
    return at + len(special)


def _special(tokenizer: Any) -> list[str]:
    return [t.content for t in tokenizer.added_tokens_decoder.values() if t.special]
