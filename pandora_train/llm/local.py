"""A model in this process, by transformers: calls from many threads are generated together.

For small runs and for machines without a server; vLLM (``pandora serve``) is faster for whole
evaluations. float32 on a CPU, bfloat16 on a GPU.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pandora_train.errors import MachineryError, PromptTooLong, UserError, first_line
from pandora_train.llm.adapter import with_adapter
from pandora_train.llm.config import LLMConfig
from pandora_train.llm.identity import Identity, weights_identity
from pandora_train.llm.protocol import Message, Reply
from pandora_train.llm.tokens import ChatTokenizer, chat_tokenizer, turn_end
from pandora_train.llm.weights import resolve
from pandora_train.records import Usage

Arithmetic = Callable[[], contextlib.AbstractContextManager[Any]]
MIN_SHARED = 32
"""A shared prefix shorter than this is not worth a pass of its own."""
GATHER_SECONDS = 0.02
"""How long a batch waits for prompts that other threads are about to hand in."""


@dataclass
class _Call:
    ids: list[int]
    sample: int
    done: Future[Reply]


class LocalLLM:
    """Greedy (or sampled) generation. Prompts waiting at the same time form one batch, and what they share
    at the start (instruction, schema) is computed once for all of them."""

    def __init__(self, config: LLMConfig) -> None:
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForCausalLM

        path = resolve(config.model)
        gpu = torch.cuda.is_available()
        self.name = f"{config.model}+{Path(config.adapter).name}" if config.adapter else config.model
        self._config = config
        self._chat = _tokenizer(config)
        try:
            model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16 if gpu else torch.float32)
        except (OSError, ValueError, RuntimeError, SafetensorError) as e:  # cut files, LFS pointers
            raise UserError(f"cannot load model '{config.model}': {first_line(e)}") from None
        if config.adapter:
            model = with_adapter(model, config.adapter)
            if not gpu:  # float32, where merging is exact to rounding and saves time
                model = model.merge_and_unload()
        self._begin(model.to("cuda" if gpu else "cpu").eval())

    @classmethod
    def around(cls, model: Any, tokenizer: Any, config: LLMConfig, arithmetic: Arithmetic) -> LocalLLM:
        """The same decoding with a model that is loaded already and goes on training.

        ``arithmetic`` is entered around each batch: autocast holds in the thread alone that enters it.
        """
        llm = cls.__new__(cls)
        llm.name, llm._config, llm._chat = config.model, config, ChatTokenizer(tokenizer)
        llm._begin(model, arithmetic)
        return llm

    def _begin(self, model: Any, arithmetic: Arithmetic = contextlib.nullcontext) -> None:
        self._model: Any = model
        self._arithmetic = arithmetic
        self._stop_ids = _stop_ids(self._model, self._chat.tokenizer)
        self._waiting: queue.Queue[_Call | None] = queue.Queue()
        self._closed = False
        self._worker = threading.Thread(target=self._serve, name="local-llm", daemon=True)
        self._worker.start()

    def chat(self, messages: list[Message], sample: int = 0) -> Reply:
        """One reply; blocks while other threads' prompts are generated with it."""
        ids = self._chat.ids(messages)
        if len(ids) + self._config.max_tokens > self._config.context:
            raise PromptTooLong(f"a prompt of {len(ids)} tokens and a reply of {self._config.max_tokens} do "
                                f"not fit the context of {self._config.context}")
        if self._closed:
            raise MachineryError(f"{self.name} was closed")
        call = _Call(ids, sample, Future())
        self._waiting.put(call)
        return call.done.result()

    def identity(self) -> Identity:
        """Hashes of the weights on disk, taken when first asked for."""
        return weights_identity(self.name, resolve(self._config.model), self._config.adapter)

    def count_tokens(self, messages: list[Message]) -> int:
        """Exact."""
        return len(self._chat.ids(messages))

    def close(self) -> None:
        """Finish what is waiting, end the worker, free the weights."""
        self._closed = True
        self._waiting.put(None)
        self._worker.join()
        self._model = None

    def _serve(self) -> None:
        while (first := self._waiting.get()) is not None:
            time.sleep(GATHER_SECONDS)
            calls = [first]
            while len(calls) < self._config.batch and not self._waiting.empty():
                following = self._waiting.get()
                if following is None:
                    self._waiting.put(None)
                    break
                calls.append(following)
            try:
                for call, reply in zip(calls, self._generate(calls), strict=True):
                    call.done.set_result(reply)
            except Exception as e:  # handed to the callers, each of which raises it
                for call in calls:
                    if not call.done.done():
                        call.done.set_exception(e)

    def _generate(self, calls: list[_Call]) -> list[Reply]:
        """Replies to a batch; time is shared out evenly."""
        import torch

        began = time.monotonic()
        device = self._model.device
        prefix = shared_prefix([call.ids for call in calls])
        ids, mask = _pad([call.ids for call in calls], prefix, self._chat.tokenizer.pad_token_id or 0)
        options: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        if self._config.temperature:
            torch.manual_seed(calls[0].sample)
            options |= {"do_sample": True, "temperature": self._config.temperature}
        with torch.no_grad(), self._arithmetic():
            if prefix:
                shared = torch.tensor([calls[0].ids[:prefix]], device=device)
                cache = self._model(shared, use_cache=True, logits_to_keep=1).past_key_values
                cache.batch_repeat_interleave(len(calls))
                options["past_key_values"] = cache
            out = self._model.generate(
                torch.tensor(ids, device=device), attention_mask=torch.tensor(mask, device=device),
                max_new_tokens=self._config.max_tokens, eos_token_id=self._stop_ids,
                pad_token_id=self._stop_ids[0], repetition_penalty=1.0, **self._config.extra_body, **options)
        seconds = (time.monotonic() - began) / len(calls)
        rows = [row[len(ids[0]):] for row in out.tolist()]
        return [self._reply(row, call, prefix if i else 0, seconds)
                for i, (row, call) in enumerate(zip(rows, calls, strict=True))]

    def _reply(self, new: list[int], call: _Call, cached: int, seconds: float) -> Reply:
        end = next((i for i, token in enumerate(new) if token in self._stop_ids), None)
        kept = new if end is None else new[:end]
        text = self._chat.tokenizer.decode(kept, skip_special_tokens=True)
        usage = Usage(calls=1, prompt_tokens=len(call.ids), completion_tokens=len(kept) + (end is not None),
                      cached_tokens=cached, seconds=seconds)
        return Reply(text=text, finish="length" if end is None else "stop", usage=usage)


