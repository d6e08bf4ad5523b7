"""``results.json``: what an evaluation found, as one record that is written and read.

n is what was asked: answered questions and failed readings (scored 0) count; questions with unusable gold are
outside, by reason; unfinished ones are outside, too, and make the result incomplete until ``--resume`` takes
them up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from pandora_train.errors import UserError
from pandora_train.evaluate.stats import Cost, Metric, cost_of, measured, primary_of, subsets
from pandora_train.llm.identity import Identity
from pandora_train.metrics.declared import DEVIATIONS
from pandora_train.records import VERSION, Example, PromptSettings, Record, Trajectory, content_id


class Questions(Record):
    """How many questions, by what became of them."""

    asked: int
    answered: int
    failed_reading: dict[str, int] = {}
    """Reason to number; in n, scored 0."""
    unusable: dict[str, int] = {}
    """Reason to number; outside n."""
    unfinished: int = 0

    @property
    def n(self) -> int:
        """Questions that the means are over."""
        return self.answered + sum(self.failed_reading.values())

    def words(self) -> str:
        """What became of the questions, in words; empty where all were answered."""
        parts = [(sum(self.failed_reading.values()), "could not be read (scored 0)", self.failed_reading),
                 (sum(self.unusable.values()), "have unusable gold (left out)", self.unusable),
                 (self.unfinished, "are unfinished (--resume takes them up)", {})]
        clauses = [f"{count} {what}" + (f": {_most(reasons)}" if reasons else "")
                for count, what, reasons in parts if count]
        return f"of {self.asked} questions {'; '.join(clauses)}" if clauses else ""


class BenchmarkResults(Record):
    """One benchmark's figures."""

    questions: Questions
    splits: tuple[str, ...]
    clusters: int
    primary: str
    metrics: dict[str, Metric]
    subsets: dict[str, dict[str, Metric]] = {}
    """By level, hardness or another tag: the same metrics over a part."""
    statuses: dict[str, int] = {}
    """How the last turn of answered questions ended."""
    cost: Cost
    notes: tuple[str, ...] = ()
    """Where the metric departs from the official script."""


class Demonstrated(Record):
    """Demonstrations that really stood in the prompts."""

    asked: int = 0
    shown: dict[int, int] = {}
    """Number of demonstrations to number of prompts."""
    cut: int = 0
    """Prompts that the token budget left some out of."""


class MemoryUsed(Record):
    """The memory behind the demonstrations."""

    entries: int = 0
    hash: str = ""
    left_out: dict[str, int] = {}
    """Entries that share something with the questions, by what they share."""


class Results(Record):
    """All figures of an evaluation, and what they are about."""

    version: int = VERSION
    questions: Questions
    question_set: str
    """Content id of the asked ids: two runs over one set are comparable."""
    unfinished: dict[str, str] = {}
    """Question id to what went wrong."""
    benchmarks: dict[str, BenchmarkResults] = {}
    cost: Cost
    model: str = ""
    identity: Identity | None = None
    """Who answered; ``None`` where nobody was asked."""
    prompt: PromptSettings | None = None
    demonstrations: Demonstrated = Demonstrated()
    memory: MemoryUsed = MemoryUsed()

    @property
    def complete(self) -> bool:
        """Whether every asked question has an end."""
        return self.questions.unfinished == 0


def summarise(samples: Sequence[Trajectory], asked: Sequence[Example | Trajectory],
              unfinished: Mapping[str, str] | None = None) -> Results:
    """The figures of ``samples``; ``asked`` without a sample are unfinished.

    Every sample but those with unusable gold counts, whatever became of it: a failed answer is a scored 0.
    """
    by_benchmark: defaultdict[str, list[Trajectory]] = defaultdict(list)
    for sample in sorted(samples, key=lambda s: s.id):  # sums don't depend on which question ended first
        by_benchmark[sample.benchmark].append(sample)
    wanted = Counter(e.benchmark for e in asked)
    return Results(
        questions=_questions(samples, len(asked)), question_set=content_id(sorted(e.id for e in asked)),
        unfinished=dict(unfinished or {}), cost=cost_of(samples),
        benchmarks={name: _benchmark(name, by_benchmark[name], count) for name, count in wanted.items()})


def _benchmark(name: str, samples: list[Trajectory], asked: int) -> BenchmarkResults:
    scored = [s for s in samples if s.ending != "unusable gold"]
    return BenchmarkResults(
        questions=_questions(samples, asked), splits=tuple(sorted({s.split for s in samples})),
        clusters=len({s.group for s in scored}), primary=primary_of(name, scored), metrics=measured(scored),
        subsets={subset: measured(part) for subset, part in subsets(scored).items()},
        statuses=dict(Counter(s.status for s in samples if s.status)), cost=cost_of(samples),
        notes=tuple(DEVIATIONS[name]))


def _questions(samples: Sequence[Trajectory], asked: int) -> Questions:
    def reasons(ending: str) -> dict[str, int]:
        return dict(Counter(s.reason for s in samples if s.ending == ending).most_common())

    return Questions(asked=asked, answered=sum(s.ending == "answered" for s in samples),
                     failed_reading=reasons("failed reading"), unusable=reasons("unusable gold"),
                     unfinished=asked - len(samples))


def _most(reasons: dict[str, int]) -> str:
    """The commonest reason, and how many others there are."""
    first, *others = reasons
    return first + (f" (and {len(others)} other reasons)" if others else "")


def read_results(file: Path) -> Results | None:
    """The record of a run; ``None`` while it has none. Raises :class:`UserError` for another layout."""
    if not file.is_file():
        return None
    try:
        results = Results.model_validate_json(file.read_bytes())
    except ValidationError:
        results = None
    if results is None or results.version != VERSION:
        raise UserError(f"{file} was written by another layout of results, this is {VERSION}: evaluate again")
    return results
