"""Proofs about a running server: that it answers as the model that was trained, or why it does not.

``pandora serve`` asks for them after its start, ``pandora check`` and ``evaluate`` of servers that others
started. A chat template that differs from training's halves the accuracy, a repetition penalty from the
model's folder changes even greedy replies, and an adapter that matches no module serves the bare base: all
without a word from the server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pandora_train.errors import UserError
from pandora_train.llm.adapter import WEIGHTS
from pandora_train.llm.config import LLMConfig
from pandora_train.llm.connect import Rejected
from pandora_train.llm.fingerprint import served_weights
from pandora_train.llm.identity import sha256
from pandora_train.llm.openai import OpenAILLM
from pandora_train.llm.tokens import ChatTokenizer, find_tokenizer
from pandora_train.serve.live import check_live
from pandora_train.serve.proof import PROBE, Proof, refuse

LONG_ANSWERS = ("Tell a long story about a river, with many repetitions.",
                "Write pandas code for ten questions about a table of cities, one after the other.",
                "Count from one to fifty in words.")
"""Replies to these repeat words, which a penalty changes."""
NEUTRAL = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "top_p": 1.0,
           "top_k": -1, "min_p": 0.0}
CONTROL = NEUTRAL | {"repetition_penalty": 1.05, "top_p": 0.8}
"""What Qwen's folders set, and less than most others do."""


def check_server(config: LLMConfig, adapter: Path | str = "") -> list[Proof]:
    """All proofs about ``config.model`` on ``config.base_url``; ``adapter``: the folder it should be, if any.

    Raises :class:`UserError` for a bad key or unknown model, and
    :class:`~pandora_train.errors.MachineryError` for a server that is away.
    """
    llm = OpenAILLM(config)
    own = adapter and (Path(adapter) / "tokenizer_config.json").is_file()  # the one it was trained with
    try:
        tokenizer = find_tokenizer(config.model, str(adapter) if own else config.tokenizer)
        proofs = [_tokens(llm, tokenizer), _defaults(llm, config)]
        return [*proofs, *(_adapter(llm, config, Path(adapter)) if adapter else [])]
    except Rejected as e:
        raise UserError(f"'{config.model}' does not answer: {e.text}") from None
    finally:
        llm.close()


def prove(config: LLMConfig) -> list[Proof]:
    """What is to be said before a run about the server that ``config`` names; none for other kinds.

    Our own server proved itself at its start. Raises :class:`UserError` for what is refuted.
    """
    if config.kind != "openai" or not config.base_url:
        return []
    llm = OpenAILLM(config)
    try:
        weights = served_weights(llm.connection)
    finally:
        llm.close()
    if weights:
        return [Proof("server", "proved", "by pandora serve, at its start")]
    return refuse(check_server(config))


def check(url: str, model: str, adapter: str, tokenizer: str, key_env: str) -> int:
    """Print the proofs about a server; 1 when one is refuted. An empty ``model`` is its only one."""
    config = LLMConfig(base_url=url, model=model, tokenizer=tokenizer, api_key_env=key_env, retries=1)
    if not model:
        config = config.model_copy(update={"model": _only_model(config)})
    proofs = check_server(config, adapter)
    for proof in proofs:
        print(f"{proof.state:9} {proof.name}: {proof.detail}")
    return int(any(proof.state == "refuted" for proof in proofs))


def _only_model(config: LLMConfig) -> str:
    llm = OpenAILLM(config)
    try:
        names = sorted(_parents(llm))
    except Rejected as e:
        raise UserError(f"{config.base_url} does not list its models ({e.text}): give --model") from None
    finally:
        llm.close()
    if len(names) != 1:
        raise UserError(f"{config.base_url} serves {', '.join(names) or 'nothing'}: choose one with --model")
    return names[0]


def _parents(llm: OpenAILLM) -> dict[str, str]:
    """Models of the server, each with the base of which it is an adapter (vLLM says so), or an empty text."""
    def read(body: bytes) -> dict[str, str]:
        return {str(model["id"]): str(model.get("parent") or "") for model in json.loads(body)["data"]}

    return llm.connection.get(f"{llm.connection.url}/models", read)


