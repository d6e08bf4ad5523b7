"""vLLM plugin: LoRA on a CPU, right and at nearly the speed of the base model.

Without Triton, vLLM 0.32 applies adapters by copying the adapter's matrices once per *token*, and marks a
token without adapter by index -1, which then picks the last adapter slot. So adapters are several times
slower than the base model, and a base request that shares a batch with an adapter's is answered by the
adapter. This plugin multiplies once per adapter in the batch and skips tokens that have none.

vLLM finds it through the entry point ``vllm.general_plugins`` and calls :func:`register` in each of its
processes; it does nothing unless the platform is a CPU. ``tests/serve`` compares it with vLLM's own.
"""

from __future__ import annotations

import sys
from typing import Any

Group = tuple[int, Any]
"""An adapter slot and the rows (tokens) of the batch that use it."""


def register() -> None:
    """Replace the two matrix products of vLLM's CPU LoRA layer."""
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU

        apply(PunicaWrapperCPU)
        # The server looks for this line in vLLM's log.
        print("pandora_cpu_lora is active", file=sys.stderr, flush=True)


def apply(wrapper: type[Any]) -> None:
    """Patch ``wrapper``, vLLM's ``PunicaWrapperCPU`` or a subclass of it."""
    update = wrapper.update_metadata

    def update_metadata(self: Any, *args: Any, **kwargs: Any) -> None:
        update(self, *args, **kwargs)
        self.pandora_groups = groups(self.token_lora_indices)

    wrapper.pandora_groups = []
    wrapper.update_metadata = update_metadata
    wrapper._apply_shrink = _shrink
    wrapper._apply_expand = _expand


def groups(indices: Any) -> list[Group]:
    """Slots in use with their rows. ``indices``: (tokens,) slot of each token, -1 for none."""
    slots = indices.unique().tolist()
    if len(slots) == 1:
        return [] if slots[0] < 0 else [(slots[0], slice(None))]
    return [(slot, (indices == slot).nonzero().squeeze(1)) for slot in slots if slot >= 0]


def _shrink(self: Any, y: Any, x: Any, w_t_all: Any, scale: float) -> None:
    """``y = scale * x @ A.T`` per slot. x: (tokens, in), w_t_all: (slots, 1, rank, in), y: (tokens, rank)."""
    y, x = y.view(-1, y.shape[-1]), x.view(-1, x.shape[-1])
    for slot, rows in self.pandora_groups:
        a = w_t_all[slot].flatten(0, -2)
        y[rows, : a.shape[0]] = (x[rows] @ a.T.to(x.dtype)).to(y.dtype) * scale


def _expand(self: Any, y: Any, x: Any, w_t_all: Any, y_offset: int, y_slice_size: int,
            add_inputs: bool = True) -> None:
    """``y[:, slice] += x @ B.T`` per slot. x: (tokens, rank), w_t_all: (slots, 1, out, rank)."""
    y, x = y.view(-1, y.shape[-1]), x.view(-1, x.shape[-1])
    part = y[:, y_offset : y_offset + y_slice_size]
    if not add_inputs:
        part.zero_()
    for slot, rows in self.pandora_groups:
        b = w_t_all[slot].flatten(0, -2)
        part[rows] += x[rows].to(y.dtype) @ b.T.to(y.dtype)
