"""Benchmark files in their official layouts, and users' own, as Examples. Nothing is downloaded here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pandora_train.errors import UserError, pick
from pandora_train.records import Example
from pandora_train.sources import files, grailqa, pathquestion, spider, webqsp, wikitq
from pandora_train.sources.files import knowledge_for
from pandora_train.sources.reading import Loaded
from pandora_train.sources.select import DataConfig, in_part, select

__all__ = ["SOURCES", "DataConfig", "Loaded", "knowledge_for", "load", "load_all", "read"]

SOURCES: dict[str, Callable[[DataConfig], Loaded]] = {
    "spider": spider.read,
    "wikitq": wikitq.read,
    "grailqa": grailqa.read,
    "webqsp": webqsp.read,
    "pathquestion": pathquestion.read,
    "files": files.read,
}


def read(config: DataConfig) -> Loaded:
    """All questions of a split, usable and not, before any selection.

    Raises :class:`~pandora_train.errors.UserError` for missing or broken files.
    """
    pick("benchmark", config.benchmark, SOURCES)
    return SOURCES[config.benchmark](config)


def load(config: DataConfig) -> list[Example]:
    """The usable questions of a split that ``config`` selects, in file order.

    Raises :class:`~pandora_train.errors.UserError` when nothing is left.
    """
    return load_all(config).examples


def load_all(config: DataConfig) -> Loaded:
    """What ``config`` selects: the usable questions, and those its files make unusable, with the reason.

    ``limit`` draws from the usable ones alone; then no others are counted. Raises
    :class:`~pandora_train.errors.UserError` when no usable one is left.
    """
    loaded = read(config)
    examples = select(loaded.examples, config)
    if not examples:
        reasons = Counter(loaded.unusable.values()).most_common(1)
        why = f"; {reasons[0][1]} questions: {reasons[0][0]}" if reasons else ""
        raise UserError(f"no question of {config.benchmark} {config.split} in {config.path} is left{why}")
    unusable = {} if config.limit is not None or config.ids_file else {
        id: reason for id, reason in loaded.unusable.items() if in_part(id, config)}
    return Loaded(examples, unusable)
