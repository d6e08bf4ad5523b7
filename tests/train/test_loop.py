"""Whole runs on a tiny model: resumption is bit-equal, processes and accumulation agree, refusals speak."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file

from pandora_train.config import dump, load
from pandora_train.errors import UserError
from pandora_train.train import MergeConfig, TrainConfig, merge, train
from pandora_train.train.checkpoint import checkpoints
from pandora_train.train.loop import Loop
from pandora_train.train.plan import make_plan

from .worker import gradients

NAME = "adapter_model.safetensors"


@pytest.fixture
def config(model_folder: Path, write_rows: Callable[..., Path]) -> Callable[..., TrainConfig]:
    def make(*extra: str) -> TrainConfig:
        return load(TrainConfig, None, [f"model={model_folder}", f"data={write_rows(12)}", "batch_size=3",
                                        "lora.rank=4", "precision=fp32", "device=cpu", "save_every=2", *extra])

    return make


def weights(adapter: Path) -> bytes:
    return (adapter / NAME).read_bytes()


def test_a_run_learns_and_leaves_what_it_promises(config: Callable[..., TrainConfig], tmp_path: Path) -> None:
    run = tmp_path / "run"
    adapter = train(config("epochs=6", "lr=1e-2", "held_out=0.5", "eval_every=2"), run)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [p["loss"] for p in lines if "loss" in p]
    assert losses[-1] < 0.7 * losses[0]
    assert [p["step"] for p in lines if "held_out_loss" in p][:2] == [2, 4]
    results = json.loads((run / "results.json").read_text())
    assert adapter == run / "best"
    assert results["best_held_out_loss"] == min(
        p["held_out_loss"] for p in lines if "held_out_loss" in p)
    assert results["rows"] + results["held_out_rows"] == 12
    card = (adapter / "README.md").read_text()
    assert json.loads((run / "environment.json").read_text())["data_sha256"] in (
        run / "last" / "README.md").read_text()
    assert "licence" in card.lower()
    names = {p.name for p in adapter.iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"} <= names
    assert json.loads((adapter / "adapter_config.json").read_text())["modules_to_save"] is None
    assert (run / "training.png").stat().st_size > 1000


def cut_off(settings: TrainConfig, run: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a run that is interrupted before step ``at + 1``."""
    original = Loop.step

    def failing(self: Loop, position: Any, track: Any) -> Any:
        if position.step == at:
            raise KeyboardInterrupt
        return original(self, position, track)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "step", failing)
        with pytest.raises(KeyboardInterrupt):
            train(settings, run)


