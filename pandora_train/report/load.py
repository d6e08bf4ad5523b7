"""Reads run folders for reports: samples, prompt parts, results, config; nothing is computed twice."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from pandora_train.errors import UserError, did_you_mean
from pandora_train.evaluate.error_kinds import Diagnosis, diagnose
from pandora_train.evaluate.results import BenchmarkResults, Results, read_results, summarise
from pandora_train.records import PartText, Trajectory, Usage
from pandora_train.runs import read_jsonl


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

    def title(self, benchmark: str) -> str:
        """The benchmark's name in tables; answers over a fragment of a graph are not the benchmark's own."""
        return f"{benchmark}-fragment" if any(_fragment(d) for d in self._data(benchmark)) else benchmark

    def _data(self, benchmark: str) -> list[dict[str, Any]]:
        data = self.config.get("data")
        entries = data if isinstance(data, list) else []
        return [d for d in entries if isinstance(d, dict) and d.get("benchmark") == benchmark]

    @cached_property
    def facts(self) -> dict[str, str]:
        """What the numbers are about, as far as config and results say."""
        agent, retrieval = _at(self.config, "agent"), _at(self.config, "retrieval")
        results, shown = self.results, self.results.demonstrations
        settings = results.prompt.model_dump() if results.prompt else {}
        facts = {
            "model": results.model,
            "answered by": _identity(results.identity),
            "K asked": shown.asked,
            "demonstrations shown": ", ".join(f"{k} in {n}" for k, n in shown.shown.items()),
            "prompts with demonstrations cut": shown.cut,
            "memory": results.memory.hash,
            "rounds of feedback (L)": agent.get("rounds"),
            "prompt settings": ", ".join(f"{k} {v}" for k, v in settings.items() if v != ""),
            "retrieval": " ".join(str(retrieval.get(k, "")) for k in ("scope", "order")).strip(),
            **{f"{self.title(b)} questions": "; ".join(map(_asked, self._data(b))) for b in self.benchmarks},
            "question set": results.question_set,
            "questions": results.questions.words() or f"{results.questions.asked}, all answered",
            "code commit": str(self.environment.get("commit", ""))[:12],
        }
        if not self.finished:
            facts["state"] = "not finished: figures are over the samples so far"
        return {k: str(v) for k, v in facts.items() if v not in (None, "")}

    def schema(self, trajectory: Trajectory) -> str:
        """The BOX schemas as this sample's prompt showed them."""
        return "\n".join(self.parts.get(p.key, "") for p in trajectory.prompt if p.kind == "boxes")

    def sample(self, sample_id: str) -> Trajectory:
        """One sample; raises :class:`UserError` with the nearest id."""
        for t in self.samples:
            if t.id == sample_id:
                return t
        near = did_you_mean(sample_id, [t.id for t in self.samples])
        raise UserError(f"no sample '{sample_id}' in {self.path}{near}")

    def statuses(self) -> Counter[str]:
        """Samples by how they ended: the last turn's status, or why there was none."""
        return Counter(t.status or t.ending for t in self.samples)

    def usage(self) -> Usage:
        """Cost of all samples together."""
        return sum((t.usage for t in self.samples), Usage())


def load_run(path: Path) -> RunData:
    """Read one run folder. Raises :class:`UserError` when it is none."""
    folder = path.absolute()
    if not (folder / "samples.jsonl").is_file():
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


def _fragment(data: dict[str, Any]) -> bool:
    """Whether graph questions are asked over a fragment's folder: the one beside the data, or one named."""
    store = str(data.get("store") or "")
    file = "://" in store or bool(Path(store).suffix)
    return data.get("benchmark") in ("grailqa", "webqsp") and not file and store != "none"


def _identity(identity: dict[str, Any]) -> str:
    """Who answered, in a few words: the kind of proof and the first digits of what it rests on."""
    marks = [str(identity[key])[:12] for key in ("base_sha256", "adapter_sha256") if identity.get(key)]
    return " ".join([str(identity.get("kind", "")), *marks]).strip()


def _asked(data: dict[str, Any]) -> str:
    """Which questions an entry of ``data`` asks, in words."""
    words = [str(data.get("split", ""))]
    words += [f"{key} {data[key]}" for key in ("part", "limit", "hops") if data.get(key)]
    words += ["ids from a file"] if data.get("ids_file") else []
    words += ["explored triples only"] if data.get("layers") == "explored" else []
    return ", ".join(w for w in words if w)


def benchmark_titles(runs: list[RunData]) -> dict[str, str]:
    """Benchmarks of all runs, in order, with their names in tables."""
    names = dict.fromkeys(b for r in runs for b in r.benchmarks)
    return {b: next(r.title(b) for r in runs if b in r.benchmarks) for b in names}


def _at(data: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The mapping under ``keys``, empty where there is none."""
    for key in keys:
        found = data.get(key)
        data = found if isinstance(found, dict) else {}
    return data


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
