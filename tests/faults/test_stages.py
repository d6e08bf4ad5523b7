"""Faults times stages, through the command line, against one real server: the other questions end as without.

Each fault strikes the questions whose hash says so. Whatever happens to one question, the run goes on; the counts
are right, and ``--resume`` takes up just what is unfinished.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from .line import Line, copy_line, finish, unwordy
from .server import FaultServer

pytestmark = pytest.mark.slow
BROKEN = ("truncated", "cut json", "wrong shape", "html", "empty choices", "null choices", "dropped", "500", "strange 400")
ENDINGS = {"null content": "reply", "refusal": "refused", "content_filter": "refused", "400 content_filter": "refused",
           "too long": "prompt"}
WEIGHTS = {"name": "base", "base": "0" * 64, "adapters": {}}
ASK = ("llm.kind=openai", "llm.model=base", "llm.retries=1", "llm.pause=0", "llm.max_tokens=300", "workers=4")
EVALUATE = (*ASK, "agent.rounds=1")
ANNOTATE = (*ASK, "teacher=llm", "agent.rounds=1", "retrieval.k=0")


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Line:
    return copy_line(tmp_path_factory.mktemp("line"))


def struck(line: Line, part: int = 4) -> list[str]:
    """Questions that a fault of ours strikes, by their hash."""
    chosen = [e.question for e in line.examples() if int(hashlib.sha256(e.question.encode()).hexdigest(), 16) % part == 0]
    assert 0 < len(chosen) < len(line.examples()) / 2
    return chosen


@pytest.fixture(scope="module")
def clean(line: Line, serve: Callable[..., Any]) -> dict[str, dict[str, Any]]:
    server = serve(line.replies, pandora=WEIGHTS)
    code, output = finish(line.stage("evaluate", "clean", *EVALUATE, f"llm.base_url={server.base_url}", "llm.cache=false"))
    assert code == 0, output
    return line.records("clean", "samples.jsonl")


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., Any]]:
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(FaultServer(*args, **kwargs))


def faults_of(line: Line) -> dict[str, str]:
    """Every fault once or more, by the questions' hashes; a third of the questions go without."""
    ordered = sorted(line.replies, key=lambda q: hashlib.sha256(q.encode()).hexdigest())
    names = [*BROKEN, *ENDINGS]
    assert len(ordered) > len(names)
    return dict(zip(ordered, names, strict=False))


def test_a_servers_faults_end_only_their_own_questions(line: Line, clean: dict[str, dict[str, Any]], serve: Callable[..., Any]) -> None:
    faults = faults_of(line)
    questions = {e.id: e.question for e in line.examples()}
    server = serve(line.replies, faults=faults, pandora=WEIGHTS)
    address = f"llm.base_url={server.base_url}"
    code, output = finish(line.stage("evaluate", "faults", *EVALUATE, address))
    assert code == 3, output
    assert "Traceback" not in output
    samples = line.records("faults", "samples.jsonl")
    unfinished = {i for i, q in questions.items() if faults.get(q) in BROKEN}
    assert set(samples) == set(questions) - unfinished
    results = line.results("faults")
    assert set(results["unfinished"]) == unfinished
    assert (results["questions"]["asked"], results["questions"]["unfinished"]) == (len(questions), len(unfinished))
    assert "incomplete" in unwordy(output)
    for id, question in questions.items():
        fault = faults.get(question)
        if fault is None:
            assert samples[id] == clean[id]
        elif fault in ENDINGS:
            assert (samples[id]["ending"], samples[id]["status"]) == ("answered", ENDINGS[fault])
            assert set(samples[id]["scores"].values()) == {0.0}
    assert all(len([c for c in server.calls if c["question"] == q]) == 2 for q, f in faults.items() if f in BROKEN and f != "strange 400")

    well = serve(line.replies, pandora=WEIGHTS)
    code, output = finish(line.stage("evaluate", "faults", *EVALUATE, f"llm.base_url={well.base_url}", resume=True))
    assert code == 0, output
    assert {c["question"] for c in well.calls} == {questions[i] for i in unfinished}
    after = line.records("faults", "samples.jsonl")
    assert {i: after[i] for i in clean if faults.get(questions[i]) not in ENDINGS} == {
        i: clean[i] for i in clean if faults.get(questions[i]) not in ENDINGS}
    assert line.results("faults")["questions"]["unfinished"] == 0


