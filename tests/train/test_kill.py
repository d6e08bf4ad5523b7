"""Kill -9 at ten random moments, resumed each time: the adapter equals that of an uninterrupted run."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pandora_train.train import TrainConfig
from pandora_train.train.checkpoint import checkpoints


def _train(config: TrainConfig, run: Path) -> None:
    """In a child process, one thread, so that sums are always taken in the same order."""
    import torch

    from pandora_train.train import train

    torch.set_num_threads(1)
    train(config, run, resume=True)


@pytest.mark.slow
def test_ten_kills_end_bit_equal(model_folder: Path, write_rows: Callable[..., Path], tmp_path: Path) -> None:
    config = TrainConfig(data=str(write_rows(24)), model=str(model_folder), batch_size=2, epochs=24, save_every=2,
                         precision="fp32", device="cpu", threads=1, held_out=0.4, eval_every=5)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pandora_train.train.fit", "peft", "transformers", "accelerate"])

    def start(name: str) -> multiprocessing.process.BaseProcess:
        child = context.Process(target=_train, args=(config, tmp_path / name))
        child.start()
        return child

    imports = context.Process(target=int)  # the fork server's own, once
    imports.start()
    imports.join(300)
    # waits are parts of what this machine takes: ten kills fall within the run, however fast it is
    begun, whole = time.monotonic(), start("whole")
    while whole.is_alive() and not checkpoints(tmp_path / "whole"):
        time.sleep(0.002)
    first = time.monotonic()
    whole.join(300)
    assert whole.exitcode == 0
    steps = json.loads((tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()[-1])["step"]
    startup, per_checkpoint = first - begun, (time.monotonic() - first) * config.save_every / steps
    rng, killed = random.Random(0), 0
    for _ in range(200):
        child = start("killed")
        if killed < 10:
            newest = checkpoints(tmp_path / "killed")[-1:]
            if killed % 3 == 0:  # while it starts or resumes
                time.sleep(rng.random() * startup)
            else:  # past that, while it trains, evaluates or saves
                while child.is_alive() and checkpoints(tmp_path / "killed")[-1:] == newest:
                    time.sleep(0.002)
                time.sleep(rng.random() * 3 * per_checkpoint)
            if child.is_alive() and child.pid:
                os.kill(child.pid, signal.SIGKILL)
        child.join(300)
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
        killed += 1
    assert killed == 10
    for name in ("last", "best"):
        file = "adapter_model.safetensors"
        assert (tmp_path / "killed" / name / file).read_bytes() == (tmp_path / "whole" / name / file).read_bytes()
    lines = [(tmp_path / r / "metrics.jsonl").read_text().count("\n") for r in ("killed", "whole")]
    assert lines[0] == lines[1]