def test_wandb_gets_what_metrics_jsonl_gets(
        config: Callable[..., TrainConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        wandb_offline: Callable[[Path], dict[Path, list[Any]]]) -> None:
    """Offline; interrupted and resumed, it is one run with each step once."""
    run, settings = tmp_path / "run", config("epochs=2", "held_out=0.5", "wandb=offline")
    cut_off(settings, run, 2, monkeypatch)
    train(settings, run, resume=True)
    files = [found for _, found in sorted(wandb_offline(run).items())]
    (start, again) = [r.run for found in files for r in found if r.HasField("run")]
    assert start.run_id == again.run_id
    assert {i.key: json.loads(i.value_json) for i in start.config.update}["lora"]["rank"] == 4
    logged = [{"|".join(i.nested_key) or i.key: json.loads(i.value_json) for i in r.history.item}
              for found in files for r in found if r.HasField("history")]
    written = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len(written) > 4
    for key in ("loss", "held_out_loss", "lr", "tokens_per_s"):
        assert [p[key] for p in logged if key in p] == [p[key] for p in written if key in p]


@pytest.mark.parametrize("at", [1, 3])
def test_an_interrupted_run_ends_bit_equal(at: int, config: Callable[..., TrainConfig], tmp_path: Path,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config("epochs=2", "held_out=0.4", "eval_every=3")
    whole = train(settings, tmp_path / "whole")
    cut_off(settings, tmp_path / "cut", at, monkeypatch)
    with pytest.raises(UserError, match="--resume"):
        train(settings, tmp_path / "cut")
    torch.manual_seed(123)
    resumed = train(settings, tmp_path / "cut", resume=True)
    assert weights(resumed) == weights(whole)
    assert weights(resumed.parent / "last") == weights(whole.parent / "last")
    steps = [json.loads(line)["step"] for line in (tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)


def assert_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found["loss"] == pytest.approx(wanted["loss"], rel=1e-5)
    for a, b in zip(found["grads"], wanted["grads"], strict=True):
        assert b.norm() > 0
        assert (a - b).norm() / b.norm() <= 1e-5


def test_processes_and_accumulation_agree(config: Callable[..., TrainConfig], tmp_path: Path) -> None:
    """1 process x 8 rows, 2 x 4 (gloo), 2 sharded, and accumulation: gradients to 1e-5."""
    made = config()
    settings = [f"data={made.data}", f"model={made.model}", "precision=fp32", "lora.rank=4"]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pandora_train.train.fit", "peft", "transformers", "accelerate"])

    def run(name: str, processes: int, *extra: str) -> Any:
        out = str(tmp_path / f"{name}.pt")
        address = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        environments = [address | {"RANK": str(r), "LOCAL_RANK": str(r)} if processes > 1 else {}
                        for r in range(processes)]
        children = [context.Process(target=gradients, args=(out, [*settings, *extra], e)) for e in environments]
        for child in children:
            child.start()
        for child in children:
            child.join(300)
            assert child.exitcode == 0
        found = torch.load(out)
        assert found["processes"] == processes
        return found

    one = run("one", 1, "micro_tokens=4096")
    assert_same(run("accumulated", 1, "micro_tokens=300"), one)
    assert_same(run("two", 2, "micro_tokens=4096"), one)
    assert_same(run("sharded", 2, "micro_tokens=300", "shard=true"), one)
    half = run("bf16", 1, "precision=bf16")
    sharded = run("sharded bf16", 2, "precision=bf16", "shard=true")  # bf16 base, fp32 adapter
    assert sharded["loss"] == pytest.approx(half["loss"], rel=1e-2)
    for a, b in zip(sharded["grads"], half["grads"], strict=True):
        assert (a - b).norm() / b.norm() <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("shard", ["false", "true"])
def test_two_processes_train_and_resume_like_one(shard: str, config: Callable[..., TrainConfig], tmp_path: Path) -> None:
    """Whole runs by torchrun: killed and resumed bit-equal; close to one process; resumed by one."""
    settings = config("epochs=9", "batch_size=4", "held_out=0.4", "eval_every=5", "threads=1")
    (tmp_path / "c.yaml").write_text(dump(settings.model_copy(update={"shard": shard == "true"})))
    run = tmp_path / "run"

    def launch(run: Path, *extra: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port",
                   str(free_port()), "-m", "pandora_train.cli", "train", str(tmp_path / "c.yaml"), "--run-dir", str(run),
                   *extra]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=os.environ | {"OMP_NUM_THREADS": "1"})

    def finish(process: subprocess.Popen[str]) -> list[str]:
        out, error = process.communicate(timeout=300)
        assert process.returncode == 0, error[-2000:]
        return out.split()

    assert finish(launch(run)) == [str(run / "best")]  # said once
    cut = launch(tmp_path / "cut")
    while cut.poll() is None and not checkpoints(tmp_path / "cut"):
        time.sleep(0.002)
    for process in [*psutil.Process(cut.pid).children(recursive=True), cut]:  # workers have sessions of their own
        process.kill()
    cut.communicate()
    assert not (tmp_path / "cut" / "last").exists()  # it had steps left
    shutil.copytree(tmp_path / "cut", tmp_path / "alone")
    finish(launch(tmp_path / "cut", "--resume"))
    train(settings, tmp_path / "alone", resume=True)
    train(settings, tmp_path / "one")
    assert weights(tmp_path / "cut" / "last") == weights(run / "last")
    for other in ("one", "alone"):
        a, b = load_file(tmp_path / other / "last" / NAME), load_file(run / "last" / NAME)
        assert all((a[k] - b[k]).norm() <= 1e-3 * b[k].norm() for k in b)


def test_what_was_begun_with_other_rows_is_not_resumed(config: Callable[..., TrainConfig], tmp_path: Path,
                                                       write_rows: Callable[..., Path]) -> None:
    settings = config("max_steps=1")
    train(settings, tmp_path / "run")
    write_rows(9).rename(settings.data)
    with pytest.raises(UserError, match="data_sha256"):
        train(settings, tmp_path / "run", resume=True)


@pytest.mark.slow
def test_torchrun_agrees_with_one_process(config: Callable[..., TrainConfig], tmp_path: Path) -> None:
    made = config()
    settings = [f"data={made.data}", f"model={made.model}", "precision=fp32", "lora.rank=4"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2]), "OMP_NUM_THREADS": "1"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port",
              str(free_port())]
    found = []
    for launcher in ([sys.executable], launch):
        out = tmp_path / "gradients.pt"
        done = subprocess.run([*launcher, str(Path(__file__).parent / "worker.py"), str(out), *settings],
                              env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-2000:]
        found.append(torch.load(out))
    assert found[1]["processes"] == 2
    assert_same(found[1], found[0])


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def test_early_stop(config: Callable[..., TrainConfig], tmp_path: Path) -> None:
    train(config("epochs=9", "lr=1e-9", "held_out=0.4", "eval_every=1", "patience=2"), tmp_path / "run")
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["stopped_early"]
    assert results["steps"] < 18