def test_a_teacher_goes_on_over_a_servers_faults(line: Line, serve: Callable[..., Any]) -> None:
    faults = faults_of(line)
    questions = {e.id: e.question for e in line.examples()}
    well = serve(line.replies, pandora=WEIGHTS)
    code, output = finish(line.stage("annotate", "taught", *ANNOTATE, f"llm.base_url={well.base_url}", "llm.cache=false"))
    assert code == 0, output
    expected = line.records("taught", "attempts.jsonl")
    server = serve(line.replies, faults=faults, pandora=WEIGHTS)
    code, output = finish(line.stage("annotate", "taught-faults", *ANNOTATE, f"llm.base_url={server.base_url}"))
    assert code == 3, output
    assert "Traceback" not in output
    attempts = line.records("taught-faults", "attempts.jsonl")
    unfinished = {i for i, q in questions.items() if faults.get(q) in BROKEN}
    assert set(attempts) == set(questions) - unfinished
    assert {i: a for i, a in attempts.items() if questions[i] not in faults} == {
        i: a for i, a in expected.items() if questions[i] not in faults}
    again = serve(line.replies, pandora=WEIGHTS)
    code, output = finish(line.stage("annotate", "taught-faults", *ANNOTATE, f"llm.base_url={again.base_url}", resume=True))
    assert code == 0, output
    assert {c["question"] for c in again.calls} == {questions[i] for i in unfinished}
    kept = line.records("taught-faults", "memory.jsonl")
    assert {i: kept[i] for i in unfinished if i in kept} == {
        i: e for i, e in line.records("taught", "memory.jsonl").items() if i in unfinished}


@pytest.mark.parametrize(("fault", "outcome"), [("compiler", "compiler failed"), ("builder", "failed reading"), ("sandbox", "")])
def test_the_compiler_as_teacher_goes_on(line: Line, fault: str, outcome: str) -> None:
    if not (line.folder / "compiled").exists():
        code, output = finish(line.stage("annotate", "compiled"))
        assert code == 0, output
    expected = line.records("compiled", "attempts.jsonl")
    broken = broken_words(line, fault)
    hit = {e.id for e in line.examples() if broken[1](e)}
    code, output = finish(line.stage("annotate", f"compiled-{fault}", BREAK=fault, BROKEN=json.dumps(broken[0])))
    assert "Traceback" not in output
    attempts = line.records(f"compiled-{fault}", "attempts.jsonl")
    assert {i: a for i, a in attempts.items() if i not in hit} == {i: a for i, a in expected.items() if i not in hit}
    if outcome:
        assert code == 0, output
        assert {attempts[i]["outcome"] for i in hit} == {outcome}
        return
    assert code == 3, output
    assert not hit & set(attempts)
    code, output = finish(line.stage("annotate", f"compiled-{fault}", resume=True))
    assert code == 0, output
    assert line.records(f"compiled-{fault}", "attempts.jsonl") == expected


def broken_words(line: Line, fault: str) -> tuple[list[str], Callable[[Any], bool]]:
    """What the fault looks for, and the examples that it so strikes."""
    if fault == "builder":
        tables = sorted({e.knowledge.path for e in line.examples() if e.benchmark == "wikitq"})[:2]
        return tables, lambda e: e.knowledge.path in tables
    if fault == "sandbox":
        code = {e.question: line.replies[e.question].split("```python\n")[-1].removesuffix("\n```") for e in line.examples()}
        words = [c for q, c in code.items() if q in struck(line) and "pd.DataFrame({'a'" not in c]
        return words, lambda e: any(w in code[e.question] for w in words)
    return struck(line), lambda e: e.question in struck(line)


