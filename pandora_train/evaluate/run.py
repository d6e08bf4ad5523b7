"""Evaluation: every question through the agent, scored by its benchmark's metric, saved at once.

A model's failure is a scored 0, counted by kind. A failure of our own machinery leaves the sample
unfinished; the run says so and ``--resume`` takes it up again.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import PositiveInt

from pandora_train.agent import Agent, AgentConfig
from pandora_train.box import boxes_for
from pandora_train.config import Config
from pandora_train.errors import MachineryError, UserError
from pandora_train.evaluate.explain import write_errors
from pandora_train.evaluate.stats import summarise
from pandora_train.evaluate.suite import suite_score
from pandora_train.ground import Grounder
from pandora_train.leakage import Reserved
from pandora_train.llm import LLMConfig, open_llm
from pandora_train.memory import RetrievalConfig, open_memory, read_entries
from pandora_train.metrics import as_text, gold_rows, score
from pandora_train.prompt import Prompt, template_hash
from pandora_train.records import Example, PartText, Trajectory, content_id
from pandora_train.runs import Run, file_hash, in_threads, write_json
from pandora_train.sandbox import Sandbox, SandboxConfig
from pandora_train.sources import DataConfig, load


class EvaluateConfig(Config):
    """``pandora evaluate``: questions to scored trajectories."""

    data: list[DataConfig]
    """Evaluation questions, by benchmark."""
    llm: LLMConfig
    """The agent's backbone."""
    agent: AgentConfig = AgentConfig()
    """Prompt and execution guide."""
    retrieval: RetrievalConfig = RetrievalConfig()
    """Memory and K."""
    sandbox: SandboxConfig = SandboxConfig()
    """Limits of generated code."""
    workers: PositiveInt = 16
    """Questions in flight."""


SHOWN = 200  # gold rows kept beside an answer, for reading


def evaluate(config: EvaluateConfig, run: Run) -> dict[str, Any]:
    """Answer and score all questions.

    Writes ``samples.jsonl`` and ``parts.jsonl`` as it goes, then ``results.json`` and ``errors.jsonl``.
    Raises :class:`UserError` at the end when machinery failures left samples unfinished.
    """
    examples = [e for data in config.data for e in load(data)]
    _refuse_repeats(examples)
    reserved, ground = Reserved(examples), Grounder(config.retrieval)
    done = {t.id for t in run.read("samples.jsonl", Trajectory)}
    left = [e for e in examples if e.id not in done]
    trouble = _answer(config, run, left, reserved, ground) if left else Trouble()
    samples = run.read("samples.jsonl", Trajectory)
    results = summarise(samples) | _about(config, samples, examples, trouble, reserved)
    write_json(run.path / "results.json", results)
    parts = {p.key: p.text for p in run.read("parts.jsonl", PartText)}
    by_id = {e.id: e for e in examples}

    def asked(trajectory: Trajectory) -> Example:
        if trajectory.id not in by_id:
            raise UserError(f"{trajectory.id} is no longer in the data")
        return ground(by_id[trajectory.id])

    write_errors(run.path, samples, lambda t: _schema(t, parts), asked)
    if trouble.unfinished:
        raise UserError(f"{len(trouble.unfinished)} samples unfinished by failures of the machinery, first: "
                        f"{trouble.unfinished[0]}; run again with --resume")
    return results


@dataclass
class Trouble:
    """Questions without a sample: by our machinery (taken up again), or because gold or data fail."""

    unfinished: list[str] = field(default_factory=list)
    unusable: dict[str, str] = field(default_factory=dict)


def _schema(trajectory: Trajectory, parts: dict[str, str]) -> str:
    """The BOX schemas that a sample's prompt showed."""
    return "\n".join(parts[p.key] for p in trajectory.prompt if p.kind == "boxes")


def _refuse_repeats(examples: list[Example]) -> None:
    twice = [i for i, n in Counter(e.id for e in examples).items() if n > 1]
    if twice:
        raise UserError(f"question {twice[0]} is in the data twice: every question may count once")


def _answer(config: EvaluateConfig, run: Run, left: list[Example], reserved: Reserved,
            ground: Grounder) -> Trouble:
    memory = open_memory(config.retrieval, reserved.shares)
    llm = open_llm(config.llm)
    stored = {p.key for p in run.read("parts.jsonl", PartText)}
    lock = threading.Lock()
    trouble = Trouble()

    def store(prompt: Prompt) -> None:
        with lock:
            for key, text in prompt.texts.items():
                if key not in stored:
                    stored.add(key)
                    run.append("parts.jsonl", PartText(key=key, text=text))

    def one(example: Example) -> None:
        try:
            example = ground(example)
            boxes, gold = boxes_for(example.knowledge), gold_rows(example)
        except UserError as e:  # told before a call is paid for
            trouble.unusable[example.id] = str(e)
            return
        try:
            near = memory.demonstrations(example, config.retrieval) if memory else []
            trajectory, prompt = agent.solve(example, boxes, near)
            scores = score(example, trajectory.rows, gold) | suite_score(example, trajectory, runner)
        except MachineryError as e:
            trouble.unfinished.append(f"{example.id}: {e}")
            return
        store(prompt)
        shown = None if gold is None else as_text(gold[:SHOWN])
        run.append("samples.jsonl", trajectory.model_copy(update={"scores": scores, "gold_rows": shown}))

    with Sandbox(config.sandbox) as runner:
        agent = Agent(llm, runner, config.agent)
        try:
            in_threads(one, left, config.workers, "evaluate")
        finally:
            llm.close()
    return trouble


def _about(config: EvaluateConfig, samples: list[Trajectory], examples: list[Example], trouble: Trouble,
           reserved: Reserved) -> dict[str, Any]:
    """What the numbers are about: questions, demonstrations really shown, templates, model."""
    shown = Counter(len(t.demonstrations) for t in samples)
    used = bool(config.retrieval.memory) and config.retrieval.k > 0
    leaks = Counter(reserved.shares(e) for e in read_entries(config.retrieval.memory)) if used else Counter()
    return {
        "questions": {"asked": len(examples), "scored": len(samples),
                      "unfinished": len(trouble.unfinished), "unusable": trouble.unusable,
                      "set": content_id(sorted(e.id for e in examples))},
        "memory": {"entries": sum(leaks.values()),
                   "left_out": {what: n for what, n in sorted(leaks.items()) if what}},
        "demonstrations": {"asked": config.retrieval.k if used else 0,
                           "shown": {str(k): n for k, n in sorted(shown.items())},
                           "cut": sum(1 for t in samples if t.demonstrations_cut)},
        "template_hash": template_hash(),
        "model": config.llm.model, "adapter": config.llm.adapter,
        "adapter_sha256": file_hash(Path(config.llm.adapter) / "adapter_model.safetensors"),
    }
