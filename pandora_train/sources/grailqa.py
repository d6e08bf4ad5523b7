"""GrailQA: ``grailqa_v1.0_{train,dev}.json``, ``grailqa_v1.0_test_public.json``, over a graph store.

Source: the official release (https://dki-lab.github.io/GrailQA/). Where the official train file is missing,
AgentBench's knowledge-graph rows (``agentbench_*.json``, questions with s-expressions) stand in for it; rows
that repeat a dev question's logical form, or were made from a WebQSP test question, are not usable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pandora_train.records import Example, Gold
from pandora_train.sources import reading
from pandora_train.sources.freebase import Entity, Store, Unusable, open_store
from pandora_train.sources.reading import Loaded, first_file, folder, numbered, records
from pandora_train.sources.select import DataConfig

HOPS = 3
_FILES = {
    "train": ["grailqa_v1.0_train.json"],
    "dev": ["grailqa_v1.0_dev.json"],
    "test": ["grailqa_v1.0_test_public.json"],
}


def read(config: DataConfig) -> Loaded:
    """Questions with a topic entity; answers are ids, or names over a fragment."""
    root = folder(config.path)
    store = open_store(config, root)
    substitutes = sorted(root.glob("agentbench_*.json"))
    if config.split == "train" and substitutes and not (root / _FILES["train"][0]).is_file():
        return _agentbench(root, substitutes, store, config)
    examples: list[Example] = []
    unusable: dict[str, str] = {}
    file = first_file(root, _FILES[config.split])
    for number, entry in enumerate(records(file, ["qid", "question"]), 1):
        example_id = f"grailqa:{entry['qid']}"
        try:
            with reading.entry(file, number):
                examples.append(_official(example_id, entry, store, config))
        except Unusable as e:
            unusable[example_id] = str(e)
    return Loaded(examples, unusable)


def _official(example_id: str, entry: dict[str, Any], store: Store, config: DataConfig) -> Example:
    nodes = entry.get("graph_query", {}).get("nodes", [])
    entities = [Entity(n["id"], n.get("friendly_name", "")) for n in nodes if n["node_type"] == "entity"]
    # the public test file has no graph query; some releases carry the linked entities instead
    entities = entities or [Entity(mid, name) for mid, name in entry.get("topic_entity", {}).items()]
    tags: dict[str, str] = {k: str(entry[k]) for k in ("level", "function") if k in entry}
    return _example(example_id, entry, entities, store, config, tags)


def _example(
    example_id: str,
    entry: dict[str, Any],
    entities: list[Entity],
    store: Store,
    config: DataConfig,
    tags: dict[str, str],
) -> Example:
    topics = store.topics(entities)
    program = entry.get("s_expression") or ""
    answers = _answers(entry.get("answer"))
    return Example(
        id=example_id,
        benchmark="grailqa",
        split=config.split,
        question=entry["question"].strip(),
        knowledge=store.knowledge(config, topics, HOPS),
        gold=Gold(
            language="sexpr" if program else "",
            program=program,
            answers=None if answers is None else store.answers(answers),
            answer_ids=tuple(a.id for a in answers or ()),
        ),
        group=topics[0],
        tags=tags,
    )


def _answers(answer: Any) -> list[Entity] | None:
    """Gold answers; ``"null"`` is the official spelling of an empty set, no key means that none is given."""
    if answer is None:
        return None
    if answer == "null":
        return []
    return [Entity(str(a["answer_argument"]), a.get("entity_name") or "") for a in answer]


def _agentbench(root: Path, files: list[Path], store: Store, config: DataConfig) -> Loaded:
    dev = root / _FILES["dev"][0]
    forms = {e.get("s_expression") for e in records(dev, ["qid"])} if dev.is_file() else set()
    examples: list[Example] = []
    unusable: dict[str, str] = {}
    ids: dict[str, int] = {}
    for file in files:
        rows = records(file, ["qid", "question", "entities", "s_expression", "answer"])
        for place, entry in enumerate(rows, 1):
            number, _, source = str(entry["qid"]).rpartition("_")
            base = f"grailqa:{number}" if source == "grailqa" else f"grailqa:{entry['qid']}"
            example_id = numbered(ids, base)
            try:
                if example_id != base:
                    raise Unusable("repeats another row")
                if entry["s_expression"] in forms:
                    raise Unusable("has the logical form of a dev question")
                if number.startswith("WebQTest"):
                    raise Unusable("was made from a WebQSP test question")
                with reading.entry(file, place):
                    entities = [Entity(mid, name) for name, mid in entry["entities"].items()]
                    examples.append(_example(example_id, entry, entities, store, config, {"source": source}))
            except Unusable as e:
                unusable[example_id] = str(e)
    return Loaded(examples, unusable)
