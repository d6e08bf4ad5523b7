"""Stage configs: a YAML file plus KEY=VALUE, strict, with every wrong key reported at once.

Each stage defines its own frozen :class:`Config` beside its function; the docstring under a field is its
only description. Secrets never live here: they come from the environment alone.
"""

from __future__ import annotations

import os
import re
import types
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from pandora_train.errors import UserError, did_you_mean, first_line


class Config(BaseModel):
    """Base of stage configs: frozen, unknown keys refused, field docstrings kept as descriptions."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


C = TypeVar("C", bound=Config)


def home() -> Path:
    """Where models, caches and run folders live: ``$PANDORA_HOME``, else ``./checkpoints``."""
    return Path(os.environ.get("PANDORA_HOME") or "checkpoints").expanduser().absolute()


class _Loader(yaml.SafeLoader):
    """PyYAML follows YAML 1.1, where ``1e-4`` is a string; ours reads it as a number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*(\.[\d_]*)?|\.[\d_]+)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def load(kind: type[C], path: str | Path | None = None, overrides: list[str] | None = None) -> C:
    """Read ``path`` (YAML, may be ``None`` for defaults), apply ``KEY=VALUE`` overrides, validate.

    Keys are dotted (``lora.rank=16``); values are YAML. Raises :class:`UserError` naming every unknown
    key with its nearest valid name, or every invalid value, in one line.
    """
    data = _read(path) if path is not None else {}
    for item in overrides or []:
        key, eq, value = item.partition("=")
        if not eq or not key:
            raise UserError(f"'{item}' is not KEY=VALUE (for example train.lr=1e-4)")
        _set(data, key.strip(), _parse(value, item))
    wrong = list(_unknown(kind, data, ""))
    if wrong:
        raise UserError("unknown config keys: " + "; ".join(wrong))
    try:
        return kind.model_validate(data)
    except ValidationError as e:
        parts = [f"{'.'.join(str(p) for p in err['loc'])}: {err['msg']}" for err in e.errors()]
        raise UserError("invalid config: " + "; ".join(parts)) from None


def dump(config: Config) -> str:
    """The resolved config as YAML, loadable by :func:`load`."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _read(path: str | Path) -> dict[str, Any]:
    file = Path(path)
    if not file.is_file():
        near = did_you_mean(file.name, [p.name for p in file.parent.glob("*.yaml")])
        raise UserError(f"no config file {file}{near}")
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{file} is not UTF-8 text") from None
    data = _parse(text, str(file))
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise UserError(f"{file} must hold a mapping of keys to values")
    return data


def _parse(text: str, where: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # a SafeLoader
    except (yaml.YAMLError, ValueError) as e:  # ValueError: a date such as 2024-13-45
        raise UserError(f"{where}: not valid YAML ({first_line(e)})") from None


def _set(data: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    for name in parents:
        node = data.get(name)
        if not isinstance(node, dict):
            node = data[name] = {}
        data = node
    data[last] = value


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Models reachable through Optional, Union and containers of ``annotation``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, types.UnionType, list, tuple):
        return [m for a in get_args(annotation) for m in models_in(a)]
    return []


def _unknown(kind: type[BaseModel], data: dict[str, Any], prefix: str) -> list[str]:
    found: list[str] = []
    for key, value in data.items():
        name = str(key)
        if name not in kind.model_fields:
            found.append(f"{prefix}{name}{did_you_mean(name, kind.model_fields)}")
            continue
        models = models_in(kind.model_fields[name].annotation)
        children = value if isinstance(value, list) else [value]
        if len(models) == 1:
            for child in children:
                if isinstance(child, dict):
                    found += _unknown(models[0], child, f"{prefix}{name}.")
    return found
