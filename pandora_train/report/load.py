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
from pandora_train.evaluate.errors import Diagnosis, diagnose
from pandora_train.evaluate.stats import summarise
from pandora_train.records import PartText, Trajectory, Usage
from pandora_train.runs import read_jsonl


@dataclass(frozen=True)
class RunData:
    """One evaluation run, as its folder holds it."""

    path: Path
    name: str
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    """Empty while the run is not finished."""
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

    @cached_property
    def benchmarks(self) -> dict[str, Any]:
        """Metrics by benchmark as :func:`~pandora_train.evaluate.stats.summarise` lays them out."""
        found: dict[str, Any] = self.results.get("benchmarks") or summarise(self.samples)["benchmarks"]
        return found

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
        llm, prompt = _at(self.config, "llm"), _at(self.config, "agent", "prompt")
        retrieval = _at(self.config, "retrieval")
        shown = _at(self.results, "demonstrations").get("shown", {})
        facts = {
            "model": llm.get("model"),
            "adapter": llm.get("adapter"),
            "K asked": _at(self.results, "demonstrations").get("asked"),
            "demonstrations shown": ", ".join(f"{k} in {n}" for k, n in shown.items()),
            "prompts with demonstrations cut": _at(self.results, "demonstrations").get("cut"),
            "rounds of feedback (L)": _at(self.config, "agent").get("rounds"),
            "reply format": prompt.get("format"),
            "retrieval": " ".join(str(retrieval.get(k, "")) for k in ("scope", "order")).strip(),
            **{f"{self.title(b)} questions": "; ".join(map(_asked, self._data(b))) for b in self.benchmarks},
            "question set": _at(self.results, "questions").get("set"),
            "unfinished": _at(self.results, "questions").get("unfinished"),
            "templates": self.results.get("template_hash"),
            "code commit": str(self.environment.get("commit", ""))[:12],
        }
        if not self.results:
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
        """Samples by how they ended."""
        return Counter(t.status for t in self.samples)

    def usage(self) -> Usage:
        """Cost of all samples together."""
        return sum((t.usage for t in self.samples), Usage())


def load_run(path: Path) -> RunData:
    """Read one run folder. Raises :class:`UserError` when it is none."""
    folder = path.absolute()
    if not (folder / "samples.jsonl").is_file():
        raise UserError(f"{path} is not an evaluation's run folder: it has no samples.jsonl")
    config = folder / "config.yaml"
    return RunData(
        path=folder,
        name=folder.name,
        config=yaml.safe_load(config.read_text(encoding="utf-8")) or {} if config.is_file() else {},
        environment=_json(folder / "environment.json"),
        results=_json(folder / "results.json"),
        samples=tuple(read_jsonl(folder / "samples.jsonl", Trajectory)),
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
