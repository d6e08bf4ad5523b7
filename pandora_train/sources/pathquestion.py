"""PathQuestion: ``PQ-2H.txt`` and ``PQ-3H.txt`` with their graphs ``2H-kb.txt`` and ``3H-kb.txt``.

Source: https://github.com/zmtkeke/IRN. Each line holds the question, ``answer(all/answers/)`` and the path
``topic#relation#node#…#<end>#answer``. There are no official splits, and a random one leaks (most test rows
would have their gold path in train), so questions are split by topic entity: by its hash, 8 of 10 parts
train, 1 dev, 1 test.
"""

from __future__ import annotations

from pathlib import Path

from pandora_train.errors import UserError
from pandora_train.records import Example, Gold, GraphKnowledge, content_id
from pandora_train.sources.reading import Loaded, folder, lines, numbered
from pandora_train.sources.select import DataConfig, digest, relations

_DEPTHS = {"2H": 2, "3H": 3}
ARROW = " -> "
"""Between the relations of ``gold.program``, followed from the topic: ``spouse -> nationality``."""


def read(config: DataConfig) -> Loaded:
    """The questions of one split; with ``hops=2`` or ``hops=3`` only those of that depth."""
    root = folder(config.path)
    depths = {n: d for n, d in _DEPTHS.items() if config.hops in (None, d)}
    present = [n for n in depths if (root / f"PQ-{n}.txt").is_file()]
    if not present:
        raise UserError(f"{root} has no {' or '.join(f'PQ-{n}.txt' for n in depths) or 'such hops (2 or 3)'}")
    examples: list[Example] = []
    ids: dict[str, int] = {}
    for name in present:
        kb = root / f"{name}-kb.txt"
        if not kb.is_file():
            raise UserError(f"{root} has no {kb.name}, the graph of PQ-{name}.txt")
        for number, line in lines(root / f"PQ-{name}.txt"):
            try:
                examples += _example(line, kb, name, config, ids)
            except ValueError:
                raise UserError(f"{root}/PQ-{name}.txt, line {number}: not question, answers, path") from None
    return Loaded(examples)


def _example(line: str, kb: Path, depth: str, config: DataConfig, ids: dict[str, int]) -> list[Example]:
    question, answers, path = line.split("\t")
    main, listed = answers.rstrip(")").split("(", 1)
    steps = path.split("#")
    topic, chain = steps[0], steps[1 : steps.index("<end>") : 2]
    if split_of(topic) != config.split:
        return []
    gold = tuple(dict.fromkeys(a for a in (main, *listed.split("/")) if a))
    return [
        Example(
            id=numbered(ids, f"pathquestion:{depth}:{content_id(question, path, size=8)}"),
            benchmark="pathquestion",
            split=config.split,
            question=" ".join(question.split()),
            knowledge=GraphKnowledge(
                store=config.store or str(kb),
                topics=(topic,),
                hops=_DEPTHS[depth],
                relations=relations(config),
            ),
            gold=Gold(language="path", program=ARROW.join(chain), answers=gold),
            group=topic,
            tags={"depth": depth, "chain": ARROW.join(chain)},
        )
    ]


def split_of(topic: str) -> str:
    """``train``, ``dev`` or ``test`` by the topic entity's hash (8 : 1 : 1)."""
    return {8: "dev", 9: "test"}.get(digest(topic) % 10, "train")
