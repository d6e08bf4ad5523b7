"""Who answered: hashes of the weights, else a fingerprint of what they say, else the provider's name.

Names and addresses prove nothing: another adapter can be served under the same name at the same port.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from statistics import median
from typing import Literal

from pydantic import ValidationError

from pandora_train.config import home
from pandora_train.errors import UserError, first_line
from pandora_train.records import PromptSettings, Record, content_id
from pandora_train.runs import file_hash, write_json, write_text

SETTINGS = "prompt_settings.json"
"""How the rows were laid out; travels on beside the adapter."""
TOLERANCE = {"": 0.0, "prompt": 0.01, "first": 0.15}
"""Most nats between two fingerprints of one model (median over the prompts). A mean over a prompt's tokens
hides the rounding that batches change; one token's log-probability moves more."""


class Identity(Record):
    """Which model it is."""

    kind: Literal["weights", "fingerprint", "name"]
    model: str
    """Its name here, or on the server; for ``name`` with the provider's host before it."""
    base_sha256: str = ""
    """Of the base model's weight files; for several files, of the list of their hashes."""
    adapter_sha256: str = ""
    """Of the adapter's weight file; empty without adapter."""
    fingerprint: tuple[float, ...] = ()
    """Log-probabilities (nats) of fixed prompts."""
    measure: Literal["", "prompt", "first"] = ""
    """The fingerprint's: mean over each prompt's tokens, or of the first token of each reply."""
    prompt: PromptSettings | None = None
    """The settings that the model was trained with, where they are known."""

    @property
    def key(self) -> str:
        """Stable text that tells models apart; weights are the same under any name."""
        if self.kind == "weights":
            return content_id(self.kind, self.base_sha256, self.adapter_sha256)
        return content_id(self.kind, self.model, self.measure, self.fingerprint)

    def same(self, other: Identity) -> bool:
        """Whether both are one model: equal keys, or fingerprints that differ by no more than noise."""
        if self.key == other.key:
            return True
        comparable = (self.kind == other.kind == "fingerprint" and self.model == other.model
                      and self.measure == other.measure and len(self.fingerprint) == len(other.fingerprint))
        pairs = zip(self.fingerprint, other.fingerprint, strict=False)
        return comparable and median(abs(a - b) for a, b in pairs) <= TOLERANCE[self.measure]


def weights_identity(name: str, base: Path | str, adapter: Path | str = "") -> Identity:
    """Identity of weights on disk. ``base``: model folder or hub name; ``adapter``: folder, or none.

    Raises :class:`UserError` when a hub model is out of reach.
    """
    folder = local_folder(base)
    settings = read_prompt_settings(Path(adapter)) if adapter else read_prompt_settings(folder)
    return Identity(kind="weights", model=name, base_sha256=base_hash(folder), prompt=settings,
                    adapter_sha256=sha256(Path(adapter) / "adapter_model.safetensors") if adapter else "")


def write_prompt_settings(folder: Path, settings: PromptSettings) -> None:
    """Leave ``settings`` beside rows, adapter or merged model."""
    write_text(folder / SETTINGS, settings.model_dump_json(indent=2) + "\n")


def read_prompt_settings(folder: Path) -> PromptSettings | None:
    """What ``prompt_settings.json`` beside rows, adapter or merged model says; none where there is none.

    Raises :class:`UserError` for a file that cannot be read.
    """
    file = folder / SETTINGS
    if not file.is_file():
        return None
    try:
        return PromptSettings.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as e:
        raise UserError(f"{file} holds no prompt settings ({first_line(e)}): take it from the training run "
                        "again") from None


def local_folder(model: Path | str) -> Path:
    """The folder of a model's files; a hub model is fetched (or taken from the hub's own store)."""
    if isinstance(model, Path):
        return model
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, allow_patterns=["*.safetensors", "*.json", "*.txt", "*.model",
                                                             "*.jinja"]))
    except (OSError, ValueError) as e:
        raise UserError(f"model '{model}' cannot be fetched: {first_line(e)}") from None


def base_hash(folder: Path) -> str:
    """SHA-256 over a model folder's weight files; empty when it has none."""
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
    if len(files) == 1:
        return sha256(files[0])
    return content_id([(f.name, sha256(f)) for f in files], size=64) if files else ""


def sha256(file: Path) -> str:
    """A file's SHA-256, remembered in ``<home>/hashes.json`` by path, size and time of change.

    Hashing a large model takes minutes, and nothing else about a file tells that it was exchanged.
    """
    if not file.is_file():
        return ""
    path, stat = str(file.resolve()), file.stat()
    stamp = [stat.st_size, stat.st_mtime_ns]
    store = home() / "hashes.json"
    known = _hashes(store)
    if known.get(path, [])[:2] == stamp:
        return str(known[path][2])
    digest = file_hash(file)
    with contextlib.suppress(OSError):  # without a home to write to, the next run hashes again
        store.parent.mkdir(parents=True, exist_ok=True)
        write_json(store, _hashes(store) | {path: [*stamp, digest]})
    return digest


def _hashes(store: Path) -> dict[str, list[int | str]]:
    try:
        data = json.loads(store.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    pairs = data.items() if isinstance(data, dict) else ()
    return {path: stamp for path, stamp in pairs if isinstance(stamp, list) and len(stamp) == 3}
