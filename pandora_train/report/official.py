"""A run's answers in each benchmark's official prediction format, as ``pandora score`` and others read it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pandora_train.errors import UserError
from pandora_train.metrics import items
from pandora_train.records import Trajectory
from pandora_train.report.load import load_run
from pandora_train.runs import write_text

NO_ANSWER = ["(no answer)"]
"""What the official GrailQA and WebQSP scripts score as wrong everywhere: a missing question is out of
WebQSP's mean, an empty list is right where gold is empty, and some questions' gold is the empty text.
(The official WebQSP recall of any wrong answer is 1 where gold is empty; so it is of this one.)"""


def write_predictions(run_dir: Path, out: Path) -> list[str]:
    """Write one file a benchmark into ``out``; returns a line for each: where it lies, what it is.

    Questions with unusable gold are left out. Raises :class:`UserError` when the folder is no run, or ``out``
    cannot be written.
    """
    run = load_run(run_dir)
    by_benchmark: defaultdict[str, list[Trajectory]] = defaultdict(list)
    for t in run.samples:
        if t.ending != "unusable gold":
            by_benchmark[t.benchmark].append(t)
    lines = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        for benchmark, samples in by_benchmark.items():
            suffix, write, note = FORMATS.get(benchmark, (".jsonl", _jsonl, "id and answer rows a line"))
            file = out / f"{benchmark}{suffix}"
            write_text(file, write(samples))
            names = "; names of the fragment, no Freebase ids" if run.title(benchmark) != benchmark else ""
            lines.append(f"{file}: {len(samples)} questions, {note}{names}")
    except OSError as e:
        raise UserError(f"cannot write {out} ({e.strerror}): choose another --out") from None
    return lines


def official_id(t: Trajectory) -> str:
    """The id that the benchmark's own files give the question."""
    return t.id.split(":", 1)[-1]


def _wikitq(samples: Sequence[Trajectory]) -> str:
    """Items between tabs; the official script takes any white space in an item as one space."""
    return "".join("\t".join([official_id(t), *(" ".join(i.split()) for i in items(t.rows or ()))]) + "\n"
                   for t in samples)


def _grailqa(samples: Sequence[Trajectory]) -> str:
    return _json({official_id(t): {"logical_form": "", "answer": _answers(t)} for t in samples})


def _webqsp(samples: Sequence[Trajectory]) -> str:
    return _json([{"QuestionId": official_id(t), "Answers": _answers(t)} for t in samples])


def _jsonl(samples: Sequence[Trajectory]) -> str:
    return "".join(json.dumps({"id": t.id, "rows": t.rows}, ensure_ascii=False) + "\n" for t in samples)


def _answers(t: Trajectory) -> list[str]:
    return NO_ANSWER if t.rows is None else items(t.rows)


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


FORMATS: dict[str, tuple[str, Callable[[Sequence[Trajectory]], str], str]] = {
    "wikitq": (".tsv", _wikitq, "the official id and items between tabs"),
    "grailqa": (".json", _grailqa, "the official object by qid (pandas code has no logical form)"),
    "webqsp": (".json", _webqsp, "the official list of QuestionId and Answers"),
    "spider": (".jsonl", _jsonl, "answer rows: pandas answers are no SQL, which the official format wants"),
}
