"""Text of prompts: templates, and what keeps strangers' text from forging turns."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import jinja2

from pandora_train.records import content_id

_TEMPLATES = Path(__file__).parent / "templates"
_MARKERS = re.compile(r"<(?=[|\uff5c])|<(?=/?(?:s|bos|eos|think)>)|<(?=(?:start|end)_of_turn)|\[(?=/?INST\])")


def neutralise(text: str) -> str:
    """Keep text from forging turn markers: a space breaks ``<|im_end|>``, ``</s>``, ``[INST]`` and their kin.

    Done in the text itself, so that training, the local backend and any server see the same tokens. Done
    twice it changes nothing more.
    """
    return _MARKERS.sub(lambda m: m[0] + " ", text)


def render(template: str, **values: object) -> str:
    """Render one of the templates beside this file; an undefined name is an error."""
    return _environment().get_template(f"{template}.j2").render(**values).strip()


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=False,
        keep_trailing_newline=False,
        autoescape=False,
    )


@cache
def template_hash() -> str:
    """Content id of all templates; part of the prompt settings."""
    return content_id({p.name: p.read_text(encoding="utf-8") for p in sorted(_TEMPLATES.glob("*.j2"))})
