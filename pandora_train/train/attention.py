"""Attention over a tree, in two ways: branch by branch (CPU) and by FlexAttention's block mask (GPU).

Both are registered with transformers under their names and get the tree as a keyword argument of the model's
forward. Linear layers run over the packed row as it is; only attention knows about the tree.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pandora_train.errors import UserError
from pandora_train.train.tree import Tree

BRANCHES, FLEX = "pandora_branches", "pandora_flex"
PLAIN = 2**21
"""Largest mask (heads of a group x queries x keys) that is multiplied out in bf16."""


@cache
def register() -> None:
    """Make both implementations known to transformers, with no mask of its own for either."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    for name, function in ((BRANCHES, branch_attention), (FLEX, flex_tree_attention)):
        AttentionInterface.register(name, function)
        AttentionMaskInterface.register(name, _no_mask)


def _no_mask(*_: Any, **__: Any) -> None:
    return None


def branch_attention(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: None,
                     scaling: float, tree: Tree, sliding_window: int | None = None, **_: Any
                     ) -> tuple[Tensor, None]:
    """Each node attends to the nodes above it and, causally, to itself.

    ``query`` is [1, heads, T, d], ``key`` and ``value`` [1, kv_heads, T, d]; returns [1, T, heads, d]. The
    heads of one key-value group are stacked along the query axis, so keys are never repeated.
    """
    _check_window(sliding_window, tree)
    sizes = [n.stop - n.start for n in tree.nodes]
    kv_heads, groups = key.shape[1], query.shape[1] // key.shape[1]
    keys, values = torch.split(key, sizes, 2), torch.split(value, sizes, 2)
    stacked = torch.split(query.view(1, kv_heads, groups, *query.shape[2:]), sizes, 3)
    outputs = []
    for i, node in enumerate(tree.nodes):
        above = [*node.above, i]
        k = torch.cat([keys[j] for j in above], dim=2) if node.above else keys[i]
        v = torch.cat([values[j] for j in above], dim=2) if node.above else values[i]
        q = stacked[i].flatten(2, 3)
        mask = _mask(tree, sizes[i], k.shape[2], groups, q)
        outputs.append(_attend(q, k, v, mask, scaling).view(1, kv_heads, groups, sizes[i], -1))
    return torch.cat(outputs, dim=3).flatten(1, 2).transpose(1, 2).contiguous(), None


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scaling: float) -> Tensor:
    """[1, h, t, d] over [1, h, s, d]. Plain products for short bf16 pieces: torch's fused CPU kernel does
    not use the CPU's bf16 units (three times slower); its merit, no t x s matrix kept, counts for long ones.
    """
    if q.dtype == torch.bfloat16 and mask.numel() <= PLAIN:
        scores = torch.baddbmm(mask.expand(q.shape[1], -1, -1), q[0], k[0].transpose(1, 2), alpha=scaling)
        return torch.bmm(scores.softmax(-1), v[0])[None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scaling)


def _mask(tree: Tree, rows: int, columns: int, groups: int, query: Tensor) -> Tensor:
    """[groups * rows, columns]: the last ``rows`` columns causal, those before them open."""
    key = (rows, columns, groups, query.dtype)
    if key not in tree.masks:
        mask = torch.full((rows, columns), float("-inf"), dtype=query.dtype, device=query.device)
        tree.masks[key] = mask.triu_(columns - rows + 1).repeat(groups, 1)
    made: Tensor = tree.masks[key]
    return made


def flex_tree_attention(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: None,
                        scaling: float, tree: Tree, sliding_window: int | None = None, **_: Any
                        ) -> tuple[Tensor, None]:
    """The same by FlexAttention: blocks of the packed row that no token may see are skipped."""
    _check_window(sliding_window, tree)
    out = _flex(query.device.type)(query, key, value, block_mask=block_mask(tree), scale=scaling,
                                   enable_gqa=query.shape[1] != key.shape[1])
    return out.transpose(1, 2).contiguous(), None


def block_mask(tree: Tree) -> Any:
    """FlexAttention's mask of a tree; made once per tree, shared by its layers."""
    from torch.nn.attention.flex_attention import create_block_mask

    if "flex" not in tree.masks:
        end, length = tree.end, tree.end.shape[0]

        def visible(batch: Tensor, head: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return (k <= q) & (q < end[k])

        tree.masks["flex"] = create_block_mask(visible, None, None, length, length, device=str(end.device))
    return tree.masks["flex"]


@cache
def _flex(device: str) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True) if device == "cuda" else flex_attention


def _check_window(window: int | None, tree: Tree) -> None:
    if window is not None and int(tree.position_ids.max()) >= window:
        raise UserError(f"rows longer than the model's attention window of {window} tokens: lower max_tokens")
