"""GGUF file -> Hugging Face model folder: float32 safetensors, tokenizer, chat template, config.

Covers what the packages in :mod:`~pandora_train.llm.weights` hold: ``qwen2`` and ``llama`` decoders with
a byte-level BPE tokenizer and tied embeddings. Tensors are stored as float32, the only common type that
holds every dequantised value exactly (a Q4_K value is a product of a 16-bit scale, a 6-bit scale and a
4-bit number); a GPU run casts on loading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pandora_train.errors import UserError
from pandora_train.runs import write_json, write_text

Array = npt.NDArray[np.float32]
Progress = Callable[[str], None]

SHARD_BYTES = 2_000_000_000
"""A shard is held in memory before it is written."""

FIELDS = {
    "max_position_embeddings": "context_length",
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
QWEN2_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
               r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTROL, USER_DEFINED, UNUSED = 3, 4, 5
"""GGUF token types; the rest are ordinary vocabulary."""


def convert(file: Path, folder: Path, progress: Progress) -> None:
    """Write ``file`` as a model folder that transformers, peft and vLLM load.

    Raises :class:`UserError` for an architecture, tokenizer or tensor this converter does not know.
    """
    from gguf import GGUFReader

    reader = GGUFReader(file)
    fields = reader.fields

    def read(name: str, default: Any = None) -> Any:
        return fields[name].contents() if name in fields else default

    folder.mkdir(parents=True, exist_ok=True)
    _write_config(read, folder)
    _write_tokenizer(read, folder)
    _write_tensors(reader.tensors, read, folder, progress)


def _write_config(read: Callable[..., Any], folder: Path) -> None:
    from transformers import AutoConfig

    arch = read("general.architecture")
    classes = {"qwen2": "Qwen2ForCausalLM", "llama": "LlamaForCausalLM"}
    if arch not in classes:
        raise UserError(f"GGUF architecture '{arch}' is not supported; known: {', '.join(classes)}")
    config = AutoConfig.for_model(
        arch,
        architectures=[classes[arch]],
        vocab_size=len(read("tokenizer.ggml.tokens")),
        rope_parameters={"rope_type": "default", "rope_theta": read(f"{arch}.rope.freq_base")},
        tie_word_embeddings=True,
        bos_token_id=read("tokenizer.ggml.bos_token_id"),
        eos_token_id=read("tokenizer.ggml.eos_token_id"),
        pad_token_id=read("tokenizer.ggml.padding_token_id"),
        dtype="float32",
        **{ours: read(f"{arch}.{theirs}") for ours, theirs in FIELDS.items()},
    )
    config.save_pretrained(folder)


def _write_tokenizer(read: Callable[..., Any], folder: Path) -> None:
    """``tokenizer.json``, ``tokenizer_config.json`` and ``chat_template.jinja`` of a byte-level BPE."""
    from tokenizers import AddedToken, Tokenizer, decoders, models

    tokens, types = read("tokenizer.ggml.tokens"), read("tokenizer.ggml.token_type")
    kind = read("tokenizer.ggml.pre")
    merges = [tuple(merge.split(" ")) for merge in read("tokenizer.ggml.merges")]
    vocab = {token: i for i, token in enumerate(tokens) if types[i] != UNUSED}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.normalizer, tokenizer.pre_tokenizer = _splitter(kind)
    tokenizer.decoder = decoders.ByteLevel()
    added = [AddedToken(token, special=types[i] == CONTROL, normalized=False)
             for i, token in enumerate(tokens) if types[i] in (CONTROL, USER_DEFINED)]
    tokenizer.add_tokens(added)
    tokenizer.save(str(folder / "tokenizer.json"))

    def name(role: str) -> str | None:
        index = read(f"tokenizer.ggml.{role}_token_id")
        return None if index is None else str(tokens[index])

    arch = read("general.architecture")
    write_json(folder / "tokenizer_config.json", {
        # The class decides the split rules on loading; both give what was built above.
        "tokenizer_class": "Qwen2Tokenizer" if kind == "qwen2" else "PreTrainedTokenizerFast",
        "bos_token": name("bos") if kind != "qwen2" else None,
        "eos_token": name("eos"),
        "pad_token": name("padding"),
        "unk_token": name("unknown"),
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": read(f"{arch}.context_length"),
    })
    write_text(folder / "chat_template.jinja", read("tokenizer.chat_template"))


def _splitter(kind: str) -> tuple[Any, Any]:
    """Normaliser and pre-tokenizer that llama.cpp names ``kind``."""
    from tokenizers import Regex, normalizers, pre_tokenizers

    if kind == "qwen2":
        return normalizers.NFC(), pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(QWEN2_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if kind == "smollm":
        return None, pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    raise UserError(f"GGUF pre-tokenizer '{kind}' is not supported; known: qwen2, smollm")


def hf_name(name: str) -> str | None:
    """Hugging Face name of a GGUF tensor; ``None`` for one that is not kept.

    The embeddings are tied: where the file has both, they come from ``output.weight``, which is quantised
    more finely than ``token_embd.weight``.
    """
    if name == "output_norm.weight":
        return "model.norm.weight"
    if name in ("token_embd.weight", "output.weight"):
        return "model.embed_tokens.weight"
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    if match and match[2] in TENSORS:
        return f"model.layers.{match[1]}.{TENSORS[match[2]]}.{match[3]}"
    return None


def unpermute(weight: Array, heads: int) -> Array:
    """Undo llama.cpp's reordering of query and key rows, which interleaves the two rotary halves.

    ``weight``: (heads * head_dim, hidden).
    """
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _tensors(tensors: list[Any], read: Callable[..., Any], progress: Progress) -> Iterator[tuple[str, Array]]:
    from gguf import dequantize

    arch = read("general.architecture")
    heads = {"attn_q": read(f"{arch}.attention.head_count"),
             "attn_k": read(f"{arch}.attention.head_count_kv")}
    both = any(t.name == "output.weight" for t in tensors)
    kept = [t for t in tensors if not (both and t.name == "token_embd.weight")]
    for i, tensor in enumerate(kept):
        name = hf_name(tensor.name)
        if name is None:
            raise UserError(f"GGUF tensor '{tensor.name}' is not supported")
        if i % 50 == 0:
            progress(f"dequantising tensor {i + 1} of {len(kept)}")
        weight = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        if arch == "llama" and part in heads:
            weight = unpermute(weight, heads[part])
        yield name, np.ascontiguousarray(weight, dtype=np.float32)


def _write_tensors(tensors: list[Any], read: Callable[..., Any], folder: Path, progress: Progress) -> None:
    from safetensors.numpy import save_file

    shards: list[list[str]] = []
    shard: dict[str, Array] = {}

    def flush() -> None:
        file = folder / f"model-{len(shards) + 1:05d}.safetensors"
        save_file(shard, file, metadata={"format": "pt"})
        shards.append(list(shard))
        shard.clear()

    total = size = 0
    for name, weight in _tensors(tensors, read, progress):
        if shard and size + weight.nbytes > SHARD_BYTES:
            flush()
            size = 0
        shard[name] = weight
        size += weight.nbytes
        total += weight.nbytes
    flush()
    _name_shards(folder, shards, total)


def _name_shards(folder: Path, shards: list[list[str]], total: int) -> None:
    """Rename to ``model.safetensors``, or to ``model-i-of-n`` with an index, as transformers expects."""
    if len(shards) == 1:
        (folder / "model-00001.safetensors").replace(folder / "model.safetensors")
        return
    weight_map: dict[str, str] = {}
    for i, names in enumerate(shards, 1):
        file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        (folder / f"model-{i:05d}.safetensors").replace(folder / file)
        weight_map |= dict.fromkeys(names, file)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    write_text(folder / "model.safetensors.index.json", json.dumps(index, indent=2))
