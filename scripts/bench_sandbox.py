"""How long an execution takes in the sandbox, and whether it stays whole under load.

    python scripts/bench_sandbox.py [--quick] [--json out.json] [--spider FOLDER] [--parts latency,spider,...]

In one run, turn by turn: our sandbox, a fresh subprocess, in-process ``exec`` and smolagents' local executor.
Goals: empty program 3 ms median and 8 ms p95; group-by over 10k rows 15 ms median; 60 executions a second on
two cores. ``soak``: executions in a row from 8 callers, one in ten hostile; what leaks, and wrong outcomes.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import pickle
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pandora_train.box import boxes_for
from pandora_train.box.box import Box, BoxSet
from pandora_train.compile import Unsupported
from pandora_train.compile.sql.query import compile_sql
from pandora_train.records import DatabaseKnowledge
from pandora_train.sandbox import Sandbox, SandboxConfig
from pandora_train.sandbox.inside import cells
from pandora_train.sources.spider import foreign_keys

Run = Callable[[BoxSet, str], Any]
GROUP_BY = "result = t.groupby('k')['x'].sum().reset_index()"
SUBPROCESS = """
import pickle, sys, json
frames, code = pickle.load(sys.stdin.buffer)
import numpy as np, pandas as pd
names = {'pd': pd, 'np': np, **frames}
exec(code, names)
print(json.dumps(str(names['result'])))
"""


def in_process(boxes: BoxSet, code: str) -> None:
    """A bare ``exec`` over copies, and the result as rows."""
    names: dict[str, Any] = {"pd": pd, "np": np, **{n: f.copy() for n, f in boxes.frames().items()}}
    exec(code, names)
    cells.rows(names["result"], 100_000, 4_000_000)


def fresh_subprocess(boxes: BoxSet, code: str) -> None:
    """A new interpreter that imports pandas, frames by pickle."""
    subprocess.run([sys.executable, "-c", SUBPROCESS], input=pickle.dumps((boxes.frames(), code)),
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def smolagents_executor() -> Run | str:
    """smolagents' local interpreter, one a run; or why not."""
    if importlib.util.find_spec("smolagents") is None:
        return "smolagents isn't installed"
    from smolagents.local_python_executor import LocalPythonExecutor

    def run(boxes: BoxSet, code: str) -> None:
        executor = LocalPythonExecutor(["pandas", "numpy"])
        executor.send_tools({})
        executor.send_variables({"pd": pd, "np": np, **{n: f.copy() for n, f in boxes.frames().items()}})
        executor(code)

    return run


def table(rows: int) -> BoxSet:
    """One frame ``t``: 50 keys as text, floats, integers."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"k": draw.integers(0, 50, rows).astype(str), "x": draw.random(rows),
                          "n": np.arange(rows)})
    return BoxSet((Box("t", frame),))


def figures(seconds: list[float]) -> dict[str, float]:
    """Median and p95 in milliseconds."""
    ordered = sorted(seconds)
    return {"median_ms": round(1000 * statistics.median(ordered), 2),
            "p95_ms": round(1000 * ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 2),
            "min_ms": round(1000 * ordered[0], 2), "n": len(ordered)}


def timed(run: Run, boxes: BoxSet, code: str) -> float | None:
    """Seconds of one run; ``None`` if the runner can't do it."""
    start = time.perf_counter()
    try:
        answer = run(boxes, code)
    except Exception:  # a peer's interpreter doesn't know everything
        return None
    if getattr(answer, "outcome", "result") != "result":
        return None
    return time.perf_counter() - start


def turn_by_turn(runners: dict[str, Run], work: list[tuple[BoxSet, str]],
                 at_most: dict[str, int]) -> dict[str, dict[str, float]]:
    """Every runner on each program in turn, so that all meet the same noise."""
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    failed: Counter[str] = Counter()
    for number, (boxes, code) in enumerate(work):
        for name, run in runners.items():
            if number >= at_most.get(name, len(work)):
                continue
            took = timed(run, boxes, code)
            if took is None:
                failed[name] += 1
            else:
                seconds[name].append(took)
    return {name: {**figures(s), "failed": failed[name]} for name, s in seconds.items() if s}


