"""Who answers on a server: what ``pandora serve`` says of its weights, else a fingerprint, else a name."""

from __future__ import annotations

import contextlib
import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import ValidationError

from pandora_train.config import home
from pandora_train.llm.connect import BROKEN, OPENAI, Connection, Rejected
from pandora_train.llm.identity import Identity
from pandora_train.llm.protocol import Message
from pandora_train.records import PromptSettings, Record
from pandora_train.runs import append_line

UNSUPPORTED = {400, 405, 422, 501}
"""What servers answer to fields or paths they do not have."""
QUESTIONS = (
    ("Which city has most people?", "result = city.loc[city['population'].idxmax(), 'name']"),
    ("How many singers are older than thirty?", "result = len(singer[singer['age'] > 30])"),
    ("Name a colour, any colour.", "Perhaps a deep blue, the blue of an evening in winter."),
    ("What is the mean price by shop?", "result = sales.groupby('shop')['price'].mean().reset_index()"),
    ("Begin a story.", "Long before the bridge was built, a ferryman lived on the far bank of the river."),
    ("Which films share a director?", "pairs = film.merge(film, on='director', suffixes=('', '_other'))"),
    ("Give me a number and say why.", "Thirty-seven, since nobody expects it and nothing divides it."),
    ("List the rivers of Europe by length.", "1. Select Europe's rivers.\n2. Sort.\nresult = rows.values"),
)
"""Code, steps and prose, since an adapter may change one of them alone."""


class ServedAdapter(Record):
    """One adapter of our server."""

    sha256: str
    prompt: PromptSettings | None = None


class ServedWeights(Record):
    """What ``GET /pandora`` says: the base model's name on the server, its hash, and the adapters."""

    name: str
    base: str
    prompt: PromptSettings | None = None
    adapters: dict[str, ServedAdapter] = {}


class Complete(Protocol):
    """:meth:`~pandora_train.llm.openai.OpenAILLM.complete`."""

    def __call__(self, messages: list[Message], read: Any, max_tokens: int, **fields: Any) -> Any:
        """One completion."""
        ...


def who_answers(model: str, connection: Connection, complete: Complete) -> Identity:
    """Identity of ``model`` on a server.

    Raises :class:`~pandora_train.llm.connect.Rejected` for a bad key or unknown model, and
    :class:`~pandora_train.errors.MachineryError` when the server is away.
    """
    served = served_weights(connection)
    if served and served.base and (model == served.name or model in served.adapters):
        adapter = served.adapters.get(model)
        return Identity(kind="weights", model=model, base_sha256=served.base,
                        adapter_sha256=adapter.sha256 if adapter else "",
                        prompt=adapter.prompt if adapter else served.prompt)
    with contextlib.suppress(_NoLogprobs):
        return _recognised(Identity(kind="fingerprint", model=model, measure="prompt",
                                    fingerprint=measure(complete, "prompt")))
    with contextlib.suppress(_NoLogprobs):
        return _recognised(Identity(kind="fingerprint", model=model, measure="first",
                                    fingerprint=measure(complete, "first")))
    return Identity(kind="name", model=f"{connection.host}/{model}")


def served_weights(connection: Connection) -> ServedWeights | None:
    """What our own server says of its weights; ``None`` for any other server."""
    if connection.url == OPENAI:
        return None

    def read(body: bytes) -> ServedWeights | None:
        with contextlib.suppress(ValidationError):
            return ServedWeights.model_validate_json(body)
        return None

    try:
        return connection.get(f"{connection.root}/pandora", read)
    except Rejected:
        return None


class _NoLogprobs(Exception):
    """The server gives no such log-probabilities."""


def measure(complete: Complete, what: Literal["prompt", "first"]) -> tuple[float, ...]:
    """A log-probability for each of :data:`QUESTIONS`: of the whole text, or of the reply's first token."""
    values = []
    for question, answer in QUESTIONS:
        messages: list[Message] = [{"role": "user", "content": question}]
        if what == "prompt":
            messages.append({"role": "assistant", "content": answer})
            fields: dict[str, Any] = {"prompt_logprobs": 0, "add_generation_prompt": False}
        else:
            fields = {"logprobs": True}
        try:
            value = complete(messages, _read_prompt if what == "prompt" else _read_first, 1, temperature=0,
                             **fields)
        except Rejected as e:
            if e.status in UNSUPPORTED:
                raise _NoLogprobs from None
            raise
        if value is None:
            raise _NoLogprobs
        values.append(value)
    return tuple(values)


def prompt_logprobs(body: bytes) -> tuple[list[int], list[float]]:
    """Ids and log-probabilities of a vLLM completion's prompt tokens after the first.

    Raises a ``BROKEN`` error for a body without them.
    """
    tokens = [next(iter(token.items())) for token in json.loads(body)["prompt_logprobs"] if token]
    return [int(i) for i, _ in tokens], [float(token["logprob"]) for _, token in tokens]


def _read_prompt(body: bytes) -> float | None:
    if not json.loads(body).get("prompt_logprobs"):
        return None
    values = prompt_logprobs(body)[1]
    return _rounded(sum(values) / len(values))


def _read_first(body: bytes) -> float | None:
    try:
        return _rounded(json.loads(body)["choices"][0]["logprobs"]["content"][0]["logprob"])
    except BROKEN:
        json.loads(body)  # half a body is tried again; a whole one without log-probabilities has none
        return None


def _rounded(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"log-probability {value}")
    return round(value, 6)


def _recognised(identity: Identity) -> Identity:
    """The stored identity that this one repeats but for noise; stored now when it is new.

    So a model keeps one key, though two measurements never agree to the last digit.
    """
    file = home() / "fingerprints.jsonl"
    for known in _stored(file):
        if known.same(identity):
            return known
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        append_line(file, identity.model_dump_json())
    except OSError as e:
        warnings.warn(f"{file} cannot be written ({e.strerror}): a later run may not recognise the model",
                      stacklevel=2)
    # Another process may have stored it first: the file's order decides for both.
    return next((known for known in _stored(file) if known.same(identity)), identity)


def _stored(file: Path) -> Iterator[Identity]:
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValidationError):
            yield Identity.model_validate_json(line)
