"""Gradients of eight rows, as one process of a (perhaps distributed) run; also a script for torchrun."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def gradients(out: str, settings: list[str], environment: dict[str, str] | None = None) -> None:
    """Write loss and gradients to ``out``. ``environment``: RANK and kin, as torchrun sets them."""
    os.environ.update(environment or {})
    import torch
    from accelerate import Accelerator

    from pandora_train.config import load
    from pandora_train.rows import read_rows
    from pandora_train.train import TrainConfig
    from pandora_train.train.base import load_adapted, load_tokenizer
    from pandora_train.train.encode import encode_rows
    from pandora_train.train.loop import Loop
    from pandora_train.train.shard import full

    torch.set_num_threads(1)
    config = load(TrainConfig, None, settings)
    accelerator = Accelerator(cpu=True)
    tokenizer = load_tokenizer(config.model)
    samples, _ = encode_rows(read_rows(config.data), tokenizer, config.max_tokens)
    model = load_adapted(config.model, config, accelerator.device)
    torch.manual_seed(7)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    loop = Loop(config, model, tokenizer, accelerator, Path(out).parent, samples, [])
    loss = loop.accumulate(samples[:8], sum(s.targets for s in samples[:8]))
    grads = full([p.grad for p in loop.parameters])
    if accelerator.is_main_process:
        torch.save({"loss": loss, "grads": grads, "processes": accelerator.num_processes}, out)
    if accelerator.num_processes > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    gradients(sys.argv[1], sys.argv[2:])
