"""The vLLM plugin against vLLM's own CPU LoRA layer, which is right where each token has an adapter."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm", reason="vLLM is not installed (scripts/setup.sh)")

from pandora_train.serve.cpu_lora import apply, groups  # noqa: E402

SLOTS, RANK, WIDTH, SLICES, TOKENS = 2, 4, 12, (8, 6), 9


def wrapper(patched: bool, slots: list[int]) -> Any:
    """A punica wrapper whose batch uses adapter ``slots[i] + 1`` for token i (-1: none)."""
    from vllm.lora.layers.utils import LoRAMapping
    from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

    class Wrapper(PunicaWrapperCPU):  # type: ignore[misc]
        pass

    if patched:
        apply(Wrapper)
    made = Wrapper(64, 64, "cpu")
    ids = tuple(slot + 1 for slot in slots)
    made.update_metadata(LoRAMapping(ids, ids, is_prefill=True), [1, 2], SLOTS, 100)
    return made


def add_lora(patched: bool, slots: list[int]) -> Any:
    torch.manual_seed(0)
    x, y = torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, sum(SLICES))
    a = tuple(torch.randn(SLOTS, 1, RANK, WIDTH) for _ in SLICES)
    b = tuple(torch.randn(SLOTS, 1, size, RANK) for size in SLICES)
    wrapper(patched, slots).add_lora_linear(y, x, a, b, 0.5, SLICES)
    torch.manual_seed(0)
    torch.randn(TOKENS, WIDTH)
    return y, torch.randn(TOKENS, sum(SLICES))


@pytest.mark.parametrize("slots", [[0] * TOKENS, [1] * TOKENS, [0, 1, 1, 0, 1, 0, 0, 1, 1]])
def test_equals_vllm_where_every_token_has_an_adapter(slots: list[int]) -> None:
    ours, before = add_lora(True, slots)
    theirs, _ = add_lora(False, slots)
    assert not torch.allclose(ours, before)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_tokens_without_an_adapter_stay_as_they_are() -> None:
    mixed = [0, -1, -1, 1, 0, -1, 1, 1, -1]
    ours, before = add_lora(True, mixed)
    bare = torch.tensor(mixed) < 0
    assert torch.equal(ours[bare], before[bare])
    expected = torch.stack([add_lora(False, [max(s, 0)] * TOKENS)[0][i] for i, s in enumerate(mixed)])
    torch.testing.assert_close(ours[~bare], expected[~bare], rtol=1e-5, atol=1e-5)


def test_a_batch_of_the_base_model_is_left_alone() -> None:
    ours, before = add_lora(True, [-1] * TOKENS)
    assert torch.equal(ours, before)


def test_groups() -> None:
    assert groups(torch.tensor([-1, -1])) == []
    assert groups(torch.tensor([3, 3])) == [(3, slice(None))]
    assert [(slot, rows.tolist()) for slot, rows in groups(torch.tensor([1, -1, 0, 1]))] == [(0, [2]), (1, [0, 3])]


def test_vllm_finds_the_plugin() -> None:
    from importlib.metadata import entry_points

    found = {p.name: p.value for p in entry_points(group="vllm.general_plugins")}
    assert found.get("pandora_cpu_lora") == "pandora_train.serve.cpu_lora:register"
