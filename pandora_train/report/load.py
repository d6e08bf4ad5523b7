"""Reads run folders for reports: samples, prompt parts, results, config; nothing is computed twice."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pandora_train.config import load
from pandora_train.errors import UserError, did_you_mean
from pandora_train.evaluate.error_kinds import Diagnosis, diagnose
from pandora_train.evaluate.results import BenchmarkResults, Results, read_results, summarise
from pandora_train.llm.identity import Identity
from pandora_train.records import PartText, Trajectory, Usage
from pandora_train.runs import read_jsonl
from pandora_train.sources import DataConfig
from pandora_train.sources.freebase import NO_GRAPH

if TYPE_CHECKING:
    from pandora_train.evaluate.run import EvaluateConfig


@dataclass(frozen=True)
class RunData:
    """One evaluation run, as its folder holds it."""

    path: Path
    name: str
    results: Results
    """As written at its end; over the samples so far, where it is not finished."""
    finished: bool = True
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    samples: tuple[Trajectory, ...] = ()
    parts: dict[str, str] = field(default_factory=dict)

    @cached_property
    def diagnoses(self) -> dict[str, Diagnosis]:
        """Error kind by sample id, for samples that are not fully right.

        Read from ``errors.jsonl`` where the evaluation wrote it (with the BOXes at hand), else made from
        the samples alone.
        """
        stored = {d.id: d for d in read_jsonl(self.path / "errors.jsonl", Diagnosis)}
        fresh = (diagnose(t, self.schema(t)) for t in self.samples if t.id not in stored)
        return stored | {d.id: d for d in fresh if d is not None}

    @property
    def benchmarks(self) -> dict[str, BenchmarkResults]:
        """Figures by benchmark."""
        return self.results.benchmarks

    @cached_property
    def settings(self) -> EvaluateConfig:
        """The run's config, read as the record that evaluation wrote.

        Raises :class:`UserError` for the config of another version of the code.
        """
        from pandora_train.evaluate.run import EvaluateConfig  # with pandas, which `pandora show` can spare

        try:
            return load(EvaluateConfig, self.path / "config.yaml")
        except UserError as e:
            raise UserError(f"{self.path} was written by another version of this code ({e}): evaluate "
                            "again") from None

    def title(self, benchmark: str) -> str:
        """The benchmark's name in tables; answers over a fragment of a graph are not the benchmark's own."""
        return f"{benchmark}-fragment" if any(map(_fragment, self._data(benchmark))) else benchmark

    def incomplete(self, benchmark: str) -> bool:
        """Whether questions of ``benchmark`` have no end yet, so that its scores are over a part."""
        figures = self.benchmarks.get(benchmark)
        return figures is not None and (not self.finished or figures.questions.unfinished > 0)

    def _data(self, benchmark: str) -> list[DataConfig]:
        return [d for d in self.settings.data if d.benchmark == benchmark]

    @cached_property
    def facts(self) -> dict[str, str]:
        """What the numbers are about, as far as config and results say."""
        agent, retrieval = self.settings.agent, self.settings.retrieval
        results, shown = self.results, self.results.demonstrations
        settings = results.prompt.model_dump() if results.prompt else {}
        facts = {
            "model": results.model,
            "adapter": self.settings.llm.adapter if self.settings.llm else "",
            "answered by": _identity(results.identity),
            "K asked": shown.asked,
            "demonstrations shown": ", ".join(f"{k} in {n}" for k, n in shown.shown.items()),
            "prompts with demonstrations cut": shown.cut,
            "memory": results.memory.hash,
            "rounds of feedback (L)": agent.rounds,
            "prompt settings": ", ".join(f"{k} {v}" for k, v in settings.items() if v != ""),
            "retrieval": f"{retrieval.scope} {retrieval.order}" if shown.asked else "",
            **{f"{self.title(b)} questions": "; ".join(map(_asked, self._data(b))) for b in self.benchmarks},
            "question set": results.question_set,
            "questions": results.questions.words() or f"{results.questions.asked}, all answered",
            "code commit": str(self.environment.get("commit", ""))[:12],
        }
        if not self.finished:
            facts["state"] = "not finished: figures are over the samples so far"
        return {k: str(v) for k, v in facts.items() if v != ""}

    def schema(self, trajectory: Trajectory) -> str:
        """The BOX schemas as this sample's prompt showed them."""
        return "\n".join(self.parts.get(p.key, "") for p in trajectory.prompt if p.kind == "boxes")

    def sample(self, sample_id: str) -> Trajectory:
        """One sample; raises :class:`UserError` with the nearest id."""
        for t in self.samples:
            if t.id == sample_id:
                return t
        hint = did_you_mean(sample_id, [t.id for t in self.samples])
        raise UserError(f"no sample '{sample_id}' in {self.path}{hint}")

    def statuses(self) -> Counter[str]:
        """Samples by how they ended: the last turn's status, or why there was none."""
        return Counter(t.status or t.ending for t in self.samples)

    def usage(self) -> Usage:
        """Cost of all samples together."""
        return sum((t.usage for t in self.samples), Usage())


