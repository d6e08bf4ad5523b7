"""kill -9 at ten random moments, then ``--resume``: the same records, and no call repeated whose reply had arrived."""

from __future__ import annotations

import hashlib
import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..answer.templates import tokenizer_of
from .line import Line, copy_line, finish
from .server import FaultServer

pytestmark = pytest.mark.slow
KILLS = 10
WEIGHTS = {"name": "base", "base": "0" * 64, "adapters": {}}
ASK = ("llm.kind=openai", "llm.model=base", "llm.max_tokens=300", "workers=3", "agent.rounds=2")
SECONDS = 0.15
"""A reply's, so that there is time to be killed in."""


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Line:
    return copy_line(tmp_path_factory.mktemp("line"), spider=30, wikitq=10)  # enough to do for ten kills


def slowly(line: Line) -> Callable[[list[dict[str, str]]], str]:
    """The line's replies; a correction gets the right one, so that questions take several calls."""
    def reply(messages: list[dict[str, str]]) -> str:
        time.sleep(SECONDS)
        text = "\n".join(m["content"] for m in messages if m["role"] == "user")
        question = max(line.replies, key=lambda q: text.rfind(q))
        return line.replies[question]

    return reply


def killed(start: Callable[[bool], subprocess.Popen[str]], busy: Callable[[], int], rng: random.Random,
           at_kill: Callable[[], None] = lambda: None, pause: float = SECONDS) -> list[int]:
    """Start, kill after a random part of the work, resume; at last let it finish. Returns the exit codes.

    ``busy`` counts work done so far: some kills fall on the start, most on the work itself, however fast the
    machine is; up to ``pause`` seconds more pass before the kill. ``at_kill`` looks at what is on disk when
    nothing runs.
    """
    codes = []
    for kill in range(KILLS):
        process = start(kill > 0)
        wanted = busy() + rng.randrange(0, 3)
        deadline = time.monotonic() + 60
        while process.poll() is None and busy() < wanted and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(rng.random() * pause)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        codes.append(process.returncode)
        at_kill()
    code, output = finish(start(True))
    assert code == 0, output
    return [*codes, code]


def lines_in(*files: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in files if file.exists())


class Ledger:
    """What the server answered in full, and what of it had not reached the disk when the client was killed."""

    def __init__(self, server: FaultServer, home: Path) -> None:
        self.server, self.home, self.in_flight = server, home, Counter[str]()

    def complete(self) -> Counter[str]:
        return Counter(call["key"] for call in self.server.calls if call["complete"])

    def look(self) -> None:
        time.sleep(2 * SECONDS)  # until the server has written the last replies to nobody
        stored = {_key(json.loads(f.read_text())["request"]["messages"]) for f in self.home.glob("calls/**/*.json")}
        self.in_flight.update(k for k in self.complete() if k not in stored)

    def repeated(self) -> dict[str, int]:
        """Calls answered more often than once, those in flight at a kill apart."""
        return {key: n for key, n in self.complete().items() if n > 1 + self.in_flight[key]}


def _key(messages: Any) -> str:
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize(("stage", "options", "files"), [
    ("evaluate", (), ("samples.jsonl", "errors.jsonl")),
    ("annotate", ("teacher=llm", "retrieval.k=3"), ("attempts.jsonl", "memory.jsonl"))])
def test_a_stage_that_asks_a_model(line: Line, stage: str, options: tuple[str, ...], files: tuple[str, ...]) -> None:
    with FaultServer(slowly(line), pandora=WEIGHTS) as server:
        ask = (*ASK, *options, f"llm.base_url={server.base_url}")
        code, output = finish(line.stage(stage, f"{stage}-whole", *ask))
        assert code == 0, output
        whole = {file: line.records(f"{stage}-whole", file) for file in files}
    with FaultServer(slowly(line), pandora=WEIGHTS) as server:
        ask, run = (*ASK, *options, f"llm.base_url={server.base_url}"), f"{stage}-killed"
        ledger = Ledger(server, line.folder / f"home-{run}")
        codes = killed(lambda resume: line.stage(stage, run, *ask, resume=resume and (line.folder / run).exists()),
                       lambda: len(server.calls), random.Random(stage), ledger.look)
        assert codes.count(-signal.SIGKILL) >= KILLS - 2, codes
        assert {file: line.records(run, file) for file in files} == whole
        assert not ledger.repeated()
        assert len(server.calls) > len(line.examples())
    if stage == "evaluate":
        ours, theirs = (line.results(r) for r in (run, f"{stage}-whole"))
        for benchmark in theirs["benchmarks"]:
            assert ours["benchmarks"][benchmark]["metrics"] == theirs["benchmarks"][benchmark]["metrics"]


def test_the_compiler_as_teacher_and_distill(line: Line) -> None:
    code, output = finish(line.stage("annotate", "compiled"))
    assert code == 0, output
    run = line.folder / "compiled-killed"
    codes = killed(lambda resume: line.stage("annotate", "compiled-killed", resume=resume and run.exists()),
                   lambda: lines_in(run / "attempts.jsonl", run / "memory.jsonl"), random.Random(1))
    assert -signal.SIGKILL in codes
    for file in ("attempts.jsonl", "memory.jsonl"):
        assert line.records("compiled-killed", file) == line.records("compiled", file)

    tokenizer_of("chatml").save_pretrained(line.folder / "tokenizer")
    config = {"memory": [str(run)], "model": str(line.folder / "tokenizer"), "held_out": 0.3}
    began = time.monotonic()
    whole = distilled(line, "rows", config)
    rows = line.folder / "rows-killed"
    codes = killed(lambda resume: line.stage("distill", rows.name, config=config, resume=resume and rows.exists()),
                   lambda: 0, random.Random(2), pause=time.monotonic() - began)
    assert -signal.SIGKILL in codes
    assert distilled(line, "rows-killed", config) == whole


def distilled(line: Line, run: str, config: dict[str, Any]) -> dict[str, Any]:
    """All that a distill run leaves."""
    from pandora_train.llm.identity import SETTINGS
    from pandora_train.rows import HELD_OUT, TRAIN, read_rows

    if not (line.folder / run).exists():
        code, output = finish(line.stage("distill", run, config=config))
        assert code == 0, output
    folder = line.folder / run
    return {"train": read_rows(folder / TRAIN), "held": read_rows(folder / HELD_OUT), "results": line.results(run),
            "settings": (folder / SETTINGS).read_text()}
