"""WebQSP: ``WebQSP.train.json`` and ``WebQSP.test.json`` (also in ``data/``), over a graph store.

Source: the official release (https://www.microsoft.com/download/details.aspx?id=52763), an object with
``Questions``, or that list alone. A question counts when one of its parses has a Good question and a Complete
parse, as in the official ``eval.py``. There is no official dev split; ``WebQSP.dev.json`` is read where
somebody made one. Two reduced forms are read as well: ``webqsp_test.json`` (answers with names and ids, an
s-expression where one is known) and ``webqsp_train_paths.json`` (answers by name, relation paths; its
``validation`` rows are dev).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pandora_train.errors import UserError
from pandora_train.records import Example, Gold
from pandora_train.sources import reading
from pandora_train.sources.freebase import Entity, Store, Unusable, open_store
from pandora_train.sources.pathquestion import ARROW
from pandora_train.sources.reading import Loaded, checked, first_file, folder, read_json, records
from pandora_train.sources.select import DataConfig

HOPS = 2
_PATHS = "webqsp_train_paths.json"
_FILES = {
    "train": ["WebQSP.train.json", "data/WebQSP.train.json", _PATHS],
    "dev": ["WebQSP.dev.json", "data/WebQSP.dev.json", _PATHS],
    "test": ["WebQSP.test.json", "data/WebQSP.test.json", "webqsp_test.json"],
}


def read(config: DataConfig) -> Loaded:
    """Questions that the official evaluation keeps and that have a topic in the store.

    ``config.path`` may also be one questions file itself.
    """
    given = Path(os.path.expanduser(config.path))
    root = given.parent if given.is_file() else folder(config.path)
    store = open_store(config, root)
    file = given if given.is_file() else first_file(root, _FILES[config.split])
    programs = _programs(config.programs)
    examples: list[Example] = []
    unusable: dict[str, str] = {}
    for number, (identifier, entry, make) in enumerate(_entries(file, config.split), 1):
        try:
            with reading.entry(file, number):
                example: Example = make(f"webqsp:{identifier}", entry, store, config)
        except Unusable as e:
            unusable[f"webqsp:{identifier}"] = str(e)
            continue
        if program := programs.get(_asked(example.question)):
            gold = example.gold.model_copy(update={"language": "steps", "program": program})
            example = example.model_copy(update={"gold": gold})
        examples.append(example)
    return Loaded(examples, unusable)


def _programs(path: str) -> dict[str, str]:
    """Step programs by question (TrustUQA's layout), instead of the questions' own labels."""
    if not path:
        return {}
    data = read_json(Path(path))
    if not isinstance(data, dict) or not all(isinstance(v, str | None) for v in data.values()):
        raise UserError(f"{path} must hold a JSON object of step programs by question")
    return {_asked(question): program for question, program in data.items() if program}


def _asked(question: str) -> str:
    return question.lower().rstrip(" ?")


def _entries(file: Path, split: str) -> list[tuple[str, dict[str, Any], Any]]:
    """Id, entry and the function that makes an example of this file's form."""
    if file.name == _PATHS:
        wanted = "validation" if split == "dev" else "train"
        rows = records(file, ["id", "split", "question", "answers", "rel_paths", "linked"])
        return [(r["id"], r, _from_paths) for r in rows if r["split"] == wanted]
    data = read_json(file)
    if isinstance(data, dict):
        if "Questions" not in data:
            raise UserError(f"{file} has no 'Questions': is it the official WebQSP file?")
        data = data["Questions"]
    if isinstance(data, list) and data and isinstance(data[0], dict) and "QuestionId" in data[0]:
        rows = checked(file, data, ["QuestionId", "RawQuestion", "Parses"])
        return [(r["QuestionId"], r, _official) for r in rows]
    rows = checked(file, data, ["id", "question", "topic_entity", "answers", "answer_mids"])
    return [(r["id"], r, _reduced) for r in rows]


def _official(example_id: str, entry: dict[str, Any], store: Store, config: DataConfig) -> Example:
    """The best parse decides the score, over *all* parses once one is Good and Complete (official script)."""
    parses = entry["Parses"]
    good = [p for p in parses if _good(p.get("AnnotatorComment", {}))]
    if not good:
        raise Unusable("no parse with a Good question and a Complete parse")
    first = _answers(good[0])
    topics = [
        Entity(p["TopicEntityMid"], p.get("TopicEntityName") or "") for p in good if p.get("TopicEntityMid")
    ]
    gold = Gold(
        language="sparql",
        program=good[0].get("Sparql") or "",
        answers=store.answers(first),
        answer_ids=tuple(a.id for a in first),
        parses=tuple(store.answers(_answers(p)) for p in parses),
    )
    return _example(example_id, entry["RawQuestion"], topics, gold, store, config)


def _good(comment: dict[str, Any]) -> bool:
    return comment.get("QuestionQuality") == "Good" and comment.get("ParseQuality") == "Complete"


def _answers(parse: dict[str, Any]) -> list[Entity]:
    return [Entity(str(a["AnswerArgument"]), a.get("EntityName") or "") for a in parse["Answers"]]


def _reduced(example_id: str, entry: dict[str, Any], store: Store, config: DataConfig) -> Example:
    """Names and ids of the answers are two lists in no common order; values have no name."""
    ids = tuple(dict.fromkeys(entry["answer_mids"]))
    values = [i for i in ids if not i.startswith(("m.", "g."))]
    names = tuple(dict.fromkeys([n for n in entry["answers"] if n is not None] + values))
    if store.names is not None and len(names) != len(ids):
        raise Unusable("different gold answers share a name in the fragment")
    answers = ids if store.names is None else names
    program = entry.get("lf_exec_equal_gold") or ""
    gold = Gold(
        language="sexpr" if program else "",
        program=program,
        answers=answers,
        answer_ids=ids,
        parses=(answers,),
    )
    entities = [Entity(mid, name) for mid, name in entry["topic_entity"].items()]
    return _example(example_id, entry["question"], entities, gold, store, config)


def _from_paths(example_id: str, entry: dict[str, Any], store: Store, config: DataConfig) -> Example:
    if store.names is None:
        raise Unusable("its answers are names, the store's nodes are ids")
    paths = [[r.strip("/").replace("/", ".") for r in path] for path, _ in entry["rel_paths"]]
    answers = tuple(dict.fromkeys(entry["answers"]))
    gold = Gold(
        language="path" if paths else "",
        program=ARROW.join(paths[0]) if paths else "",
        answers=answers,
        parses=(answers,),
    )
    entities = [Entity(link["mid"], link["concept"]) for link in entry["linked"]]
    return _example(example_id, entry["question"], entities, gold, store, config)


def _example(
    example_id: str, question: str, entities: list[Entity], gold: Gold, store: Store, config: DataConfig
) -> Example:
    topics = store.topics(entities)
    return Example(
        id=example_id,
        benchmark="webqsp",
        split=config.split,
        question=question.strip(),
        knowledge=store.knowledge(config, topics, HOPS),
        gold=gold,
        group=topics[0],
    )
