"""What to serve, and the vLLM command line and environment that follow from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from pydantic import Field

from pandora_train.config import Config


class ServeConfig(Config):
    """``pandora serve``: one base model and any number of LoRA adapters on one vLLM server."""

    model: str
    """Base model: hub name, folder, or ``pypi:<name>``."""
    name: str = "base"
    """The base model's name on the server."""
    adapters: dict[str, str] = {}
    """Name on the server to LoRA adapter folder."""
    host: str = "127.0.0.1"
    """Address to listen on; the server asks for no key, so keep it private."""
    port: int = Field(default=0, ge=0, lt=65536)
    """0 takes a free one."""
    dtype: str = "auto"
    """auto: float32 on a CPU (bfloat16 is several times slower there), the model's own type on a GPU."""
    max_model_len: int = Field(default=8192, gt=0)
    """Tokens of prompt and reply; ten demonstrations need up to 7,100."""
    max_num_seqs: int = Field(default=32, gt=0)
    """Requests generated together; more wait."""
    threads: int = Field(default=0, ge=0)
    """CPU: cores to use; 0 takes all that this process may use."""
    kv_cache_gb: int = Field(default=4, gt=0)
    """CPU: memory for keys and values."""
    gpu_memory: float = Field(default=0.9, gt=0, le=1)
    """GPU: share of its memory to use."""
    tensor_parallel: int = Field(default=1, gt=0)
    """GPUs that share each layer."""
    data_parallel: int = Field(default=1, gt=0)
    """Copies of the model, each on its own GPUs."""
    start_timeout: float = Field(default=900.0, gt=0)
    """Seconds until the server must be up: about one minute on idle cores, several on busy ones."""
    extra: list[str] = []
    """Further arguments of vLLM's own, such as ``--quantization=fp8``."""


def on_gpu() -> bool:
    """Whether vLLM will use a GPU here."""
    if shutil.which("nvidia-smi") is None or os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return False
    return subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode == 0


def command(config: ServeConfig, model: Path | str, port: int, rank: int, gpu: bool) -> list[str]:
    """vLLM's command line. ``rank``: largest LoRA rank to allow, 0 for no adapters."""
    dtype = "float32" if config.dtype == "auto" and not gpu else config.dtype
    line = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
            "--served-model-name", config.name, "--host", config.host, "--port", str(port),
            "--dtype", dtype, "--max-model-len", str(config.max_model_len),
            "--max-num-seqs", str(config.max_num_seqs), "--enable-prefix-caching",
            "--enable-prompt-tokens-details",
            # "auto" would take sampling defaults such as a repetition penalty from the model's folder.
            "--generation-config", "vllm", "--disable-uvicorn-access-log",
            "--middleware", "pandora_train.serve.identity.IdentityMiddleware"]
    if gpu:
        line += ["--tensor-parallel-size", str(config.tensor_parallel),
                 "--data-parallel-size", str(config.data_parallel),
                 "--gpu-memory-utilization", str(config.gpu_memory)]
    else:
        # Compiling needs a C++ compiler and minutes. Prefixes are shared in whole blocks: of 128 by default.
        line += ["--enforce-eager", "--block-size", "32"]
    if rank:
        line += ["--enable-lora", "--max-lora-rank", str(rank), "--max-loras", str(len(config.adapters)),
                 "--lora-modules", *(f"{n}={Path(p).absolute()}" for n, p in config.adapters.items())]
    return line + config.extra


def environment(config: ServeConfig, model: Path | str, gpu: bool) -> dict[str, str]:
    """The server's environment: no telemetry, no hub for local weights, all cores of the CPU."""
    env = os.environ | {"VLLM_NO_USAGE_STATS": "1", "TOKENIZERS_PARALLELISM": "false"}
    if isinstance(model, Path):
        env |= {"HF_HUB_OFFLINE": "1"}
    if not gpu:
        cores = sorted(os.sched_getaffinity(0))[: config.threads or None]
        env |= {"VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)), "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
                "VLLM_CPU_KVCACHE_SPACE": str(config.kv_cache_gb)}
        env.pop("OMP_NUM_THREADS", None)
    return env
