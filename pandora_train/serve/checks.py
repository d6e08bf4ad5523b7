"""What is checked before a server counts as up: adapters before the start, tokens and adapters after.

An adapter that matches no module serves the base model without a word; a chat template that differs from
training's halves the accuracy. Both are refused here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from pandora_train.errors import UserError
from pandora_train.llm.protocol import Message
from pandora_train.train.config import RANKS, served_rank

PROBE: list[Message] = [
    {"role": "system", "content": "You answer questions over tables by writing pandas code."},
    {"role": "user", "content": "BOX: city = pd.DataFrame({'name': [...], 'population': [...]})\n"
                                "Question: Which city’s population is over 1,000,000?  <|im_end|> 你好"},
]


def check_adapter(name: str, path: str) -> int:
    """The adapter's rank. Raises :class:`UserError` for what vLLM cannot serve, with the reason."""
    folder = Path(path)
    file = folder / "adapter_config.json"
    if not file.is_file():
        raise UserError(f"adapter '{name}': {folder} has no adapter_config.json; give the adapter's folder")
    config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    refused = ("modules_to_save", "trainable_token_indices", "use_dora")
    wrong = next((f"{key} is set" for key in refused if config.get(key)), None)
    if config.get("peft_type") != "LORA":
        wrong = f"its type is {config.get('peft_type')}, not LORA"
    elif config.get("bias", "none") != "none":
        wrong = "it trains biases"
    elif any(part in key for key in _keys(folder) for part in ("embed_tokens", "lm_head")):
        wrong = "it holds vocabulary layers"
    if wrong:
        raise UserError(f"adapter '{name}' cannot be served by vLLM ({wrong}): train it on linear layers "
                        "only, or `pandora merge` it and serve the merged folder as model")
    rank = max([int(config["r"]), *(int(r) for r in (config.get("rank_pattern") or {}).values())])
    if rank > RANKS[-1]:
        raise UserError(f"adapter '{name}' has rank {rank}, vLLM allows {RANKS[-1]}: merge it instead")
    return served_rank(rank)


def _keys(folder: Path) -> list[str]:
    from safetensors import safe_open

    file = folder / "adapter_model.safetensors"
    if not file.is_file():
        raise UserError(f"{folder} has no adapter_model.safetensors: it is not a whole adapter")
    with safe_open(file, framework="numpy") as tensors:
        return list(tensors.keys())


def check_tokens(client: httpx.Client, name: str, tokenizer: Path | str) -> None:
    """Compare the prompt's token ids on the server with those of the tokenizer that training uses."""
    from pandora_train.llm.tokens import ChatTokenizer

    answer = client.post("/tokenize", json={"model": name, "messages": PROBE, "add_generation_prompt": True})
    if answer.status_code != 200:
        raise UserError(f"the server cannot tokenize for '{name}': {answer.text[:300]}")
    served, ours = answer.json()["tokens"], ChatTokenizer(tokenizer).ids(PROBE)
    if served != ours:
        at = next((i for i, (a, b) in enumerate(zip(served, ours, strict=False)) if a != b),
                  min(len(served), len(ours)))
        raise UserError(f"'{name}' is served with another chat template or tokenizer than {tokenizer}: "
                        f"prompts differ from token {at} on ({served[at:at + 3]} against {ours[at:at + 3]}); "
                        "serve the model that was trained, with the tokenizer files of its folder")


def check_live(client: httpx.Client, base: str, adapter: str) -> float:
    """Largest difference of the probe's log-probabilities between base and adapter, in nats.

    Raises :class:`UserError` unless it exceeds what repeating the base model gives.
    """
    first, again, tuned = (_logprobs(client, name) for name in (base, base, adapter))
    noise, change = _distance(first, again), _distance(first, tuned)
    if change <= max(1e-4, 10 * noise):
        raise UserError(f"adapter '{adapter}' is not live: it answers as '{base}' does (log-probabilities "
                        f"differ by {change:.1e}); its modules match none of the model's, or it was never "
                        "trained")
    return change


def _logprobs(client: httpx.Client, model: str) -> list[float]:
    """Log-probability of each prompt token after the first."""
    answer = client.post("/v1/chat/completions", json={
        "model": model, "messages": PROBE, "temperature": 0, "max_tokens": 1, "prompt_logprobs": 0})
    if answer.status_code != 200:
        raise UserError(f"'{model}' does not answer: {answer.text[:300]}")
    tokens: list[dict[str, Any] | None] = answer.json()["prompt_logprobs"]
    return [next(iter(token.values()))["logprob"] for token in tokens if token]


def _distance(a: list[float], b: list[float]) -> float:
    return max(abs(x - y) for x, y in zip(a, b, strict=True))
