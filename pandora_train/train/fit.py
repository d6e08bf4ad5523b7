"""The start of a run: settings refused or taken, rows encoded, the run folder claimed, the model loaded."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

from pandora_train.errors import UserError
from pandora_train.llm.identity import read_prompt_settings
from pandora_train.llm.weights import resolve
from pandora_train.rows import SftRow, data_hash, training_rows
from pandora_train.runs import Run, refuse_folder, run_folder
from pandora_train.train.base import check_vocabulary, load_adapted, load_tokenizer, precision
from pandora_train.train.card import Beside
from pandora_train.train.config import TrainConfig
from pandora_train.train.encode import Sample, encode_rows
from pandora_train.train.execution import questions
from pandora_train.train.loop import Loop


def fit(config: TrainConfig, run_dir: Path | None, resume: bool) -> Path:
    """See :func:`pandora_train.train.train`."""
    try:
        return _begin(config, run_dir, resume).run()
    except torch.OutOfMemoryError:
        raise UserError("out of memory: set checkpoint_layers=true or lower micro_tokens, and go on with "
                        "--resume; or lower max_tokens and begin anew") from None


def _begin(config: TrainConfig, run_dir: Path | None, resume: bool) -> Loop:
    if config.threads:
        torch.set_num_threads(config.threads)
    accelerator = Accelerator(cpu=config.device == "cpu" or not torch.cuda.is_available())
    _refuse(config, accelerator)
    folder = run_folder("train", config.name, run_dir)
    refuse_folder(folder, config, resume)
    base = resolve(config.model)
    tokenizer = load_tokenizer(base)
    rows, held_rows = training_rows(config.data, config.held_out_data, config.held_out, config.seed)
    data = Path(config.data)
    settings = read_prompt_settings(data if data.is_dir() else data.parent)
    samples, held, facts = _encoded(config, tokenizer, rows, held_rows)
    facts["prompt"] = None if settings is None else settings.model_dump()
    asked = questions(config.execution) if config.execution is not None else []
    facts["arithmetic"] = str(precision(config, accelerator.device)).removeprefix("torch.")
    model = load_adapted(base, config, accelerator.device)
    check_vocabulary(model, tokenizer)
    loop = Loop(config, model, tokenizer, accelerator, folder, samples, held, facts, asked,
                Beside(settings, rows))
    _claim(config, folder, resume, accelerator, facts)  # only now: what was refused leaves no folder
    return loop


def _refuse(config: TrainConfig, accelerator: Accelerator) -> None:
    if config.device == "cuda" and accelerator.device.type != "cuda":
        raise UserError("device: cuda, but no GPU is visible; set device: cpu")
    if config.shard and (config.execution is not None or config.quantize != "none"):
        raise UserError("shard: true does not go with execution or quantize: leave those out")
    if config.shard and accelerator.num_processes == 1:
        raise UserError("shard: true needs several processes: start it by `accelerate launch` (README)")
    if config.layout == "shared" and config.lora.dropout:
        raise UserError("lora.dropout must be 0 with layout: shared (one draw would serve several rows); "
                        "set it to 0, or layout: packed")


def _encoded(config: TrainConfig, tokenizer: Any, rows: list[SftRow], held_rows: list[SftRow]
             ) -> tuple[list[Sample], list[Sample], dict[str, Any]]:
    """Training and held-out samples, and the facts about them that are kept with the run."""
    samples, counts = encode_rows(rows, tokenizer, config.max_tokens)
    held, held_counts = encode_rows(held_rows, tokenizer, config.max_tokens)
    if not samples:
        raise UserError(f"no row of {config.data} can be trained on: {dict(counts)}")
    if held_rows and not held:
        raise UserError(f"no held-out row can be measured on: {dict(held_counts)}")
    if not held and (config.execution is not None or config.patience or config.eval_every):
        raise UserError("execution, patience and eval_every go with the held-out loss: set held_out or "
                        "held_out_data")
    counts.update({f"held out, {reason}": n for reason, n in held_counts.items()})
    return samples, held, {"data_sha256": data_hash(rows), "held_out_sha256": data_hash(held_rows),
                           "rows": len(samples), "held_out_rows": len(held),
                           "tokens": sum(len(s.tokens) for s in samples),
                           "labels": sum(s.targets for s in samples), **counts}


def _claim(config: TrainConfig, folder: Path, resume: bool, accelerator: Accelerator,
           facts: dict[str, Any]) -> None:
    """Open the run folder, by the main process alone; where it is refused, all processes end."""
    problem = ""
    if accelerator.is_main_process:
        print(", ".join(f"{name}: {value}" for name, value in facts.items() if "sha256" not in name),
              file=sys.stderr)
        try:
            Run("train", config.name, config, folder, resume, facts)
        except UserError as e:
            problem = str(e)
    (problem,) = broadcast_object_list([problem])
    if problem and not accelerator.is_main_process:
        raise SystemExit(2)  # the main process says why
    if problem:
        raise UserError(problem)