def latency(runners: dict[str, Run], quick: bool) -> dict[str, Any]:
    """The empty program and the group-bys."""
    repeats, few = (20, 1) if quick else (300, 8)
    programs = {"empty": (table(6), "result = 1")}
    programs |= {f"group-by {rows:,} rows": (table(rows), GROUP_BY) for rows in (1_000, 10_000, 100_000)}
    return {name: turn_by_turn(runners, [program] * repeats, {"subprocess": few})
            for name, program in programs.items()}


def cold_start() -> dict[str, float]:
    """From nothing to the first answer, in seconds."""
    start = time.perf_counter()
    with Sandbox(SandboxConfig(workers=2)) as sandbox:
        ready = time.perf_counter() - start
        sandbox.run(table(6), "result = 1")
        first = time.perf_counter() - start
    start = time.perf_counter()
    fresh_subprocess(table(6), "result = 1")
    return {"sandbox ready": round(ready, 3), "sandbox first answer": round(first, 3),
            "subprocess first answer": round(time.perf_counter() - start, 3)}


def throughput(runners: dict[str, Run], quick: bool) -> dict[str, float]:
    """Executions a second from two callers, small frames."""
    small, length = table(20), 2.0 if quick else 10.0
    found = {}
    for name, run in runners.items():
        end = time.perf_counter() + length

        def caller(_: int, run: Run = run, end: float = end) -> int:
            done = 0
            while time.perf_counter() < end:
                run(small, GROUP_BY)
                done += 1
            return done

        start = time.perf_counter()
        with ThreadPoolExecutor(2) as pool:
            total = sum(pool.map(caller, range(2)))
        found[name] = round(total / (time.perf_counter() - start), 1)
    return found


def spider_programs(folder: Path, limit: int) -> Iterator[tuple[BoxSet, str]]:
    """Compiled gold programs of dev questions over their own databases, shuffled."""
    rows = json.loads((folder / "dev.json").read_text(encoding="utf-8"))
    random.Random(0).shuffle(rows)
    known: dict[str, BoxSet] = {}
    keys = foreign_keys(folder / "tables.json")
    made = 0
    for row in rows:
        name = row["db_id"]
        path = folder / "database" / name / f"{name}.sqlite"
        if made == limit:
            return
        if not path.exists():
            continue
        if name not in known:
            known[name] = boxes_for(DatabaseKnowledge(path=str(path), db_id=name,
                                                      foreign_keys=keys[name]))
        try:
            code = compile_sql(row["query"], known[name]).code
        except Unsupported:
            frame = max(known[name], key=lambda b: len(b.frame))
            code = f"result = {frame.name}.groupby('{frame.frame.columns[0]}').size().reset_index()"
        made += 1
        yield known[name], code


def spider(runners: dict[str, Run], folder: Path, quick: bool) -> dict[str, Any]:
    """Gold programs over their own databases, frames sent each time."""
    if not (folder / "dev.json").exists():
        return {"left out": f"no Spider in {folder}"}
    work = list(spider_programs(folder, 60 if quick else 650))
    return {f"{len(work)} programs": turn_by_turn(runners, work, {"subprocess": 1 if quick else 10})}