def _tokens(llm: OpenAILLM, tokenizer: ChatTokenizer | None) -> Proof:
    """Whether a prompt's token ids on the server are those of the tokenizer that training uses."""
    def read(body: bytes) -> list[int]:
        return [int(token) for token in json.loads(body)["tokens"]]

    name = "prompt tokens"
    if tokenizer is None:
        return Proof(name, "untested", "name the trained model's tokenizer (--tokenizer, llm.tokenizer)")
    try:
        served = llm.connection.post(f"{llm.connection.root}/tokenize", {
            "model": llm.name, "messages": PROBE, "add_generation_prompt": True}, read)
    except Rejected as e:
        return Proof(name, "untested", f"the server has no /tokenize ({e.status})")
    ours = tokenizer.ids(PROBE)
    if served == ours:
        return Proof(name, "proved", f"the {len(ours)} of a prompt equal those of training")
    at = next((i for i, (a, b) in enumerate(zip(served, ours, strict=False)) if a != b),
              min(len(served), len(ours)))
    return Proof(name, "refuted", f"'{llm.name}' is served with another chat template or tokenizer than "
                 f"training's: prompts differ from token {at} on ({served[at:at + 3]} against "
                 f"{ours[at:at + 3]}); serve the model that was trained, with its folder's tokenizer files")


def _defaults(llm: OpenAILLM, config: LLMConfig) -> Proof:
    """Whether requests as the agent sends them are sampled with nothing that it did not ask for.

    Long replies to such requests are compared with replies under neutral settings. They prove something only
    where a small penalty makes a difference (the control) and repetition does not.
    """
    name = "generation defaults"
    ours: dict[str, Any] = {"temperature": config.temperature or 0.0, "seed": 0} | config.extra_body

    def reply(question: str, **fields: Any) -> str:
        return llm.complete([{"role": "user", "content": question}], _read_text, 64, **ours | fields)

    for question in LONG_ANSWERS:
        try:
            control, neutral = reply(question, **CONTROL), reply(question, **NEUTRAL)
        except Rejected as e:
            if e.status not in (400, 422):
                raise
            return Proof(name, "untested", f"the server takes no repetition_penalty ({e.text[:80]})")
        given = reply(question)
        if neutral != reply(question, **NEUTRAL) or given != reply(question):
            continue  # this reply varies by itself
        if given != neutral:
            return Proof(name, "refuted", "the server adds sampling settings of its own, such as a "
                         "repetition penalty from the model's folder: start vLLM with --generation-config "
                         "vllm, or set llm.extra_body.repetition_penalty=1.0 (and top_p, top_k) against it")
        if control != neutral:
            return Proof(name, "proved", "replies equal those under neutral settings, where a repetition "
                         "penalty of 1.05 shows")
    return Proof(name, "untested", "no reply shows whether a repetition penalty is at work")


def _read_text(body: bytes) -> str:
    return str(json.loads(body)["choices"][0]["message"]["content"])


def _adapter(llm: OpenAILLM, config: LLMConfig, folder: Path) -> list[Proof]:
    """Whether the adapter in ``folder`` is what the server answers with under the model's name."""
    proofs = []
    weights = served_weights(llm.connection)
    if weights and llm.name in weights.adapters:
        same = weights.adapters[llm.name].sha256 == sha256(folder / WEIGHTS)
        proofs.append(Proof("adapter weights", "proved", "equal those of the folder") if same else
                      Proof("adapter weights", "refuted",
                            f"'{llm.name}' is served with other weights than those in {folder}"))
    base = _parents(llm).get(llm.name, "")
    if not base:
        return [*proofs, Proof(f"adapter '{llm.name}'", "untested", "the server names no base of it")]
    other = OpenAILLM(config.model_copy(update={"model": base}))
    try:
        return [*proofs, check_live(llm, other, folder)]
    finally:
        other.close()
