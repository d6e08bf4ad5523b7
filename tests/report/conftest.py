"""Synthetic run folders, written through the records as an evaluation would write them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
import yaml

from pandora_train.evaluate.results import Demonstrated, summarise
from pandora_train.records import (
    CodeError,
    Execution,
    Gold,
    PromptPart,
    Row,
    Step,
    Trajectory,
    Usage,
    content_id,
)
from pandora_train.runs import write_json

METRIC = {"spider": ("ex",), "wikitq": ("da",), "grailqa": ("f1", "hits@1"),
          "webqsp": ("f1", "hits@1", "hit")}
SCHEMA = """singer = pd.DataFrame({'singer_id': [...], 'name': [...], 'country': [...], 'age': [...]})
concert = pd.DataFrame({'concert_id': [...], 'concert_name': [...], 'singer_id': [...], 'year': [...]})
# foreign keys: concert.singer_id = singer.singer_id"""
GOOD = """# the singers of one country, then their concerts
chosen = singer[singer['country'] == 'France']
joined = chosen.merge(concert, on='singer_id')
result = joined[['name', 'year']].drop_duplicates().values.tolist()"""
BAD = GOOD.replace("'country'", "'nation'")
SQL = ("SELECT T1.name, T2.year FROM singer AS T1 JOIN concert AS T2 ON T1.singer_id = T2.singer_id "
       "WHERE T1.country = 'France'")
EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
REASONING = "1. Keep the singers from France.\n2. Join their concerts.\n3. Return name and year."

Writer = Callable[..., Path]


def _step(code: str, rows: tuple[Row, ...] | None, rng: random.Random) -> Step:
    reply = f"{REASONING}\n```python\n{code}\n```"
    usage = Usage(calls=1, prompt_tokens=rng.randint(400, 6000), completion_tokens=120, seconds=2.5)
    if rows is not None:
        done = Execution(outcome="result", rows=rows, types=("str", "int"), shape="rows", seconds=0.02)
        return Step(reply=reply, reasoning=REASONING, code=code, execution=done, usage=usage)
    error = CodeError(type="KeyError", message="'nation'", line=2, hint="the nearest fields are 'country'")
    failed = Execution(outcome="error", error=error, seconds=0.01)
    told = "The code failed: KeyError: 'nation'\nLine 2: chosen = singer[singer['nation'] == 'France']"
    return Step(reply=reply, reasoning=REASONING, code=code, execution=failed, feedback=told, usage=usage)


def trajectory(n: int, benchmark: str, seed: int, keys: dict[str, str]) -> Trajectory:
    """Sample ``n`` of a run: right, wrong, failed or repaired, the same question under every seed."""
    rng = random.Random(f"{seed}/{benchmark}/{n}")
    gold_rows: tuple[Row, ...] = (("Charlotte", "2014"), (EVIL if n % 7 == 0 else "Éloïse", None))
    fate = rng.choice(["right", "right", "repaired", "wrong", "failed"])
    rows = {"right": gold_rows, "repaired": gold_rows, "wrong": (("Rose", "2015"),), "failed": None}[fate]
    steps = [] if fate in ("right", "wrong") else [_step(BAD, None, rng)]
    steps.append(_step(BAD if fate == "failed" else GOOD, rows, rng))
    score = 1.0 if rows == gold_rows else 0.0
    sql = benchmark == "spider"
    gold = Gold(language="sql", program=SQL) if sql else Gold(answers=("Charlotte", "Éloïse"))
    question = f"Which singers from France gave concerts, and when? ({benchmark} {n})"
    kinds = ("instruction", "demonstration", "boxes", "question")
    texts = {"instruction": "You answer questions over pandas DataFrames.",
             "demonstration": f"### Example\n{SCHEMA}\n\nQuestion: how many singers are there? [{n % 5}]",
             "boxes": SCHEMA, "question": f"Question: {question}"}
    prompt = []
    for kind in kinds:
        key = content_id(texts[kind])
        keys[key] = texts[kind]
        prompt.append(PromptPart(kind=kind, role="system" if kind in kinds[:2] else "user", key=key))
    return Trajectory(
        id=f"{benchmark}-dev-{n}", benchmark=benchmark, split="dev", group=f"db{n % 6}", question=question,
        tags={"hardness": ("easy", "medium", "hard")[n % 3]}, gold=gold, prompt=tuple(prompt),
        prompt_hash=content_id([p.key for p in prompt]), demonstrations=(f"{benchmark}-train-{n % 5}",),
        steps=tuple(steps), rows=rows, status="error" if rows is None else "ok",
        usage=sum((s.usage for s in steps), Usage()), seconds=3.0,
        scores=dict.fromkeys(METRIC[benchmark], score), gold_rows=gold_rows if sql else None)