def resident(pids: list[int]) -> float:
    """Resident memory of processes in MiB."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def below(pid: int) -> list[int]:
    """The processes under ``pid``, itself too."""
    found = [pid]
    for parent in found:
        try:
            found += [int(c) for c in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
        except OSError:
            continue
    return found


HOSTILE = {
    "while True: pass": "timeout", "import ctypes\nctypes.string_at(0)": "signal",
    "import os\nos._exit(0)": "exit", "import os\nos.kill(os.getpid(), 9)": "signal",
    "import os\nos.closerange(0, 64)\nwhile True: pass": "signal",
    "import os\nos.write(3, b'garbage' * 100)\nos._exit(0)": "bad_payload",
    "result = np.ones(10**10)": "error", "result = ([i] for i in iter(int, 1))": "output_limit",
    "import os\nos.fork()": "error", "open('/tmp/x', 'w')": "error",
    "import socket\nsocket.socket()": "error",
}


def soak(count: int) -> dict[str, Any]:
    """``count`` executions, one in ten hostile, from 8 callers: leaks and wrong outcomes."""
    draw = random.Random(0)
    hostile = list(HOSTILE.items())
    work = [draw.choice(hostile) if n % 10 == 0 else (f"result = [[t.n.sum() + {n}]]", str(190 + n))
            for n in range(count)]
    boxes = table(20)
    wrong: Counter[str] = Counter()

    def one(job: tuple[str, str]) -> None:
        code, expected = job
        execution = sandbox.run(boxes, code, wall=0.5 if expected == "timeout" else 60)
        got = execution.rows[0][0] if execution.rows else execution.outcome
        if got != expected:
            wrong[f"{code[:40]!r}: {got}"] += 1

    def state() -> dict[str, float]:
        time.sleep(2)
        gc.collect()
        zygote = sandbox._zygote._process.pid
        return {"host MiB": resident([os.getpid()]), "zygote MiB": resident(below(zygote)[1:2]),
                "processes": len(below(zygote)), "files": len(os.listdir("/proc/self/fd"))}

    with Sandbox(SandboxConfig(workers=8, memory_mb=512)) as sandbox, ThreadPoolExecutor(8) as pool:
        list(pool.map(one, work[:100]))  # so that what is allocated once isn't taken for a leak
        before, start = state(), time.perf_counter()
        list(pool.map(one, work))
        seconds = time.perf_counter() - start
        after = state()
    return {"executions": count, "hostile": sum(e in HOSTILE.values() for _, e in work), "before": before,
            "after": after, "wrong": dict(wrong), "seconds": round(seconds, 1)}


def show(name: str, found: dict[str, Any]) -> None:
    """One part as a small table."""
    print(f"\n{name}", flush=True)
    for key, value in found.items():
        if isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values()):
            for inner, numbers in value.items():
                print(f"  {key:24s} {inner:12s} " + "  ".join(f"{k} {v}" for k, v in numbers.items()))
        else:
            print(f"  {key:24s} {value}")


def main() -> None:
    """Measure the parts asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="under a minute, fewer repetitions")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--spider", type=Path, help="folder in Spider's layout")
    parser.add_argument("--parts", default="cold,latency,throughput,spider,soak", help="comma-separated")
    options = parser.parse_args()
    parts = options.parts.split(",")
    found: dict[str, Any] = {}

    def keep(name: str, part: Any) -> None:
        found[name] = part
        show(name, part)
        if options.json:
            options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")

    keep("machine", {"load": os.getloadavg(), "cpus": os.cpu_count(), "quick": options.quick})
    if "cold" in parts:
        keep("cold start, s", cold_start())
    with Sandbox(SandboxConfig(workers=2, wall=60)) as sandbox:
        runners: dict[str, Run] = {"sandbox": sandbox.run, "exec": in_process, "subprocess": fresh_subprocess}
        peer = smolagents_executor()
        if isinstance(peer, str):
            keep("left out", {"smolagents": peer})
        else:
            runners["smolagents"] = peer
        if "latency" in parts:
            keep("latency", latency(runners, options.quick))
        if "throughput" in parts:
            warm = {n: r for n, r in runners.items() if n != "subprocess"}
            keep("executions a second, two callers", throughput(warm, options.quick))
        if "spider" in parts:
            folder = options.spider or Path(__file__).resolve().parents[2] / "shared" / "data" / "spider"
            keep("Spider programs", spider(runners, folder, options.quick))
    if "soak" in parts:
        keep("soak", soak(200 if options.quick else 5000))


if __name__ == "__main__":
    main()
