"""What a training run is told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pandora_train.config import Config
from pandora_train.sources import DataConfig

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Largest adapter ranks that vLLM can be told to allow."""
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def served_rank(rank: int) -> int:
    """The least ``--max-lora-rank`` under which vLLM serves an adapter of ``rank`` (at most the last)."""
    return next(allowed for allowed in RANKS if allowed >= rank)


class LoraSettings(Config):
    """The adapter: low-rank updates of linear layers, and nothing else, so that vLLM can serve it."""

    rank: int = Field(default=8, ge=1, le=RANKS[-1])
    """Rank of each update; vLLM must be started with at least this ``--max-lora-rank``."""
    alpha: float = 16.0
    """Scale: the update is multiplied by ``alpha / rank``."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout on the adapter's input; must be 0 with ``layout: shared``, where it would be drawn once for
    several rows."""
    targets: list[str] = LINEAR
    """Names of the linear layers that get an adapter."""


class ExecutionSettings(Config):
    """Questions that the agent answers with the adapter at each held-out loss, shared out over processes."""

    data: list[DataConfig]
    """Which questions; keep them few (``limit``), and out of the training rows."""
    rounds: int = Field(default=0, ge=0)
    """How often an error goes back to the model."""
    max_tokens: int = Field(default=320, ge=1)
    """Longest reply."""
    batch: int = Field(default=8, ge=1)
    """Questions answered together."""


class TrainConfig(Config):
    """One LoRA run."""

    name: str = "train"
    """Name of the run folder."""
    data: str
    """SFT rows (columns id, benchmark, group, prompt, completion): a folder of ``pandora distill`` (its
    train.parquet, and its heldout.parquet for the held-out loss), a Parquet file, or a folder of them."""
    held_out_data: str = ""
    """Rows for the held-out loss, where ``data`` brings none."""
    model: str = "pypi:qwen2.5-coder-0.5b-instruct"
    """Hub name, local folder, or ``pypi:<name>``."""
    lora: LoraSettings = LoraSettings()
    """The adapter's rank, scale and places."""
    layout: Literal["shared", "packed"] = "shared"
    """``shared`` runs what rows have in common once; ``packed`` lays rows side by side. Same gradients."""
    branches: int = Field(default=2, ge=1)
    """Rows of one group (database, table, topic) that come together, at most half a step: more saves more,
    mixes less (the README measures what that costs); 1 shuffles all rows."""
    batch_size: int = Field(default=16, ge=1)
    """Rows per optimizer step, over all processes and accumulation."""
    micro_tokens: int = Field(default=2048, ge=64)
    """Most tokens per forward pass, after sharing; with ``max_tokens`` it bounds the memory, not the
    gradients."""
    max_tokens: int = Field(default=2048, ge=64)
    """Longest row, which has a pass of its own if need be; longer ones are dropped and counted (``distill``
    decides how a prompt is cut)."""
    epochs: float = Field(default=1.0, gt=0)
    """Passes over the rows."""
    max_steps: int = Field(default=0, ge=0)
    """Stop after so many optimizer steps (0: by ``epochs``)."""
    lr: float = Field(default=2e-4, gt=0)
    """Peak learning rate of AdamW."""
    warmup: float = Field(default=0.05, ge=0, lt=1)
    """Part of the steps with a rising rate; a cosine to ``lr_end`` of the peak follows."""
    lr_end: float = Field(default=0.1, ge=0, le=1)
    """Last learning rate, as a part of the peak."""
    clip: float = Field(default=1.0, gt=0)
    """Largest gradient norm."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's decay of the adapter weights."""
    held_out: float = Field(default=0.0, ge=0, lt=1)
    """Part of the groups kept out for the held-out loss, where no file holds such rows."""
    eval_every: int = Field(default=0, ge=0)
    """Optimizer steps between held-out losses (0: at the end of each epoch)."""
    execution: ExecutionSettings | None = None
    """Held-out execution accuracy beside the held-out loss; the loss decides which adapter is best."""
    patience: int = Field(default=0, ge=0)
    """Stop after so many held-out losses in a row without a new best (0: never)."""
    save_every: int = Field(default=20, ge=1)
    """Optimizer steps between resumable checkpoints."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Arithmetic of the frozen base; the adapter stays fp32. ``auto``: bf16 on GPUs and CPUs that have units
    for it (Ampere and later; AVX512-BF16 or AMX), where it is several times faster; fp32 on others."""
    quantize: Literal["none", "4bit"] = "none"
    """``4bit`` loads the base in NF4 by bitsandbytes (GPU only)."""
    checkpoint_layers: bool = False
    """Recompute each layer's activations in the backward pass: a third more time, far less memory."""
    shard: bool = False
    """Spread the base over the processes (FSDP), for models larger than one GPU."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train."""
    threads: int = Field(default=0, ge=0)
    """CPU threads (0: torch's choice). Bit-equal resumption needs the same number."""
    seed: int = 0
    """Seed of the adapter's start and the order of rows."""
    wandb: Literal["off", "offline", "online"] = "off"
    """Weights & Biases, beside ``metrics.jsonl``, which is always written."""


class MergeConfig(Config):
    """Add an adapter into its base model."""

    adapter: str
    """Adapter folder as ``pandora train`` leaves it."""
    model: str = ""
    """Base model; empty: the one that the adapter names."""
    out: str
    """Folder for the merged model."""
    dtype: Literal["fp32", "bf16"] = "bf16"
    """Stored precision."""
