"""Rows that begin alike become a tree of token nodes, laid out in one packed row.

The nodes stand depth first, so a token sees exactly the earlier tokens whose subtree it lies in: token ``k``
is visible to ``q`` when ``k <= q < end[k]``. Positions continue after the prefix, as if each row were alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pandora_train.train.encode import Sample

MIN_SHARED = 32
"""Shorter common beginnings are not worth a node of their own."""


@dataclass(frozen=True)
class Node:
    """Tokens ``[start, stop)`` of the packed row, after the nodes ``above`` (indices, root first)."""

    start: int
    stop: int
    above: tuple[int, ...]


@dataclass(frozen=True)
class Tree:
    """One packed row of T tokens with N labels."""

    input_ids: Tensor
    """[1, T]"""
    position_ids: Tensor
    """[1, T]"""
    end: Tensor
    """[T]: end of the subtree that each token's node heads."""
    predict: Tensor
    """[N]: packed positions whose hidden state predicts a labelled token."""
    targets: Tensor
    """[N]: those tokens."""
    nodes: tuple[Node, ...] = field(repr=False)
    masks: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """Attention masks made for this tree, which its layers share and which end with it."""

    def to(self, device: torch.device) -> Tree:
        """The same tree on ``device``."""
        return Tree(self.input_ids.to(device), self.position_ids.to(device), self.end.to(device),
                    self.predict.to(device), self.targets.to(device), self.nodes)


def build_tree(samples: Sequence[Sample], shared: bool = True) -> Tree:
    """Lay ``samples`` out as a tree (``shared``), or side by side."""
    layout = _Layout()
    if shared:
        layout.grow(list(samples), 0, ())
    else:
        for sample in samples:
            layout.leaf(sample, 0, ())
    return layout.tree()


class _Layout:
    """Packed row under construction."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.positions: list[int] = []
        self.predict: list[int] = []
        self.targets: list[int] = []
        self.nodes: list[Node] = []
        self.ends: list[int] = []

    def grow(self, samples: list[Sample], start: int, above: tuple[int, ...]) -> None:
        """Add the subtrees of ``samples``, which agree before token ``start``."""
        for cluster in _clusters(samples, start):
            if len(cluster) == 1:
                self.leaf(cluster[0], start, above)
                continue
            stop = common_prefix(cluster, start)
            index = self._node(cluster[0].tokens[start:stop], start, above)
            self.grow(cluster, stop, (*above, index))
            self.ends[index] = len(self.ids)

    def leaf(self, sample: Sample, start: int, above: tuple[int, ...]) -> None:
        """Add the tokens of one row from ``start`` on, with its labels."""
        shift = len(self.ids) - start
        self._node(sample.tokens[start:], start, above)
        for i in range(start + 1, len(sample.tokens)):
            if sample.labelled[i]:
                self.predict.append(i - 1 + shift)
                self.targets.append(sample.tokens[i])

    def _node(self, tokens: Sequence[int], position: int, above: tuple[int, ...]) -> int:
        begin = len(self.ids)
        self.ids += tokens
        self.positions += range(position, position + len(tokens))
        self.nodes.append(Node(begin, len(self.ids), above))
        self.ends.append(len(self.ids))
        return len(self.nodes) - 1

    def tree(self) -> Tree:
        end = torch.empty(len(self.ids), dtype=torch.long)
        for node, stop in zip(self.nodes, self.ends, strict=True):
            end[node.start: node.stop] = stop
        return Tree(torch.tensor([self.ids]), torch.tensor([self.positions]), end,
                    torch.tensor(self.predict, dtype=torch.long),
                    torch.tensor(self.targets, dtype=torch.long), tuple(self.nodes))


def _clusters(samples: list[Sample], start: int) -> list[list[Sample]]:
    """Samples that agree on the next MIN_SHARED tokens stand together, in order of first appearance."""
    found: dict[object, list[Sample]] = {}
    for n, sample in enumerate(samples):
        enough = sample.shareable >= start + MIN_SHARED
        key: object = sample.tokens[start: start + MIN_SHARED] if enough else n
        found.setdefault(key, []).append(sample)
    return list(found.values())


def common_prefix(samples: Sequence[Sample], start: int = 0) -> int:
    """Length of the longest shareable beginning, given that the first ``start`` tokens agree."""
    first = samples[0].tokens
    stop = min(s.shareable for s in samples)
    for sample in samples[1:]:
        stop = next((i for i in range(start, stop) if first[i] != sample.tokens[i]), stop)
    return stop
