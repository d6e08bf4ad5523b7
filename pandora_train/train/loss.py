"""The loss of a tree: decoder over the packed row, vocabulary head at labelled positions only."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pandora_train.errors import UserError
from pandora_train.train.attention import BRANCHES, FLEX, register
from pandora_train.train.tree import Tree

CHUNK = 256
"""Labelled positions per pass of the vocabulary head: bounds the memory for logits."""


class AnswerLoss(nn.Module):
    """Summed cross-entropy over the labelled tokens of a tree, for a decoder under (or without) peft."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    @property
    def base(self) -> Any:
        """The decoder with its head, without peft's wrapper."""
        return self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model

    def reference(self, ids: Tensor, start: int) -> Tensor:
        """The same by the model's own forward; ``ids`` is [rows, T], tokens after ``start`` are labels."""
        logits = self.base(input_ids=ids, use_cache=False).logits.float()
        targets = ids[:, start + 1:].flatten()
        return F.cross_entropy(logits[:, start:-1].flatten(0, 1), targets, reduction="sum")

    def forward(self, tree: Tree) -> Tensor:
        """Sum over labels, fp32; divide by the labels of the whole optimizer step."""
        causal = self.base
        hidden = causal.get_decoder()(input_ids=tree.input_ids, position_ids=tree.position_ids,
                                      use_cache=False, tree=tree).last_hidden_state
        head = causal.get_output_embeddings()
        bias = getattr(head, "bias", None)
        labelled = hidden[0].index_select(0, tree.predict)
        result: Tensor = _HeadLoss.apply(labelled, head.weight, bias, tree.targets)  # type: ignore[no-untyped-call]
        return result


class _HeadLoss(torch.autograd.Function):
    """Cross-entropy through a frozen head, chunk by chunk; the gradient is made beside the loss.

    So no logits are kept for the backward pass, and none are computed twice.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        needed = ctx.needs_input_grad[0]
        gradient = torch.empty_like(hidden) if needed else None
        for start in range(0, len(targets), CHUNK):
            part, wanted = hidden[start: start + CHUNK].to(weight.dtype), targets[start: start + CHUNK, None]
            logits = F.linear(part, weight, bias).float()
            norm = logits.logsumexp(-1, keepdim=True)
            total += (norm - logits.gather(1, wanted)).sum()
            if gradient is not None:
                slope = logits.sub_(norm).exp_()
                slope.scatter_add_(1, wanted, torch.full_like(norm, -1.0))
                gradient[start: start + CHUNK] = slope.to(weight.dtype) @ weight
        if gradient is not None:
            ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grads[0], None, None, None


def use_tree_attention(model: Any, device: torch.device) -> None:
    """Switch a model to attention over trees: FlexAttention on GPU, branch by branch elsewhere."""
    register()
    model.set_attn_implementation(FLEX if device.type == "cuda" else BRANCHES)


def check_architecture(loss: AnswerLoss, device: torch.device) -> None:
    """Prove on two short rows that tree attention and the separate head give the model's own loss.

    Raises :class:`UserError` for architectures where they do not (scaled logits, other attention).
    """
    from pandora_train.train.encode import Sample
    from pandora_train.train.tree import MIN_SHARED, build_tree

    base, name = loss.base, type(loss.base).__name__
    vocabulary = base.config.get_text_config().vocab_size
    stem = [(7 * i + 3) % vocabulary for i in range(MIN_SHARED + 3)]
    rows = [(*stem, *((11 * i + k) % vocabulary for i in range(5))) for k in (1, 2)]
    marks = tuple(i >= len(stem) + 1 for i in range(len(rows[0])))
    tree = build_tree([Sample(str(n), "", r, marks) for n, r in enumerate(rows)]).to(device)
    loss.eval()
    with torch.no_grad():
        base.set_attn_implementation("sdpa")
        own = loss.reference(torch.tensor(rows, device=device), len(stem))
        use_tree_attention(base, device)
        try:
            ours = loss(tree)
        except (TypeError, AttributeError) as e:
            raise UserError(f"{name} does not take tree attention ({e}): choose another model") from None
    tolerance = 1e-3 if base.dtype == torch.float32 else 2e-2
    if not torch.allclose(own, ours, rtol=tolerance):
        raise UserError(f"{name} computes its loss in a way that shared prefixes do not reproduce "
                        f"({float(own):.5f} against {float(ours):.5f}): choose another model")
