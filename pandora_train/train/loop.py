"""The training loop: plan, forward, backward, step; evaluate, save; end with an adapter and its card."""

from __future__ import annotations

import contextlib
import math
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate.utils import broadcast_object_list

from pandora_train.errors import UserError
from pandora_train.prompt import PromptConfig
from pandora_train.records import Example, content_id
from pandora_train.runs import write_json
from pandora_train.train.base import precision, trainable
from pandora_train.train.card import Beside, write_card
from pandora_train.train.checkpoint import (
    Position,
    cut_metrics,
    load_checkpoint,
    newest,
    replacing,
    save_checkpoint,
)
from pandora_train.train.config import ExecutionSettings, TrainConfig
from pandora_train.train.encode import Sample
from pandora_train.train.execution import right_answers
from pandora_train.train.loss import AnswerLoss, check_architecture
from pandora_train.train.plan import Plan, make_plan, micro_batches, share
from pandora_train.train.shard import full, shard
from pandora_train.train.track import Tracker, plot, read_metrics
from pandora_train.train.tree import build_tree


class Loop:
    """One run over encoded samples. Distributed data-parallel processes each take a share of every step."""

    def __init__(self, config: TrainConfig, model: Any, tokenizer: Any, accelerator: Any, run: Path,
                 samples: list[Sample], held: list[Sample], facts: dict[str, Any] | None = None,
                 asked: Sequence[Example] = (), beside: Beside | None = None) -> None:
        self.config, self.model, self.tokenizer, self.run_path = config, model, tokenizer, run
        self.beside = beside or Beside()
        self.accelerator, self.samples, self.held, self.asked = accelerator, samples, held, asked
        self.facts = facts or {}
        self.dtype = precision(config, accelerator.device)
        self.loss = AnswerLoss(model)
        if config.shard:
            shard(self.loss)
        with self._mixed():
            check_architecture(self.loss, accelerator.device)
        self.parameters = trainable(model)
        self.optimizer = torch.optim.AdamW(self.parameters, lr=config.lr, weight_decay=config.weight_decay)
        self.plan: Plan = make_plan(samples, config.batch_size, config.branches, config.epochs,
                                    config.max_steps, config.seed)

    def run(self) -> Path:
        """Train to the end from wherever the run stands; returns the adapter folder."""
        config, main = self.config, self.accelerator.is_main_process
        (name,) = broadcast_object_list([newest(self.run_path)])
        at = load_checkpoint(self.run_path, name, self.parameters, self.optimizer)
        if main:
            cut_metrics(self.run_path / "metrics.jsonl", at.step)
        with Tracker(self.run_path, len(self.plan.steps), at.step, config, config.wandb, config.name,
                     main) as track:
            while at.step < len(self.plan.steps) and not at.stopped:
                at = self.step(at, track)
                last = at.step == len(self.plan.steps)
                if self.held and (last or at.step % (config.eval_every or self.plan.per_epoch) == 0):
                    at = self.evaluate(at, track)
                if last or at.stopped or at.step % config.save_every == 0:
                    save_checkpoint(self.run_path, at, self.parameters, self.optimizer, main)
        self.save_adapter("last", at)
        if main:
            plot(self.run_path)
        adapter = self.run_path / ("best" if at.best is not None else "last")
        if main:
            write_json(self.run_path / "results.json", self._results(at) | {"adapter": adapter.name})
        self.accelerator.wait_for_everyone()
        return adapter

    def step(self, at: Position, track: Tracker) -> Position:
        """One optimizer step: gradients of the step's rows, summed over processes, per labelled token."""
        began = time.perf_counter()
        rows = [self.samples[i] for i in self.plan.steps[at.step]]
        labels = sum(r.targets for r in rows)
        rate = self._rate(at.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        self.model.train()
        torch.manual_seed(self._seed(at.step))
        loss = self.accumulate(rows, labels)
        norm = float(full(torch.nn.utils.clip_grad_norm_(self.parameters, self.config.clip)))
        step = at.step + 1
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise UserError(f"loss {loss}, gradient norm {norm} at step {step}: lower lr, or train in fp32")
        self.optimizer.step()
        seconds = time.perf_counter() - began
        track.log(step, loss=loss, lr=rate, grad_norm=norm, labels=labels, rows=len(rows),
                  seconds=seconds, tokens_per_s=labels / seconds, rows_per_s=len(rows) / seconds)
        return at.model_copy(update={"step": step, "tokens": at.tokens + labels})

    def accumulate(self, rows: Sequence[Sample], labels: int) -> float:
        """Gradients of ``rows`` into ``.grad``, normalised by ``labels``; the loss over all processes."""
        total = torch.zeros((), device=self.accelerator.device)
        scale = self.accelerator.num_processes if self.config.shard else 1
        for batch, counts in self._micro_batches(rows):
            loss = self._forward(batch) / labels * counts
            (loss * scale).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        self._sum_gradients()
        return float(self._sum(total))

    @torch.no_grad()
    def evaluate(self, at: Position, track: Tracker) -> Position:
        """Held-out loss per labelled token; keeps the best adapter and says when to stop."""
        self.model.eval()
        total = torch.zeros((), device=self.accelerator.device)
        for batch, counts in self._micro_batches(self.held):
            total += self._forward(batch) * counts
        loss = float(self._sum(total)) / sum(s.targets for s in self.held)
        if not math.isfinite(loss):
            raise UserError(f"the held-out loss is {loss} at step {at.step}: lower lr, or train in fp32")
        track.log(at.step, held_out_loss=loss)
        if self.config.execution is not None:
            track.log(at.step, execution_accuracy=self._execution_accuracy(self.config.execution))
        if at.best is None or loss < at.best:
            at = at.model_copy(update={"best": loss, "since_best": 0})
            self.save_adapter("best", at)
            return at
        since = at.since_best + 1
        return at.model_copy(update={"since_best": since, "stopped": 0 < self.config.patience <= since})

    def _execution_accuracy(self, settings: ExecutionSettings) -> float:
        """Share of questions answered right; every process answers its part of them."""
        mine = self.asked[self.accelerator.process_index:: self.accelerator.num_processes]
        prompt = self.beside.settings or PromptConfig().settings()
        right = right_answers(self.model, self.tokenizer, settings, prompt, mine, self._mixed)
        return float(self._sum(torch.tensor(float(right), device=self.accelerator.device))) / len(self.asked)

    def save_adapter(self, name: str, at: Position) -> None:
        """Write ``best`` or ``last`` in peft's layout, with the chat template's tokenizer and a card."""
        weights = {n: full(p.detach()) for n, p in self.model.named_parameters() if p.requires_grad}
        if not self.accelerator.is_main_process:
            return
        with replacing(self.run_path / name) as folder:
            self.model.save_pretrained(folder, save_embedding_layers=False, state_dict=weights)
            self.tokenizer.save_pretrained(folder)
            self.beside.write(folder)
            write_card(folder, self.config, self.facts, at)

    def _micro_batches(self, rows: Sequence[Sample]) -> list[tuple[list[Sample], bool]]:
        """This process's forward passes over its share of ``rows``, and whether each counts.

        Sharded processes must run equally many, so those with fewer repeat a row that does not count.
        """
        world, budget = self.accelerator.num_processes, self.config.micro_tokens
        ranks = range(world) if self.config.shard else [self.accelerator.process_index]
        found = {r: micro_batches(share(rows, r, world), budget, self._shared) for r in ranks}
        mine = [(batch, True) for batch in found[self.accelerator.process_index]]
        missing = max(len(batches) for batches in found.values()) - len(mine)
        return mine + [([rows[0]], False)] * missing

    @property
    def _shared(self) -> bool:
        return self.config.layout == "shared"

    def _rate(self, step: int) -> float:
        total, config = len(self.plan.steps), self.config
        warm = max(1, round(config.warmup * total))
        if step < warm:
            return config.lr * (step + 1) / warm
        part = (step - warm) / max(1, total - warm)
        return config.lr * (config.lr_end + (1 - config.lr_end) * 0.5 * (1 + math.cos(math.pi * part)))

    def _seed(self, step: int) -> int:
        """For the random numbers (dropout) of one step in this process: a resumed run draws the same."""
        return int(content_id(self.config.seed, step, self.accelerator.process_index, size=15), 16)

    def _mixed(self) -> Any:
        """The arithmetic of forward passes: the adapter is fp32, the base may be bf16."""
        if self.dtype == torch.float32:
            return contextlib.nullcontext()
        return torch.autocast(self.accelerator.device.type, self.dtype)

    def _forward(self, batch: Sequence[Sample]) -> torch.Tensor:
        with self._mixed():
            loss: torch.Tensor = self.loss(build_tree(batch, self._shared).to(self.accelerator.device))
        return loss

    def _sum_gradients(self) -> None:
        """Add the processes' gradients in one flat message (adapters are small; no wrapper is needed)."""
        for p in self.parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        if self.accelerator.num_processes == 1 or self.config.shard:
            return
        grads = [p.grad for p in self.parameters if p.grad is not None]
        flat = torch.cat([g.flatten() for g in grads])
        dist.all_reduce(flat)
        for grad, part in zip(grads, torch.split(flat, [g.numel() for g in grads]), strict=True):
            grad.copy_(part.view_as(grad))

    def _sum(self, value: torch.Tensor) -> torch.Tensor:
        if self.accelerator.num_processes > 1:
            dist.all_reduce(value)
        return value

    def _results(self, at: Position) -> dict[str, Any]:
        """Facts and figures of the whole run; peak memory is this process's."""
        lines = read_metrics(self.run_path / "metrics.jsonl")
        found = [p["execution_accuracy"] for p in lines if "execution_accuracy" in p]
        memory = (torch.cuda.max_memory_allocated() if self.accelerator.device.type == "cuda"
                  else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        return self.facts | {
            "steps": at.step, "labelled_tokens": at.tokens, "best_held_out_loss": at.best,
            "execution_accuracy": found, "seconds": sum(p.get("seconds", 0.0) for p in lines),
            "peak_memory_bytes": memory, "stopped_early": at.stopped}