def _tokenizer(config: LLMConfig) -> ChatTokenizer:
    """The tokenizer named, else the adapter's own with the template it was trained on, else the model's."""
    own = config.adapter and (Path(config.adapter) / "tokenizer_config.json").is_file()
    return chat_tokenizer(config.tokenizer or (config.adapter if own else config.model))


def shared_prefix(rows: list[list[int]]) -> int:
    """Tokens that all ``rows`` begin with, at least one short of the shortest; 0 when not worth a pass."""
    if len(rows) < 2:
        return 0
    first, last = min(rows), max(rows)  # in sorted order these two differ earliest
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    length = min(length, min(len(row) for row in rows) - 1)
    return length if length >= MIN_SHARED else 0


def _pad(rows: list[list[int]], prefix: int, pad: int) -> tuple[list[list[int]], list[list[int]]]:
    """Equally long rows and their attention masks; padding stands after the shared prefix, before the rest.

    Positions are counted over the mask, so a row reads exactly as it would alone.
    """
    longest = max(len(row) for row in rows)
    ids = [row[:prefix] + [pad] * (longest - len(row)) + row[prefix:] for row in rows]
    mask = [[1] * prefix + [0] * (longest - len(row)) + [1] * (len(row) - prefix) for row in rows]
    return ids, mask


def _stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """Ends of a turn: the chat template's, the tokenizer's, those that the model's generation config names.

    A base model may name ``<|endoftext|>`` while its template, and so training, ends turns otherwise.
    """
    named = model.generation_config.eos_token_id
    ids = {turn_end(tokenizer), tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])}
    return sorted(i for i in ids if i is not None)

