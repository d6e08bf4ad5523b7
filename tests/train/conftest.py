"""Tiny random decoders and a real (byte-level BPE, ChatML) tokenizer, made on the spot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
INSTRUCTION = ("Answer questions over pandas frames whose fields are shown and whose values are not. Write "
               "numbered reasoning steps, then one python block that sets `result` to a list of rows.")
SCHEMAS = {
    "shop": "item = pd.DataFrame({'id': [...], 'name': [...], 'price': [...]})\n"
            "sale = pd.DataFrame({'item_id': [...], 'day': [...], 'amount': [...]})",
    "zoo": "animal = pd.DataFrame({'animal_id': [...], 'species': [...], 'keeper': [...], 'weight': [...]})\n"
           "keeper = pd.DataFrame({'keeper_id': [...], 'name': [...]})",
}


def conversation(group: str, n: int, corrected: bool = False) -> list[dict[str, str]]:
    """A row of the shape that distill writes; ``corrected`` adds feedback and a second answer."""
    frame = SCHEMAS[group].split(" = ")[0]
    messages = [
        {"role": "system", "content": INSTRUCTION},
        {"role": "user", "content": f"{SCHEMAS[group]}\n\nQuestion: how many rows above {n}, größer als {n}?"},
        {"role": "assistant", "content": f"1. Count rows above {n}.\n```python\nresult = [[len({frame})]]\n```"},
    ]
    if corrected:
        messages += [
            {"role": "user", "content": f"The code failed: KeyError {n}"},
            {"role": "assistant", "content": f"1. Use the right field.\n```python\nresult = [[{n}]]\n```"},
        ]
    return messages


def row_of(group: str, n: int, corrected: bool = False, id: str = "r") -> Any:
    """A :func:`conversation` as a typed row."""
    from pandora_train.rows import SftRow

    return SftRow.model_validate({"id": id, "benchmark": "files", "group": group,
                                  **prompt_and_completion(conversation(group, n, corrected))})


def prompt_and_completion(messages: list[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    """A conversation as the columns of a row."""
    return {"prompt": messages[:-1], "completion": messages[-1:]}


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tiny products gain nothing from threads that wait for each other."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    text = [m["content"] for g in SCHEMAS for m in conversation(g, 3, True)]
    inner.train_from_iterator(text, trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    made = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                                   additional_special_tokens=["<|im_start|>"])
    made.chat_template = CHATML
    return made


def tiny_model(kind: str, seed: int = 0) -> Any:
    """A random two-layer Llama or Qwen2 with grouped heads, fp32."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    shape: dict[str, Any] = {
        "vocab_size": 512, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024,
        "tie_word_embeddings": kind == "qwen2", "initializer_range": 0.2}
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**shape)).eval()
    return Qwen2ForCausalLM(Qwen2Config(**shape)).eval()


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_model("qwen2").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def write_rows(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    def write(count: int = 12, **replace: Any) -> Path:
        rows = [{"id": f"r{n}", "benchmark": "files", "group": ["shop", "zoo"][n % 2],
                 **prompt_and_completion(conversation(["shop", "zoo"][n % 2], n, corrected=n % 5 == 0))} | replace
                for n in range(count)]
        file = tmp_path_factory.mktemp("rows") / "train.parquet"
        pq.write_table(pa.Table.from_pylist(rows), file)
        return file

    return write
