"""One proof about a running server, and the prompt that proofs ask about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pandora_train.errors import UserError
from pandora_train.llm.protocol import Message

PROBE: list[Message] = [
    {"role": "system", "content": "You answer questions over tables by writing pandas code."},
    {"role": "user", "content": "BOX: city = pd.DataFrame({'name': [...], 'population': [...]})\n"
                                "Question: Which city’s population is over 1,000,000?  <|im_end|> 你好"},
]
"""A chat with what templates and tokenizers trip over: a system turn, a mark, letters of several scripts."""
State = Literal["proved", "refuted", "untested"]


@dataclass(frozen=True)
class Proof:
    """One thing about a server. ``untested``: the server or the user gives nothing to test it with."""

    name: str
    state: State
    detail: str


def refuse(proofs: Sequence[Proof]) -> list[Proof]:
    """``proofs``, when none is refuted; else a :class:`UserError`."""
    wrong = [proof.detail for proof in proofs if proof.state == "refuted"]
    if wrong:
        raise UserError("; ".join(wrong))
    return list(proofs)
