"""The in-process backend: batches and shared prefixes change nothing in the replies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pandora_train.errors import MachineryError, PromptTooLong, UserError
from pandora_train.llm import LLMConfig, Message, Reply, open_llm
from pandora_train.llm.local import shared_prefix
from pandora_train.llm.tokens import turn_end

SHARED = "BOX city = pd.DataFrame({'name': [...], 'population': [...]})"


def prompts(system: str = SHARED) -> list[list[Message]]:
    asked = ["a", "which city has most people, and why?", "count", "b c d"]
    return [[{"role": "system", "content": system}, {"role": "user", "content": q}] for q in asked]


def replies(model: Path | str, batch: int, asked: list[list[Message]], tokens: int = 24) -> list[Reply]:
    llm = open_llm(LLMConfig(kind="transformers", model=str(model), batch=batch, max_tokens=tokens))
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = list(pool.map(llm.chat, asked))
    llm.close()
    return answers


def test_batched_with_a_shared_prefix_equals_one_by_one(tiny_model: Path) -> None:
    single, batched = replies(tiny_model, 1, prompts()), replies(tiny_model, 4, prompts())
    assert [r.text for r in single] == [r.text for r in batched]
    assert len({r.text for r in single}) > 1
    assert any(r.usage.cached_tokens > len(SHARED) for r in batched)
    assert not any(r.usage.cached_tokens for r in single)


def test_batched_without_a_shared_prefix_equals_one_by_one(tiny_model: Path) -> None:
    asked = [prompts(system)[i] for i, system in enumerate(["x" * 50, "y", "z z", "w" * 20])]
    asked = [[m[1], m[0]] if i % 2 else m for i, m in enumerate(asked)]
    assert [r.text for r in replies(tiny_model, 1, asked)] == [r.text for r in replies(tiny_model, 4, asked)]


def test_a_reply_at_its_limit_is_cut(tiny_model: Path) -> None:
    reply = replies(tiny_model, 1, prompts()[:1], tokens=2)[0]
    assert reply.finish == "length"
    assert reply.usage.completion_tokens == 2


def test_a_prompt_beyond_the_context_is_its_own_error(tiny_model: Path) -> None:
    llm = open_llm(LLMConfig(kind="transformers", model=str(tiny_model), context=100, max_tokens=50))
    assert llm.count_tokens(prompts()[0]) > 50
    with pytest.raises(PromptTooLong):
        llm.chat(prompts()[0])
    llm.close()
    with pytest.raises(MachineryError, match="closed"):
        llm.chat([{"role": "user", "content": "a"}])


def test_an_adapter_changes_the_replies_and_a_wrong_folder_is_named(tiny_model: Path, tmp_path: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    tuned = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model),
                           LoraConfig(r=4, target_modules=["q_proj", "up_proj"], init_lora_weights=False))
    tuned.save_pretrained(tmp_path / "adapter")
    config = LLMConfig(kind="transformers", model=str(tiny_model), max_tokens=24)
    with pytest.raises(UserError, match=r"adapter_config\.json"):
        open_llm(config.model_copy(update={"adapter": str(tmp_path)}))
    llm = open_llm(config.model_copy(update={"adapter": str(tmp_path / "adapter")}))
    assert [llm.chat(p).text for p in prompts()] != [r.text for r in replies(tiny_model, 1, prompts())]
    llm.close()


def adapter(folder: Path, model: Path, width: int = 32) -> Path:
    """A random adapter of ``model``, or of one with another width."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, LlamaConfig

    torch.manual_seed(1)
    base = AutoModelForCausalLM.from_pretrained(model) if width == 32 else AutoModelForCausalLM.from_config(
        LlamaConfig(vocab_size=259, hidden_size=width, intermediate_size=64, num_hidden_layers=2,
                    num_attention_heads=4, num_key_value_heads=2))
    get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "up_proj"], init_lora_weights=False)).save_pretrained(folder)
    return folder


def renamed(folder: Path, change: Callable[[str], str]) -> None:
    """Give an adapter's tensors other names; those without one are left out."""
    from safetensors.numpy import load_file, save_file

    file = folder / "adapter_model.safetensors"
    save_file({name: t for key, t in load_file(file).items() if (name := change(key))}, file)


@pytest.mark.parametrize(("change", "says"), [
    (lambda key: key.replace("layers", "blocks"), "0 of its 8 tensors"),
    (lambda key: key.replace(".layers.1.", ".layers.7."), "4 of its 8 tensors"),
    (lambda key: "" if "layers.1" in key else key, "4 of its 4 tensors match one of the model's 8")])
