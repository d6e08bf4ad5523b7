"""How well the rules' error kinds agree with labels given by hand (150 in the paper, 50 a task)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from pandora_train.evaluate.error_kinds import KINDS, Diagnosis, ErrorKind, primary_score
from pandora_train.records import Benchmark, Record, Trajectory, content_id

TASKS: dict[Benchmark, str] = {"spider": "database", "wikitq": "table", "grailqa": "graph", "webqsp": "graph",
                               "pathquestion": "graph", "files": "table"}
PER_TASK = 50


class HandLabel(Record):
    """One error kind given by hand. Holds ids and our own words, no text of a data set."""

    run: str
    """Name of the run folder."""
    id: str
    benchmark: Benchmark
    answer: str
    """Content id of code and answer rows, so that a label never meets another run's answer."""
    kind: ErrorKind
    note: str = ""


@dataclass(frozen=True)
class Agreement:
    """Labels beside rules; ``pairs`` counts (task, label, rule)."""

    pairs: Counter[tuple[str, ErrorKind, ErrorKind]]

    def of(self, task: str = "") -> Counter[tuple[ErrorKind, ErrorKind]]:
        """(label, rule) counts of one task, or of all."""
        counts: Counter[tuple[ErrorKind, ErrorKind]] = Counter()
        for (name, label, rule), n in self.pairs.items():
            if task in ("", name):
                counts[label, rule] += n
        return counts

    def row(self, task: str = "") -> tuple[int, int, int, float]:
        """Labels, those that rules decide, those decided as labelled, and Cohen's kappa over the decided."""
        pairs = self.of(task)
        decided = Counter({k: n for k, n in pairs.items() if k[1] != "unknown"})
        equal = sum(n for (label, rule), n in decided.items() if label == rule)
        return pairs.total(), decided.total(), equal, kappa(decided)


def answer_id(t: Trajectory) -> str:
    """What a label is about: the last code and the answer."""
    return content_id(t.steps[-1].code if t.steps else "", t.rows)


def pick_failures(runs: dict[str, Sequence[Trajectory]],
                  per_task: int = PER_TASK) -> list[tuple[str, Trajectory]]:
    """The failures to label: ``per_task`` of each task, by a hash of run and id, each answer once.

    Replies without code to run are left out: they are execution failures by anybody's reading.
    """
    failed = [(run, t) for run, samples in runs.items() for t in samples
              if (primary_score(t) or 0.0) < 1 and t.steps and t.steps[-1].execution is not None]
    ordered = sorted(failed, key=lambda f: (TASKS[f[1].benchmark], content_id("label", f[0], f[1].id)))
    picked: list[tuple[str, Trajectory]] = []
    for _, part in groupby(ordered, key=lambda f: TASKS[f[1].benchmark]):
        once: dict[tuple[str, str], tuple[str, Trajectory]] = {}
        for run, t in part:
            once.setdefault((t.id, answer_id(t)), (run, t))
        picked += list(once.values())[:per_task]
    return picked


def agreement(labels: Iterable[HandLabel], diagnoses: dict[tuple[str, str], Diagnosis],
              answers: dict[tuple[str, str], str]) -> tuple[Agreement, int]:
    """Labels beside the rules' kinds by (run, id), and how many labels are about another answer.

    ``answers`` holds the :func:`answer_id` of what each run says now.
    """
    pairs: Counter[tuple[str, ErrorKind, ErrorKind]] = Counter()
    stale = 0
    for label in labels:
        key = label.run, label.id
        if key not in diagnoses or answers.get(key) != label.answer:
            stale += 1
            continue
        pairs[TASKS[label.benchmark], label.kind, diagnoses[key].kind] += 1
    return Agreement(pairs), stale


def kappa(pairs: Counter[tuple[ErrorKind, ErrorKind]]) -> float:
    """Cohen's kappa of (label, rule) counts; 0 without any, 1 when all agree on one kind."""
    total = pairs.total()
    if not total:
        return 0.0
    labels, rules = Counter[ErrorKind](), Counter[ErrorKind]()
    for (label, rule), n in pairs.items():
        labels[label] += n
        rules[rule] += n
    seen = sum(n for (label, rule), n in pairs.items() if label == rule) / total
    chance = sum(labels[k] * rules[k] for k in labels) / total**2
    return 1.0 if chance == 1 else (seen - chance) / (1 - chance)


def table(result: Agreement) -> str:
    """Agreement by task, and the confusion of all labels, as markdown."""
    lines = ["| task | labels | decided by rules | as labelled | of decided | of all | kappa of decided |",
             "|---|" + "---:|" * 6]
    for task in [*sorted({t for t, _, _ in result.pairs}), ""]:
        total, decided, equal, k = result.row(task)
        shares = " | ".join(f"{equal / n:.0%}" if n else "–" for n in (decided, total))
        lines.append(f"| {task or 'all'} | {total} | {decided} | {equal} | {shares} | {k:.2f} |")
    head = " | ".join(["by hand, by rule", *KINDS.values()])
    lines += ["", f"| {head} |", "|---|" + "---:|" * len(KINDS)]
    pairs = result.of()
    for label, name in KINDS.items():
        counts = [pairs[label, rule] for rule in KINDS]
        if any(counts):
            lines.append(f"| {name} | " + " | ".join(str(n or "") for n in counts) + " |")
    return "\n".join(lines)