def test_steps_mix_groups_and_follow_the_seed(tokenizer: Any, write_rows: Callable[..., Path]) -> None:
    from pandora_train.rows import read_rows
    from pandora_train.train.encode import encode_rows

    samples, _ = encode_rows(read_rows(write_rows(40)), tokenizer, 4096)
    plan = make_plan(samples, 8, 4, 2, 0, seed=1)
    assert plan == make_plan(samples, 8, 4, 2, 0, seed=1) != make_plan(samples, 8, 4, 2, 0, seed=2)
    assert sorted(i for step in plan.steps[:5] for i in step) == list(range(40))
    assert plan.steps[:5] != plan.steps[5:]
    mixed = [len({samples[i].group for i in step}) for step in plan.steps]
    assert sum(m > 1 for m in mixed) >= 0.7 * len(mixed)


@pytest.mark.parametrize(("setting", "message"), [
    ("lora.dropout=0.1", "layout: packed"),
    ("lora.targets=[q_proj, lm_head]", "vLLM refuses"),
    ("lora.targets=[q_porj]", "did you mean 'q_proj'"),
    ("quantize=4bit", "needs a GPU"),
    ("shard=true", "accelerate launch"),
    ("patience=2", "held_out"),
    ("model=no/such-model", "no/such-model"),
])
def test_refusals_name_the_remedy(setting: str, message: str, config: Callable[..., TrainConfig],
                                  tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        train(config(setting), tmp_path / "run")
    assert not (tmp_path / "run").exists()  # the corrected config finds nothing in its way


def test_merged_model_equals_base_with_adapter(config: Callable[..., TrainConfig], tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    settings = config("max_steps=2", "lr=1e-2")
    adapter = train(settings, tmp_path / "run")
    out = merge(MergeConfig(adapter=str(adapter), out=str(tmp_path / "merged"), dtype="fp32"))
    ids = torch.arange(20)[None]
    base = AutoModelForCausalLM.from_pretrained(settings.model, dtype=torch.float32)
    with torch.no_grad():
        plain = base(ids).logits.clone()
        adapted = PeftModel.from_pretrained(base, str(adapter))(ids).logits
        merged = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)(ids).logits
    assert torch.allclose(adapted, merged, atol=1e-4)
    assert not torch.allclose(plain, merged, atol=1e-3)
    with pytest.raises(UserError, match="no LoRA adapter"):
        merge(MergeConfig(adapter=str(tmp_path), out=str(tmp_path / "x")))


def test_every_config_file_is_valid() -> None:
    folder = Path(__file__).resolve().parents[2] / "configs" / "train"
    files = sorted(folder.glob("*.yaml"))
    assert {"tiny", "cpu", "gpu-0.5b", "gpu-1.5b", "gpu-7b", "gpu-32b"} <= {f.stem for f in files}
    for file in files:
        config = load(TrainConfig, file)
        assert config.name == file.stem