@pytest.mark.parametrize(("fault", "ending"), [("builder", "failed reading"), ("sandbox", ""), ("metric", "")])
def test_faults_of_our_own_rooms_end_only_their_own_questions(
        line: Line, clean: dict[str, dict[str, Any]], serve: Callable[..., Any], fault: str, ending: str) -> None:
    broken, hits = broken_words(line, fault)
    hit = {e.id for e in line.examples() if hits(e)}
    server = serve(line.replies, pandora=WEIGHTS)
    code, output = finish(line.stage("evaluate", f"own-{fault}", *EVALUATE, f"llm.base_url={server.base_url}",
                                     BREAK=fault, BROKEN=json.dumps(broken)))
    assert "Traceback" not in output
    samples = line.records(f"own-{fault}", "samples.jsonl")
    assert {i: s for i, s in samples.items() if i not in hit} == {i: s for i, s in clean.items() if i not in hit}
    questions = line.results(f"own-{fault}")["questions"]
    if ending:
        assert code == 0, output
        assert {samples[i]["ending"] for i in hit} == {ending}
        assert sum(questions["failed_reading"].values()) == len(hit)
        assert not {c["question"] for c in server.calls} & {e.question for e in line.examples() if e.id in hit}
        return
    assert code == 3, output
    assert questions["unfinished"] == len(hit)
    well = serve(line.replies, pandora=WEIGHTS)
    code, output = finish(line.stage("evaluate", f"own-{fault}", *EVALUATE, f"llm.base_url={well.base_url}", resume=True))
    assert code == 0, output
    assert line.records(f"own-{fault}", "samples.jsonl") == clean


def test_damaged_tables_and_gold_that_fails_and_an_endpoint_that_is_down(
        tmp_path: Path, clean: dict[str, dict[str, Any]], serve: Callable[..., Any]) -> None:
    line = copy_line(tmp_path / "damaged", spider=68)
    asked = line.examples()
    table = next(e.knowledge.path for e in asked if e.benchmark == "wikitq")
    unreadable = {e.id for e in asked if e.knowledge.path == table}  # type: ignore[union-attr]
    Path(table).write_bytes(b"\xff\xfe\0\0 no text")
    fails = next(e for e in asked if e.benchmark == "spider")
    file = line.folder / "spider" / "train_spider.json"
    entries = json.loads(file.read_text())
    for entry in entries:
        if entry["query"] == fails.gold.program:
            entry["query"] += " , nowhere"
    file.write_text(json.dumps(entries))
    (line.folder / "questions.jsonl").write_text(json.dumps(
        {"id": "away", "question": "Who is there?", "knowledge": "http://127.0.0.1:9/sparql", "topics": ["http://x/y"],
         "answers": ["x"]}) + "\n")
    data = [*line.data, {"benchmark": "files", "path": str(line.folder / "questions.jsonl"), "split": "train"}]
    server = serve(line.replies, pandora=WEIGHTS)
    code, output = finish(line.stage("evaluate", "run", *EVALUATE, f"llm.base_url={server.base_url}", config={"data": data}))
    assert code == 3, output
    assert "Traceback" not in output
    results, samples = line.results("run"), line.records("run", "samples.jsonl")
    assert set(results["unfinished"]) == {"files:away"}
    assert {i for i, s in samples.items() if s["ending"] == "failed reading"} == unreadable
    unusable = {i for i, s in samples.items() if s["ending"] == "unusable gold"}
    assert len(unusable) >= 1
    counts = results["questions"]
    assert counts["asked"] == len(samples) + 1
    assert counts["answered"] == len(samples) - len(unreadable) - len(unusable)
    same = set(clean) & set(samples) - unreadable - unusable
    assert {i: samples[i] for i in same} == {i: clean[i] for i in same}
    asked_of = {c["question"] for c in server.calls}
    assert not asked_of & {e.question for e in asked if e.id in unreadable}
