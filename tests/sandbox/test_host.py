"""The host's side: several callers, failures of the machinery, limits, and nothing left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pandora_train.box.box import Box, BoxSet
from pandora_train.config import load
from pandora_train.errors import MachineryError, UserError
from pandora_train.sandbox import Sandbox, SandboxConfig
from pandora_train.sandbox import host as host_module


def descendants(of: int | None = None) -> set[int]:
    """Process ids below ``of`` (default: this process)."""
    top = of or os.getpid()
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {top}
    while more := {p for p, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {top}


def zygote_pid(sandbox: Sandbox) -> int:
    launcher = sandbox._zygote._process.pid
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return int(children[0])


def test_boxes_are_predefined_beside_pd_and_np(sandbox: Sandbox, boxes: BoxSet) -> None:
    execution = sandbox.run(boxes, "result = [[len(df), pd.__name__, np.__name__]]")
    assert execution.rows == (("6", "pandas", "numpy"),)
    assert execution.types == ("int", "str", "str")
    assert execution.seconds > 0


def test_only_the_boxes_of_the_question_are_there(sandbox: Sandbox, boxes: BoxSet) -> None:
    other = BoxSet((Box("other", pd.DataFrame({"a": [1]})),))
    assert sandbox.run(other, "result = other.a").rows == (("1",),)
    assert sandbox.run(boxes, "result = other.a").outcome == "error"


def test_many_callers_each_get_their_own_answer(sandbox: Sandbox) -> None:
    sets = [BoxSet((Box("t", pd.DataFrame({"n": [n]})),)) for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda b: sandbox.run(b, "result = t.n").rows, sets))
    assert answers == [((str(n),),) for n in range(24)]


def test_a_time_out_is_counted_from_when_the_code_starts(sandbox: Sandbox, boxes: BoxSet) -> None:
    execution = sandbox.run(boxes, "import time\ntime.sleep(60)", wall=2)
    assert execution.outcome == "timeout"
    assert execution.error
    assert execution.error.line == 2


def test_a_longer_wall_than_the_configured_one_is_kept(boxes: BoxSet) -> None:
    burn = "import time\nwhile time.process_time() < 2.4: pass\nresult = 'done'"
    with Sandbox(SandboxConfig(wall=0.9, workers=1)) as sandbox:
        assert sandbox.run(boxes, burn, wall=200).rows == (("done",),)


def test_a_raised_limit_of_processor_time_stays_in_a_child_just_forked(boxes: BoxSet) -> None:
    """The order to raise it can come before the child has given up anything: it must not be undone then."""
    waits = ("import resource, time\nend = time.monotonic() + 20\n"
             "while (limit := resource.getrlimit(resource.RLIMIT_CPU)[0]) == 3 and time.monotonic() < end:\n"
             "    time.sleep(0.01)\nresult = limit")  # the order itself may still be on its way
    with Sandbox(SandboxConfig(wall=1, workers=1)) as sandbox:
        zygote = sandbox._zygote
        for _ in range(20):
            for _ in range(sandbox.workers + host_module.SPARE):
                zygote.replace(zygote.take())  # so that the next one taken is new
            assert sandbox.run(boxes, waits, wall=60).rows == (("62",),)


def test_processor_time_is_limited_even_if_nobody_kills(boxes: BoxSet, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox(SandboxConfig(wall=0.5, workers=1)) as sandbox:
        monkeypatch.setattr(sandbox, "config", SandboxConfig(wall=300, workers=1))
        execution = sandbox.run(boxes, "while True: pass", wall=300)
    assert (execution.outcome, execution.code) == ("signal", signal.SIGXCPU)


def test_a_dead_zygote_is_replaced_and_the_run_repeated(boxes: BoxSet) -> None:
    with Sandbox(SandboxConfig(workers=1)) as sandbox:
        os.kill(zygote_pid(sandbox), signal.SIGKILL)
        assert sandbox.run(boxes, "result = 1").rows == (("1",),)
        assert sandbox.run(boxes, "result = 2").rows == (("2",),)


def once_handed_over(monkeypatch: pytest.MonkeyPatch, strike: Callable[[], None]) -> None:
    """Call ``strike`` as soon as a child has the next request, once."""
    hand_over, strikes = host_module._hand_over, [strike]

    def then_strike(*args: Any) -> float:
        start = hand_over(*args)
        if strikes:
            strikes.pop()()
        return start

    monkeypatch.setattr(host_module, "_hand_over", then_strike)


def test_a_zygote_that_dies_under_a_run_is_not_the_codes_fault(boxes: BoxSet, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox(SandboxConfig(workers=1)) as sandbox:
        first = zygote_pid(sandbox)
        once_handed_over(monkeypatch, lambda: os.kill(first, signal.SIGKILL))
        execution = sandbox.run(boxes, "import time\ntime.sleep(1)\nresult = 'done'", wall=60)
        assert zygote_pid(sandbox) != first
    assert execution.rows == (("done",),)


def idle_children(zygote: int, count: int) -> list[int]:
    """The process ids of ``count`` children, once so many wait."""
    while len(pids := Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()) < count:
        time.sleep(0.01)
    return [int(pid) for pid in pids]


def test_children_that_die_before_their_request_are_replaced(boxes: BoxSet) -> None:
    """However often all that idle are swept away: a request that nobody took is not a try."""
    with Sandbox(SandboxConfig(workers=1)) as sandbox:
        for sweep in range(10):
            for pid in idle_children(zygote_pid(sandbox), 3):
                with contextlib.suppress(ProcessLookupError):  # the last request's own, just ended
                    os.kill(pid, signal.SIGKILL)
            assert sandbox.run(boxes, f"result = {sweep}").rows == ((str(sweep),),)


def test_more_dead_children_than_tries_do_not_fail_a_question(boxes: BoxSet, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox(SandboxConfig(workers=1)) as sandbox:
        take, doomed = sandbox._zygote.take, iter(range(20))

        def dying() -> Any:
            child = take()
            if next(doomed, None) is not None:
                sandbox._zygote.kill(child)
                assert child.ended.wait(30)
            return child

        monkeypatch.setattr(sandbox._zygote, "take", dying)
        assert sandbox.run(boxes, "result = 1").rows == (("1",),)
        assert next(doomed, None) is None


def test_a_pool_that_can_never_be_refilled_ends_in_a_failure_of_the_machinery(
        boxes: BoxSet, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox(SandboxConfig(workers=1)) as sandbox:
        take = sandbox._zygote.take

        def dying() -> Any:
            child = take()
            sandbox._zygote.kill(child)
            assert child.ended.wait(30)
            return child

        monkeypatch.setattr(sandbox._zygote, "take", dying)
        with pytest.raises(MachineryError, match="before they take a request"):
            sandbox.run(boxes, "result = 1")


def test_a_machinery_that_stays_broken_raises(boxes: BoxSet, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox(SandboxConfig(workers=1)) as sandbox:
        monkeypatch.setattr(host_module, "RECEIVED", b"?")
        with pytest.raises(MachineryError):
            sandbox.run(boxes, "result = 1")


def test_code_that_ends_its_process_is_not_repeated(sandbox: Sandbox, boxes: BoxSet) -> None:
    execution = sandbox.run(boxes, "import os\nos._exit(0)")
    assert (execution.outcome, execution.code, execution.rows) == ("exit", 0, None)


def test_closing_ends_every_process(boxes: BoxSet) -> None:
    sandbox = Sandbox(SandboxConfig(workers=2))
    sandbox.run(boxes, "result = 1")
    launcher = sandbox._zygote._process.pid
    processes = descendants(launcher) | {launcher}
    assert len(processes) > 2
    sandbox.close()
    assert not [p for p in processes if Path(f"/proc/{p}").exists()]
    with pytest.raises(MachineryError, match="closed"):
        sandbox.run(boxes, "result = 1")


def test_closing_ends_a_run_in_flight(boxes: BoxSet, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Sandbox(SandboxConfig(workers=1))
    once_handed_over(monkeypatch, sandbox.close)
    with pytest.raises(MachineryError):
        sandbox.run(boxes, "import time\ntime.sleep(60)", wall=60)


def test_a_host_that_is_killed_leaves_no_process() -> None:
    ready, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        sandbox = Sandbox(SandboxConfig(workers=1))
        os.write(write, f"{sandbox._zygote._process.pid} {zygote_pid(sandbox)}".encode())
        time.sleep(600)
        os._exit(0)
    os.close(write)
    pids = [int(p) for p in os.read(ready, 100).split()]
    os.close(ready)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{p}/stat").exists() and " Z " not in Path(f"/proc/{p}/stat").read_text() for p in pids):
        assert time.monotonic() < deadline, "the zygote outlived its host"
        time.sleep(0.05)


def settled(sandbox: Sandbox) -> tuple[int, int]:
    """Our open files and the sandbox's processes, once as many children wait as do between requests."""
    zygote, waiting = zygote_pid(sandbox), sandbox.workers + host_module.SPARE
    deadline = time.monotonic() + 60
    while len(idle_children(zygote, 0)) != waiting or len(sandbox._zygote._children) != waiting:
        assert time.monotonic() < deadline, "children stayed or were not replaced"
        time.sleep(0.01)
    gc.collect()
    return len(os.listdir("/proc/self/fd")), len(descendants(sandbox._zygote._process.pid))


