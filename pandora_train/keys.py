"""``pandora keys STAGE``: the config keys of a stage, from the docstrings of its fields."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pandora_train.config import Config, models_in
from pandora_train.errors import pick

STAGES = {
    "annotate": "pandora_train.teach.annotate:AnnotateConfig",
    "distill": "pandora_train.distill:DistillConfig",
    "train": "pandora_train.train.config:TrainConfig",
    "merge": "pandora_train.train.config:MergeConfig",
    "serve": "pandora_train.serve.config:ServeConfig",
    "evaluate": "pandora_train.evaluate.run:EvaluateConfig",
    "ask": "pandora_train.ask:AskConfig",
    "track": "pandora_train.report.log_run:TrackingConfig",
    "push": "pandora_train.report.push:PushConfig",
}
"""Stage to the class of its config; imported when asked for."""
DEFAULT = 20
"""Columns of a default; a longer one follows the meaning."""

ConfigKey = tuple[str, str, str]
"""Dotted key, default as YAML writes it, meaning."""


def stage_keys(stage: str) -> list[ConfigKey]:
    """All keys of ``stage``. Raises :class:`~pandora_train.errors.UserError` naming the stages."""
    pick("stage", stage, STAGES)
    module, name = STAGES[stage].split(":")
    kind: type[Config] = getattr(import_module(module), name)
    return list(_keys(kind, None, ""))


def print_keys(stage: str) -> None:
    """Print :func:`stage_keys` as a table; only meanings are wrapped."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("key", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("meaning", overflow="fold")
    for key, default, meaning in stage_keys(stage):
        short = len(default) <= DEFAULT
        table.add_row(Text(key), Text(default if short else "…"),
                      Text(meaning if short else f"{meaning} Default: {default}"))
    Console().print(table)


def _keys(kind: type[BaseModel], given: BaseModel | None, prefix: str) -> Iterator[ConfigKey]:
    """Keys of ``kind``, nested ones under their parent; ``given`` is the parent's own default, where it has
    one."""
    for name, field in kind.model_fields.items():
        nested = models_in(field.annotation)
        value = getattr(given, name) if given is not None else _default(field)
        meaning = _plain(field.description or (nested[0].__doc__ if nested else "") or "")
        parent = value if isinstance(value, BaseModel) else None
        yield prefix + name, "" if parent else _written(value, field), meaning
        for model in nested:
            listed = "[]" if "list" in str(field.annotation) else ""
            yield from _keys(model, parent, f"{prefix}{name}{listed}.")


def _default(field: FieldInfo) -> Any:
    return None if field.is_required() else field.get_default(call_default_factory=True)


def _written(value: Any, field: FieldInfo) -> str:
    """A default in one line, as a config file would write it."""
    if field.is_required() and value is None:
        return "(required)"
    text: str = yaml.safe_dump(value, default_flow_style=True, width=math.inf)
    return text.removesuffix("\n").removesuffix("\n...")


def _plain(text: str) -> str:
    """A docstring as running text without its markup."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?([^`]*)`", r"\1", text)
    return " ".join(text.replace("``", "").split())
