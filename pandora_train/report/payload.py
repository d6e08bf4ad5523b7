"""What the viewer reads: an index of all samples, and compressed chunks that it opens when asked.

Everything a run wrote leaves Python as base64 of deflated JSON, so that no cell can end a script element.
Prompt parts are stored once over all runs and referred to by number.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from typing import Any

from pandora_train.evaluate.error_kinds import primary_score
from pandora_train.records import Row, Step, Trajectory
from pandora_train.report.load import RunData

SAMPLES_PER_CHUNK = 50
PART_CHARS = 400_000
"""Characters of prompt parts in one chunk."""
ROWS_SHOWN = 200
CELL_SHOWN = 2000


def pack(data: Any) -> str:
    """Deflated JSON as base64."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode("ascii")


def unpack(text: str) -> Any:
    """The data behind :func:`pack`."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def build_payload(runs: list[RunData]) -> dict[str, str]:
    """Element id to packed content: ``index``, ``s<run>-<chunk>`` and ``p<chunk>``."""
    order = _order(runs)
    numbers = {key: n for n, key in enumerate(dict.fromkeys(k for r in runs for k in r.parts))}
    blocks: dict[str, str] = {}
    places: list[int] = []
    for chunk, texts in enumerate(_part_chunks([r.parts for r in runs], numbers)):
        places += [chunk] * len(texts)
        blocks[f"p{chunk}"] = pack(texts)
    for r, run in enumerate(runs):
        by_id = {t.id: t for t in run.samples}
        for chunk, start in enumerate(range(0, len(order), SAMPLES_PER_CHUNK)):
            ids = order[start : start + SAMPLES_PER_CHUNK]
            samples = [_sample(run, by_id[i], numbers) if i in by_id else None for i in ids]
            blocks[f"s{r}-{chunk}"] = pack(samples)
    blocks["index"] = pack(_index(runs, order, places))
    return blocks


def _order(runs: list[RunData]) -> list[str]:
    """Ids of all runs' samples, benchmark by benchmark, in the order of the first run that has them."""
    seen = {t.id: t.benchmark for run in runs for t in run.samples}
    benchmarks = list(dict.fromkeys(seen.values()))
    return sorted(seen, key=lambda i: benchmarks.index(seen[i]))


def _index(runs: list[RunData], order: list[str], places: list[int]) -> dict[str, Any]:
    """Column by column, what the list shows and filters by."""
    first = {t.id: t for run in reversed(runs) for t in run.samples}
    samples = [first[i] for i in order]
    return {
        "ids": order,
        "benchmark": [t.benchmark for t in samples],
        "group": [t.group for t in samples],
        "question": [t.question for t in samples],
        "tags": [" ".join(t.tags.values()) for t in samples],
        "runs": [_run_columns(run, order) for run in runs],
        "part_chunk": places,
        "chunk": SAMPLES_PER_CHUNK,
    }


def _run_columns(run: RunData, order: list[str]) -> dict[str, Any]:
    by_id = {t.id: t for t in run.samples}
    samples = [by_id.get(i) for i in order]
    return {
        "name": run.name,
        "score": [None if t is None else primary_score(t) for t in samples],
        "status": ["" if t is None else t.status or t.ending for t in samples],
        "kind": [run.diagnoses[i].kind if i in run.diagnoses else "" for i in order],
        "turns": [0 if t is None else len(t.steps) for t in samples],
    }


def _part_chunks(parts: list[dict[str, str]], numbers: dict[str, int]) -> Iterator[list[str]]:
    texts = {key: text for run in reversed(parts) for key, text in run.items()}
    chunk: list[str] = []
    size = 0
    for key in numbers:
        chunk.append(texts[key])
        size += len(texts[key])
        if size > PART_CHARS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _sample(run: RunData, t: Trajectory, numbers: dict[str, int]) -> dict[str, Any]:
    diagnosis = run.diagnoses.get(t.id)
    return {
        "scores": t.scores,
        "steps": [_step(s) for s in t.steps],
        "answer": _table(t.rows),
        "gold": _table(t.gold_rows if t.gold_rows is not None else _column(t.gold.answers)),
        "program": t.gold.program,
        "language": t.gold.language,
        "parses": [list(p) for p in t.gold.parses] if len(t.gold.parses) > 1 else [],
        "prompt": [[p.kind, p.role, numbers.get(p.key, -1)] for p in t.prompt],
        "demonstrations": list(t.demonstrations),
        "cut": t.demonstrations_cut,
        "ending": t.ending,
        "reason": t.reason,
        "notes": list(t.notes),
        "error": diagnosis.model_dump(exclude={"id"}) if diagnosis else None,
        "tags": t.tags,
        "usage": t.usage.model_dump(),
        "seconds": round(t.seconds, 2),
    }


def _step(step: Step) -> dict[str, Any]:
    done = step.execution
    return {
        "reply": step.reply,
        "reasoning": step.reasoning,
        "code": step.code,
        "problem": step.problem,
        "refusal": step.refusal,
        "feedback": step.feedback,
        "usage": step.usage.model_dump(),
        "execution": None if done is None else {
            "outcome": done.outcome,
            "table": _table(done.rows),
            "types": list(done.types),
            "shape": done.shape,
            "error": done.error.model_dump() if done.error else None,
            "hint": done.hint,
            "seconds": round(done.seconds, 3),
        },
    }


def _column(answers: tuple[str, ...] | None) -> tuple[Row, ...] | None:
    return None if answers is None else tuple((a,) for a in answers)


def _table(rows: tuple[Row, ...] | None) -> dict[str, Any] | None:
    """The first rows, long cells shortened, with the number of all."""
    if rows is None:
        return None
    shown = [[c if c is None or len(c) <= CELL_SHOWN else c[:CELL_SHOWN] + " …" for c in row]
             for row in rows[:ROWS_SHOWN]]
    return {"rows": shown, "n": len(rows)}
