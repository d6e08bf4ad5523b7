"""Base models larger than one GPU: torch's fully_shard over layers, and full tensors for what is saved.

The gradients are those of the unsharded run: each process scales its loss by the number of processes, since
the sharded reduction averages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pandora_train.train.loss import AnswerLoss


def shard(loss: AnswerLoss) -> None:
    """Spread all parameters over the processes, one group per decoder layer, in place.

    The model may still lie on the CPU: each group goes to the process's device as it is sharded.
    """
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    for layer in loss.base.get_decoder().layers:
        fully_shard(layer)
    fully_shard(loss)
    register_fsdp_forward_method(loss, "reference")


def full(value: Any) -> Any:
    """``value`` with sharded tensors gathered, also inside containers; every process must call it."""
    from torch.distributed.tensor import DTensor

    if isinstance(value, DTensor):
        return value.full_tensor()
    if isinstance(value, dict):
        return {k: full(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(full(v) for v in value)
    return value


def sharded_like(value: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """``value`` (full) laid out as ``parameter`` is."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(parameter, DTensor) or value.shape != parameter.shape:
        return value
    return distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements)


def load_optimizer(optimizer: torch.optim.Optimizer, saved: dict[str, Any],
                   parameters: Sequence[torch.nn.Parameter]) -> None:
    """Load AdamW's state, saved with full tensors, into an optimizer over (perhaps sharded) parameters."""
    saved = saved | {"state": {
        i: {k: sharded_like(v, parameters[i]) if torch.is_tensor(v) else v for k, v in entry.items()}
        for i, entry in saved["state"].items()}}
    optimizer.load_state_dict(saved)
