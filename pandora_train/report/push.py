"""``pandora push``: a data set or a model with its card, to the Hugging Face Hub.

What is published is copied into a folder first, file by file from a list of known kinds, so that optimizer
states, environments and logs never leave by accident. Paths of this machine are taken out of the card and of
``adapter_config.json``. The token comes from ``HF_TOKEN`` (or the Hub's own login) alone.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Literal

import yaml

from pandora_train.config import Config, home
from pandora_train.errors import MachineryError, UserError, first_line
from pandora_train.report.markdown import markdown_tables
from pandora_train.runs import write_json, write_text

FILES = {
    "dataset": ("*.parquet",),
    "model": ("adapter_config.json", "config.json", "generation_config.json", "*.safetensors",
              "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model",
              "vocab.json", "merges.txt", "special_tokens_map.json", "added_tokens.json",
              "chat_template.jinja"),
}
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_PATH = re.compile(r"(?<![\w:/.])~?/(?:[\w.@+-]+/)+[\w.@+-]*")


class PushConfig(Config):
    """What to publish, and where."""

    kind: Literal["dataset", "model"]
    """``dataset``: a distill run folder; ``model``: an adapter, merged model or train run folder."""
    source: str
    """The folder to publish."""
    repo: str
    """Repository on the Hub, such as ``user/name``; made if it does not exist."""
    base_model: str = ""
    """Hub id of the model that an adapter belongs to; needed where training used a ``pypi:`` or local one."""
    license: str = ""
    """Licence for the card's header, such as ``cc-by-sa-4.0``; that of base model and data apply."""
    runs: list[str] = []
    """Evaluation run folders whose tables go into the card."""
    private: bool = True
    """Make a new repository private."""
    out: str = ""
    """Folder to write; empty: ``<home>/push/<repo>``."""
    endpoint: str = ""
    """Another server with the Hub's API; empty: ``HF_ENDPOINT``, else the Hub."""
    message: str = "Upload by pandora push"
    """Commit message."""


def push(config: PushConfig, dry_run: bool = False) -> str:
    """Write the folder and upload it; returns its address, or with ``dry_run`` the folder.

    Raises :class:`UserError` for what the user can mend (source, names, token) and :class:`MachineryError`
    when the server cannot be reached.
    """
    folder = write_folder(config)
    return str(folder) if dry_run else _upload(config, folder)


def write_folder(config: PushConfig) -> Path:
    """Lay out what is published: the files and ``README.md``."""
    if not _HUB_ID.fullmatch(config.repo):
        raise UserError(f"repo '{config.repo}' is not of the form user/name")
    source = _source(config)
    out = Path(config.out) if config.out else home() / "push" / config.repo
    if out.resolve() == source.resolve():
        raise UserError("out must be another folder than source")
    _clear(config, out)
    for file in sorted(f for pattern in FILES[config.kind] for f in source.glob(pattern)):
        shutil.copy2(file, out / file.name)
    base = _adapter_base(config, out)
    write_text(out / "README.md", card(config, source, base))
    return out


def _clear(config: PushConfig, out: Path) -> None:
    """An empty folder; files that an earlier push wrote are replaced, others are never touched."""
    out.mkdir(parents=True, exist_ok=True)
    known = [*FILES[config.kind], "README.md"]
    others = [f.name for f in out.iterdir() if f.is_dir() or not any(f.match(pattern) for pattern in known)]
    if others:
        raise UserError(f"{out} holds other files ({others[0]}): choose another out=")
    for file in out.iterdir():
        file.unlink()


def _source(config: PushConfig) -> Path:
    """The folder that holds the files: for a train run, its best adapter (else its last)."""
    given = Path(config.source).expanduser()
    wanted = "*.parquet" if config.kind == "dataset" else "*.safetensors"
    for folder in (given, given / "best", given / "last"):
        if any(folder.glob(wanted)):
            return folder
    hint = {"dataset": "a distill run folder", "model": "an adapter, merged model or train run folder"}
    raise UserError(f"{given} holds no {wanted}: source must be {hint[config.kind]}")


def _adapter_base(config: PushConfig, out: Path) -> str:
    """Hub id of the base model; written into ``adapter_config.json``, which may name a local folder."""
    file = out / "adapter_config.json"
    if not file.exists():
        return config.base_model
    settings = json.loads(file.read_text(encoding="utf-8"))
    base = config.base_model or str(settings.get("base_model_name_or_path", ""))
    if not _HUB_ID.fullmatch(base) or Path(base).exists():
        raise UserError(f"'{base}' is no model on the Hub: set base_model=, for example "
                        "Qwen/Qwen2.5-Coder-0.5B-Instruct")
    write_json(file, settings | {"base_model_name_or_path": base})
    return base


# --- the card -------------------------------------------------------------------------------------------


def card(config: PushConfig, source: Path, base: str) -> str:
    """``README.md``: the card that distill or train wrote, its header completed, with evaluation tables."""
    file = source / "README.md"
    header, body = _split(file.read_text(encoding="utf-8")) if file.exists() else ({}, _plain_body(config))
    header = {k: v for k, v in header.items() if k != "base_model"} | ({"base_model": base} if base else {})
    if config.license:
        header["license"] = config.license
    header["tags"] = list(dict.fromkeys([*header.get("tags", []), "pandora_train"]))
    if config.runs:
        tables = markdown_tables([Path(r).expanduser() for r in config.runs])
        body = f"{body.rstrip()}\n\n## Evaluation\n\n{tables}\n"
    text = yaml.safe_dump(header, sort_keys=False, allow_unicode=True)
    return without_paths(f"---\n{text}---\n{body.lstrip()}")


def _split(text: str) -> tuple[dict[str, Any], str]:
    """A card's YAML header and what follows."""
    match = re.match(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL)
    if not match:
        return {}, text
    header = yaml.safe_load(match[1])
    return (header if isinstance(header, dict) else {}), match[2]


def _plain_body(config: PushConfig) -> str:
    name = config.repo.split("/")[1]
    what = "Chat rows for supervised training" if config.kind == "dataset" else "Weights"
    return f"# {name}\n\n{what}, made by pandora_train.\n"


def without_paths(text: str) -> str:
    """Absolute paths of this machine become their last name; other text stays as it is."""
    def short(match: re.Match[str]) -> str:
        path = Path(match[0]).expanduser()
        here = path.exists() or path.is_relative_to(Path.home()) or path.is_relative_to(home())
        return path.name if here and len(path.parts) > 2 else match[0]

    return _PATH.sub(short, text)


# --- the upload -----------------------------------------------------------------------------------------


def _upload(config: PushConfig, folder: Path) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HTTPError  # type: ignore[attr-defined]  # its client's

    api = HfApi(endpoint=config.endpoint or None, library_name="pandora_train")
    try:
        url = api.create_repo(config.repo, repo_type=config.kind, private=config.private, exist_ok=True)
        api.upload_folder(folder_path=str(folder), repo_id=config.repo, repo_type=config.kind,
                          commit_message=config.message)
    except HfHubHTTPError as e:
        code = e.response.status_code if e.response is not None else 0
        if code in (401, 403):
            raise UserError(f"the Hub refuses {config.repo} ({code}): set HF_TOKEN to a token that may write "
                            "there") from None
        if code == 400:
            raise UserError(f"the Hub does not take this: {str(e).splitlines()[-1]}") from None
        raise MachineryError(f"the Hub answered {code}: {first_line(e)}") from None
    except (HTTPError, OSError) as e:
        raise MachineryError(f"the Hub is out of reach ({e}); {folder} is complete, push again later") from e
    return str(url)