def load_run(path: Path) -> RunData:
    """Read one run folder. Raises :class:`UserError` when it is none."""
    folder = path.absolute()
    if not (folder / "samples.jsonl").is_file():  # a run that left all questions unfinished has results alone
        results = read_results(folder / "results.json") if (folder / "config.yaml").is_file() else None
        if results is None:
            raise UserError(f"{path} is not an evaluation's run folder: it has no samples.jsonl")
    config = folder / "config.yaml"
    samples = tuple(read_jsonl(folder / "samples.jsonl", Trajectory))
    results = read_results(folder / "results.json")
    return RunData(
        path=folder,
        name=folder.name,
        results=results or summarise(samples, samples),
        finished=results is not None,
        config=yaml.safe_load(config.read_text(encoding="utf-8")) or {} if config.is_file() else {},
        environment=_json(folder / "environment.json"),
        samples=samples,
        parts={p.key: p.text for p in read_jsonl(folder / "parts.jsonl", PartText)},
    )


def load_runs(paths: list[Path]) -> list[RunData]:
    """Read several run folders; runs of the same name are told apart by their parent folder."""
    if not paths:
        raise UserError("name at least one run folder")
    runs = [load_run(p) for p in paths]
    names = Counter(r.name for r in runs)
    return [r if names[r.name] == 1 else replace(r, name=f"{r.path.parent.name}/{r.name}") for r in runs]


def _fragment(data: DataConfig) -> bool:
    """Whether graph questions are asked over a fragment's folder: the one beside the data, or one named."""
    file = "://" in data.store or bool(Path(data.store).suffix)
    return data.benchmark in ("grailqa", "webqsp") and not file and data.store != NO_GRAPH


def _identity(identity: Identity | None) -> str:
    """Who answered, in a few words: the kind of proof and the first digits of what it rests on."""
    if identity is None:
        return ""
    marks = [digest[:12] for digest in (identity.base_sha256, identity.adapter_sha256) if digest]
    return " ".join([identity.kind, *marks])


def _asked(data: DataConfig) -> str:
    """Which questions an entry of ``data`` asks, in words."""
    limits = {"part": data.part, "limit": data.limit, "hops": data.hops}
    words = [data.split, *(f"{name} {value}" for name, value in limits.items() if value)]
    words += ["ids from a file"] if data.ids_file else []
    words += ["explored triples only"] if data.layers == "explored" else []
    return ", ".join(words)


def benchmark_titles(runs: list[RunData]) -> dict[str, str]:
    """Benchmarks of all runs, in order, with their names in tables."""
    names = dict.fromkeys(b for r in runs for b in r.benchmarks)
    return {b: next(r.title(b) for r in runs if b in r.benchmarks) for b in names}


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as e:
        raise UserError(f"{path}: not valid JSON ({e.msg}, line {e.lineno})") from None
    if not isinstance(data, dict):
        raise UserError(f"{path} must hold an object")
    return data