def test_nothing_leaks(sandbox: Sandbox, boxes: BoxSet) -> None:
    programs = ["result = df.x.sum()", "result = df['nope']", "import os\nos._exit(1)", "import os\nos.kill(os.getpid(), 9)",
                "import os\nos.write(3, b'garbage')\nos._exit(0)", "while True: pass"]
    for code in programs:
        sandbox.run(boxes, code, wall=0.3)
    files, processes = settled(sandbox)
    for _ in range(10):
        for code in programs[:5]:
            sandbox.run(boxes, code)
    files_after, processes_after = settled(sandbox)
    assert files_after < files + 10  # a leak of one program alone makes ten
    assert processes_after == processes


def test_code_with_lone_surrogates_is_an_error_of_the_code(sandbox: Sandbox, boxes: BoxSet) -> None:
    assert sandbox.run(boxes, "result = '\ud800'").outcome == "error"


def test_big_code_and_big_frames_pass(sandbox: Sandbox) -> None:
    big = BoxSet((Box("t", pd.DataFrame({"n": range(300_000), "s": ["text"] * 300_000})),))
    assert sandbox.run(big, "x = 1\n" * 50_000 + "result = [[len(t), t.n.sum()]]").rows == (("300000", "44999850000"),)


def test_the_largest_result_that_is_allowed_arrives(boxes: BoxSet) -> None:
    with Sandbox(SandboxConfig(workers=1, max_rows=1000, max_bytes=100_000)) as sandbox:
        assert len(sandbox.run(boxes, "result = [['é' * 45]] * 1000").rows or ()) == 1000
        assert sandbox.run(boxes, "result = [['é']] * 1001").outcome == "output_limit"


def test_without_seccomp_the_word_of_the_user_is_enough(boxes: BoxSet, monkeypatch: pytest.MonkeyPatch) -> None:
    from pandora_train.sandbox import probes

    found = [probes.Capability("seccomp", False, "gone")]
    with pytest.raises(UserError, match=r"sandbox\.unsafe=true"):
        probes.insist(SandboxConfig(), found)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        probes.insist(SandboxConfig(unsafe=True), found)
    assert "seccomp" in str(warned[0].message)


def test_the_config_is_strict() -> None:
    with pytest.raises(UserError, match="did you mean 'memory_mb'"):
        load(SandboxConfig, None, ["memory=5"])
