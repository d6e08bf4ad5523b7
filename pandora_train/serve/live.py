"""Whether an adapter is at work on a server: by the likelihood of what it was trained to write."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from pydantic import Field, ValidationError

from pandora_train.errors import UserError, first_line
from pandora_train.llm.connect import Rejected
from pandora_train.llm.fingerprint import prompt_logprobs
from pandora_train.llm.openai import OpenAILLM
from pandora_train.llm.protocol import Message
from pandora_train.records import Record
from pandora_train.serve.proof import PROBE, Proof, State

MARGIN = 0.01
"""Nats a token by which an adapter must find its own rows' answers likelier than its base does."""


class ProbeRow(Record):
    """A training row, as ``probes.jsonl`` beside an adapter keeps a few."""

    messages: list[Message]
    completion: str = Field(min_length=1)


def check_live(tuned: OpenAILLM, base: OpenAILLM, folder: Path) -> Proof:
    """Whether the adapter in ``folder`` is what ``tuned`` answers with; ``base`` is its base on that server.

    It must find the answers of its own rows likelier than the base does. Without rows in the folder it must
    differ from the base by more than repeating the base does, which any adapter's weights do.
    """
    rows = read_probes(folder)
    try:
        state, detail = _by_rows(tuned, base, rows) if rows else _by_difference(tuned, base)
    except Rejected as e:
        if e.status not in (400, 422):
            raise
        state, detail = "untested", f"the server gives no log-probabilities of its prompts ({e.text[:80]})"
    return Proof(f"adapter '{tuned.name}'", state, detail)


def read_probes(folder: Path) -> list[ProbeRow]:
    """The rows in an adapter's ``probes.jsonl``; none without that file."""
    file = folder / "probes.jsonl"
    if not file.is_file():
        return []
    try:
        return [ProbeRow.model_validate_json(line) for line in file.read_bytes().splitlines()]
    except (OSError, ValidationError) as e:
        raise UserError(f"{file} holds no rows ({first_line(e)}): take it from the training run") from None


def _by_rows(tuned: OpenAILLM, base: OpenAILLM, rows: list[ProbeRow]) -> tuple[State, str]:
    gain = fmean(_likelihood(tuned, row) - _likelihood(base, row) for row in rows)
    says = (f"answers of its own {len(rows)} rows are likelier than to '{base.name}' by {gain:.3f} nats a "
            "token")
    if gain >= MARGIN:
        return "proved", says
    return "refuted", (f"'{tuned.name}' is not the adapter of that folder, or not live: {says}, at least "
                       f"{MARGIN} is expected")


def _by_difference(tuned: OpenAILLM, base: OpenAILLM) -> tuple[State, str]:
    first, again, other = (_values(llm, PROBE, True)[1] for llm in (base, base, tuned))
    noise, change = _distance(first, again), _distance(first, other)
    if change > max(1e-4, 10 * noise):
        return "proved", f"moves log-probabilities by up to {change:.2g} (no probes.jsonl to say more)"
    return "refuted", (f"'{tuned.name}' is not live: it answers as '{base.name}' does (log-probabilities "
                       f"differ by {change:.1e}); its modules match none of the model's, or it was never "
                       "trained")


def _likelihood(llm: OpenAILLM, row: ProbeRow) -> float:
    """Mean log-probability (nats a token) of a row's completion after its messages."""
    prompt, _ = _values(llm, row.messages, True)
    ids, values = _values(llm, [*row.messages, {"role": "assistant", "content": row.completion}], False)
    pairs = zip(prompt, ids, strict=False)
    start = next((i for i, (a, b) in enumerate(pairs) if a != b), len(prompt))
    return fmean(values[min(start, len(values) - 1):])


def _values(llm: OpenAILLM, messages: list[Message], generation: bool) -> tuple[list[int], list[float]]:
    """Ids and log-probabilities of the rendered messages' tokens after the first.

    Up to the reply's beginning (``generation``), or to the end of the last message's own words.
    """
    return llm.complete(messages, prompt_logprobs, 1, temperature=0, prompt_logprobs=0,
                        add_generation_prompt=generation, continue_final_message=not generation)


def _distance(a: list[float], b: list[float]) -> float:
    return max(abs(x - y) for x, y in zip(a, b, strict=True))
