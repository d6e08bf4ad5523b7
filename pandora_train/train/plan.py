"""Which rows go into which optimizer step: fixed by the seed alone, so that a resumed run sees the same.

Rows of one group come in bundles of at most ``branches``; a group's bundles are spread over the epoch, each
at a random place in its stretch, so a step mixes several databases. Bundles of one are plain shuffling.
Every process knows the whole plan, hence the number of labels in a step, and the loss needs no communication
to be normalised.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from pandora_train.train.encode import Sample
from pandora_train.train.tree import MIN_SHARED, common_prefix


@dataclass(frozen=True)
class Plan:
    """Optimizer steps over ``samples`` (indices)."""

    steps: tuple[tuple[int, ...], ...]
    per_epoch: int
    """Steps in one epoch."""


def make_plan(samples: Sequence[Sample], batch_size: int, branches: int, epochs: float, max_steps: int,
              seed: int) -> Plan:
    """Steps of ``batch_size`` rows each (the last of an epoch may be smaller), of two groups at least."""
    branches = min(branches, max(1, batch_size // 2))
    per_epoch = math.ceil(len(samples) / batch_size)
    total = max(1, round(per_epoch * epochs))
    total = min(total, max_steps) if max_steps else total
    steps: list[tuple[int, ...]] = []
    epoch = 0
    while len(steps) < total:
        order = _epoch(samples, branches, random.Random(f"{seed}/{epoch}"))
        steps += [tuple(order[i: i + batch_size]) for i in range(0, len(order), batch_size)]
        epoch += 1
    return Plan(tuple(steps[:total]), per_epoch)


def _epoch(samples: Sequence[Sample], branches: int, rng: random.Random) -> list[int]:
    if branches == 1:
        return rng.sample(range(len(samples)), len(samples))
    groups: dict[str, list[int]] = {}
    for i, sample in enumerate(samples):
        groups.setdefault(sample.group, []).append(i)
    bundles: list[tuple[float, list[int]]] = []
    for members in groups.values():
        rng.shuffle(members)
        cut = [members[i: i + branches] for i in range(0, len(members), branches)]
        bundles += [((n + rng.random()) / len(cut), bundle) for n, bundle in enumerate(cut)]
    return [i for _, bundle in sorted(bundles) for i in bundle]


def share(step: Sequence[Sample], rank: int, world: int) -> Sequence[Sample]:
    """The rows of a step that process ``rank`` of ``world`` takes: neighbours, so that sharing stays."""
    return step[rank * len(step) // world: (rank + 1) * len(step) // world]


def micro_batches(samples: Sequence[Sample], budget: int, shared: bool) -> list[list[Sample]]:
    """Cut rows into forward passes of at most ``budget`` tokens after sharing (a longer row goes alone)."""
    batches: list[list[Sample]] = []
    used = 0
    for sample in samples:
        cost = len(sample.tokens)
        if batches:
            known = max(common_prefix([sample, s]) for s in batches[-1]) if shared else 0
            added = cost - (known if known >= MIN_SHARED else 0)
            if used + added <= budget:
                batches[-1].append(sample)
                used += added
                continue
        batches.append([sample])
        used = cost
    return batches
