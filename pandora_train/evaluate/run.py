"""Evaluation: every question through the agent, scored by its benchmark's metric, saved at once.

``answer.py`` decides what a failure is; here is what is written. A run with unfinished questions is marked
incomplete, and ``--resume`` takes up just those.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pydantic import PositiveInt

from pandora_train.answer import Notices, answer_all
from pandora_train.errors import UserError
from pandora_train.evaluate.explain import explained, write_errors
from pandora_train.evaluate.results import Demonstrated, MemoryUsed, Results, summarise
from pandora_train.leakage import Reserved
from pandora_train.llm import Identity
from pandora_train.memory import read_entries
from pandora_train.prompt import Prompt
from pandora_train.records import Example, PartText, Trajectory
from pandora_train.runs import Run, write_json
from pandora_train.serve.check import prove
from pandora_train.setup import AnswerConfig, Setup, opened, who_answers
from pandora_train.sources import DataConfig, load_all


class EvaluateConfig(AnswerConfig):
    """``pandora evaluate``: questions to scored trajectories."""

    data: list[DataConfig]
    """Evaluation questions, by benchmark."""
    workers: PositiveInt = 16
    """Questions in flight."""


def evaluate(config: EvaluateConfig, run: Run) -> Results:
    """Answer and score all questions; ``complete`` is false when some are left unfinished.

    Writes ``samples.jsonl``, ``parts.jsonl`` and ``errors.jsonl`` as it goes, ``results.json`` at the end.
    Raises :class:`UserError` for what concerns all questions, also when the model that answers, the memory or
    the prompt settings are not those that the run was begun with.
    """
    examples, unusable = _asked(config.data)
    reserved = Reserved(examples)
    finished = {t.id for t in run.read("samples.jsonl", Trajectory)}
    todo = [e for e in examples if e.id not in finished]
    unfinished: dict[str, str] = {}
    if todo:
        for proof in prove(config.llm) if config.llm else []:
            print(f"{proof.state}: {proof.name}, {proof.detail}", file=sys.stderr)
        with opened(config, reserved.shares) as setup:
            run.record(who_answers(setup, config), {"identity": setup.identity.model_dump(mode="json")})
            unfinished = answer_all(todo, config.workers, "evaluate", _Sink(setup, run))
    for trajectory in unusable:
        if trajectory.id not in finished:
            run.append("samples.jsonl", trajectory)
    samples = run.read("samples.jsonl", Trajectory)
    results = summarise(samples, [*examples, *unusable], unfinished)
    results = results.model_copy(update=_about(config, samples, run, reserved))
    write_json(run.path / "results.json", results.model_dump())
    write_errors(run, samples)
    return results


class _Sink:
    """Answers one question and writes everything about it, the sample last: it marks the question
    finished."""

    def __init__(self, setup: Setup, run: Run) -> None:
        self._answerer, self._run = setup.answerer, run
        self._stored = {p.key for p in run.read("parts.jsonl", PartText)}
        self._lock, self._notices = threading.Lock(), Notices()

    def __call__(self, example: Example) -> None:
        answer = self._answerer(example)
        self._notices(answer.trajectory)
        if answer.prompt is not None:
            self._store(answer.prompt)
        if (diagnosis := explained(answer)) is not None:
            self._run.append("errors.jsonl", diagnosis)
        self._run.append("samples.jsonl", answer.trajectory)

    def _store(self, prompt: Prompt) -> None:
        with self._lock:
            for key, text in prompt.texts.items():
                if key not in self._stored:
                    self._stored.add(key)
                    self._run.append("parts.jsonl", PartText(key=key, text=text))


def _asked(data: Sequence[DataConfig]) -> tuple[list[Example], list[Trajectory]]:
    """The questions, and the ends of those that their own files make unusable: they are asked, outside n."""
    examples: list[Example] = []
    unusable: list[Trajectory] = []
    for config in data:
        loaded = load_all(config)
        examples += loaded.examples
        unusable += [Trajectory(id=id, benchmark=config.benchmark, split=config.split, group="", question="",
                                ending="unusable gold", reason=reason)
                     for id, reason in loaded.unusable.items()]
    twice = [i for i, n in Counter(e.id for e in examples).items() if n > 1]
    if twice:
        raise UserError(f"question {twice[0]} is in the data twice: every question may count once")
    return examples, unusable


def _about(config: EvaluateConfig, samples: list[Trajectory], run: Run, reserved: Reserved) -> dict[str, Any]:
    """What the numbers are about: who answered, how it was asked, demonstrations really shown."""
    facts = run.facts()
    asked = config.retrieval.k if config.retrieval.memory else 0
    leaks = Counter(reserved.shares(e) for e in read_entries(config.retrieval.memory)) if asked else Counter()
    shown = Counter(len(t.demonstrations) for t in samples if t.ending == "answered")
    return {
        "model": config.llm.model if config.llm else "",
        "identity": Identity.model_validate(facts["identity"]) if "identity" in facts else None,
        "prompt": config.prompt_settings(),
        "demonstrations": Demonstrated(asked=asked, shown=dict(sorted(shown.items())),
                                       cut=sum(1 for t in samples if t.demonstrations_cut)),
        "memory": MemoryUsed(entries=sum(leaks.values()), hash=facts.get("memory", ""),
                             left_out={what: n for what, n in sorted(leaks.items()) if what}),
    }