def without_answer(t: Trajectory) -> Trajectory:
    """The same question, whose file could not be read, or whose gold SQL failed (every other one)."""
    unread = len(t.question) % 2 == 0 or not t.gold.program
    return t.model_copy(update={
        "ending": "failed reading" if unread else "unusable gold", "status": None, "steps": (), "rows": None,
        "reason": "no such file" if unread else "no such column: nation", "usage": Usage(), "prompt": (),
        "scores": dict.fromkeys(t.scores, 0.0) if unread else {}})


@pytest.fixture
def write_run(tmp_path: Path) -> Writer:
    """A function that writes a run folder: ``write_run("base", count=20, seed=1, config={...})``."""
    return lambda name, *values, **named: synthetic_run(tmp_path / name, *values, **named)


def synthetic_run(folder: Path, count: int = 20, seed: int = 0, config: dict[str, object] | None = None,
                  finished: bool = True, benchmarks: tuple[str, ...] = tuple(METRIC), odd: Collection[int] = (),
                  unfinished: int = 0) -> Path:
    """Write ``count`` samples of each benchmark in the layout of ``evaluate``.

    Samples with numbers in ``odd`` have no answer; the last ``unfinished`` were asked and have no sample.
    """
    folder.mkdir(parents=True)
    keys: dict[str, str] = {}
    asked = [trajectory(n, b, seed, keys) for b in benchmarks for n in range(count)]
    samples = [without_answer(t) if n in odd else t for n, t in enumerate(asked)][:len(asked) - unfinished]
    lines = {"samples.jsonl": [t.model_dump_json() for t in samples],
             "parts.jsonl": [json.dumps({"key": k, "text": text}) for k, text in keys.items()]}
    for name, content in lines.items():
        (folder / name).write_text("\n".join(content) + "\n", encoding="utf-8")
    settings: dict[str, Any] = {
        "data": [{"benchmark": b, "path": "data", "split": "dev", "limit": count} for b in benchmarks],
        "llm": {"model": "tiny-model"}, "agent": {"rounds": 3, "prompt": {"format": "fenced"}},
        "retrieval": {"k": 1, "scope": "shared", "order": "nearest"}} | (config or {})
    (folder / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    write_json(folder / "environment.json", {"commit": "0123456789abcdef", "diff": "+ a line", "python": "3.11"})
    if finished:
        demonstrations = Demonstrated(asked=settings["retrieval"]["k"], shown={1: count})
        results = summarise(samples, asked, {t.id: "the server is down" for t in asked[len(samples):]})
        write_json(folder / "results.json", results.model_copy(update={
            "demonstrations": demonstrations, "model": settings["llm"]["model"]}).model_dump())
    return folder


@pytest.fixture(scope="session")
def large_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10,000 samples whose prompts hold 10 of 3,000 demonstrations each, some 5,000 tokens (18 kB) a prompt."""
    folder = synthetic_run(tmp_path_factory.mktemp("large") / "large", 1, 0)
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghiklmnoprstuvw", k=rng.randint(3, 9))) for _ in range(4000)]
    weights = [1 / (n + 3) for n in range(len(words))]

    def text(kind: str, n: int, size: int) -> PromptPart:
        body = f"{n} " + " ".join(rng.choices(words, weights, k=size))
        key = content_id(kind, n)
        parts.append(json.dumps({"key": key, "text": body}))
        return PromptPart(kind=kind, role="user" if kind in ("boxes", "question") else "system", key=key)

    parts: list[str] = []
    instruction = text("instruction", 0, 120)
    demonstrations = [text("demonstration", n, 230) for n in range(3000)]
    boxes = [text("boxes", n, 180) for n in range(2000)]
    keys: dict[str, str] = {}
    with (folder / "samples.jsonl").open("w", encoding="utf-8") as out:
        for n in range(10_000):
            t = trajectory(n // 4, list(METRIC)[n % 4], 1, keys)
            prompt = (instruction, *rng.sample(demonstrations, 10), rng.choice(boxes), text("question", n, 14))
            reasoning = " ".join(rng.choices(words, weights, k=60))
            steps = [s.model_copy(update={"reasoning": reasoning, "reply": f"{reasoning}\n{s.code}"}) for s in t.steps]
            t = t.model_copy(update={"prompt": prompt, "steps": tuple(steps),
                                     "question": " ".join(rng.choices(words, weights, k=12))})
            out.write(t.model_dump_json() + "\n")
    (folder / "parts.jsonl").write_text("\n".join(parts) + "\n", encoding="utf-8")
    (folder / "results.json").unlink()
    return folder
