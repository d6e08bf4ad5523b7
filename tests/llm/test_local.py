"""The in-process backend: batches and shared prefixes change nothing in the replies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pandora_train.errors import MachineryError, PromptTooLong, UserError
from pandora_train.llm import LLMConfig, Message, Reply, open_llm
from pandora_train.llm.local import shared_prefix

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