def test_an_adapter_of_another_base_is_refused(tiny_model: Path, tmp_path: Path, change: Callable[[str], str],
                                               says: str) -> None:
    renamed(adapter(tmp_path / "a", tiny_model), change)
    with pytest.raises(UserError, match=says):
        open_llm(LLMConfig(kind="transformers", model=str(tiny_model), adapter=str(tmp_path / "a")))


def test_an_adapter_of_another_width_or_without_its_modules_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    adapter(tmp_path / "wide", tiny_model, width=64)
    with pytest.raises(UserError, match="does not fit the model"):
        open_llm(LLMConfig(kind="transformers", model=str(tiny_model), adapter=str(tmp_path / "wide")))
    config = adapter(tmp_path / "b", tiny_model) / "adapter_config.json"
    config.write_text(config.read_text().replace("q_proj", "attn_q").replace("up_proj", "mlp_up"))
    with pytest.raises(UserError, match="does not fit the model"):
        open_llm(LLMConfig(kind="transformers", model=str(tiny_model), adapter=str(tmp_path / "b")))


@pytest.mark.parametrize("weights", [b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", b""])
def test_weights_that_are_no_weights_are_named(tiny_model: Path, tmp_path: Path, weights: bytes) -> None:
    (adapter(tmp_path / "a", tiny_model) / "adapter_model.safetensors").write_bytes(weights)
    with pytest.raises(UserError, match="cannot be read"):
        open_llm(LLMConfig(kind="transformers", model=str(tiny_model), adapter=str(tmp_path / "a")))
    shutil.copytree(tiny_model, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(weights)
    with pytest.raises(UserError, match="cannot load model"):
        open_llm(LLMConfig(kind="transformers", model=str(tmp_path / "model")))


def test_the_templates_end_of_turn_ends_a_reply(tiny_model: Path, tmp_path: Path) -> None:
    """A base model that calls another token its end: what training taught it to stop with counts too."""
    from transformers import AutoTokenizer

    folder = tmp_path / "base"
    shutil.copytree(tiny_model, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    tokenizer.eos_token = "<|endoftext|>"
    tokenizer.save_pretrained(folder)
    for name in ("config.json", "generation_config.json"):
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(settings | {"eos_token_id": 0}))
    assert turn_end(AutoTokenizer.from_pretrained(folder)) == end
    llm = open_llm(LLMConfig(kind="transformers", model=str(folder)))
    assert llm._stop_ids == sorted({0, end})  # type: ignore[attr-defined]
    llm.close()


@pytest.mark.parametrize(("template", "end"), [
    ("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}", None),
    ("{% for m in messages %}<|im_start|>{{ m['content'] }}{% endfor %}", None),
    ("{% for m in messages %}{{ m['content'] }}\n<|im_end|><|endoftext|>{% endfor %}", "<|im_end|>"),
    ("{{ raise_exception('no') }}", None), (None, None)])
def test_the_end_of_a_turn(tiny_model: Path, template: str | None, end: str | None) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = template
    assert turn_end(tokenizer) == (None if end is None else tokenizer.convert_tokens_to_ids(end))


def test_an_adapters_own_template_is_used(tiny_model: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = tokenizer.chat_template.replace("<|im_start|>", "<|im_start|>own ")
    tokenizer.save_pretrained(adapter(tmp_path / "a", tiny_model))
    tuned = open_llm(LLMConfig(kind="transformers", model=str(tiny_model), adapter=str(tmp_path / "a")))
    base = open_llm(LLMConfig(kind="transformers", model=str(tiny_model)))
    assert tuned.count_tokens(prompts()[0]) > base.count_tokens(prompts()[0])
    tuned.close()
    base.close()


def test_shared_prefix_leaves_a_token_to_each_row() -> None:
    row = list(range(50))
    assert shared_prefix([row, row]) == 49
    assert shared_prefix([[*row, 7], [*row, 8, 9]]) == 50
    assert shared_prefix([row[:20], row]) == 0  # too short to be worth it
    assert shared_prefix([row]) == 0


@pytest.mark.slow
@pytest.mark.model
def test_a_real_model_answers_the_same_in_a_batch() -> None:
    model, asked = "pypi:smollm2-135m-instruct", [prompts()[1], prompts()[2]]
    single = replies(model, 1, asked, 12)
    assert [r.text for r in single] == [r.text for r in replies(model, 2, asked, 12)]
    assert all(r.text for r in single)
