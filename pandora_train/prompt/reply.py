"""Replies: reasoning and code, as JSON (the paper's) or as text with one fenced block."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

Format = Literal["json", "fenced"]
_FENCE = re.compile(r"```[ \t]*([\w+.-]*)[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_PYTHON = {"", "python", "python3", "py"}


@dataclass(frozen=True)
class ParsedReply:
    """``problem`` is empty exactly when there is code to run."""

    reasoning: str = ""
    code: str = ""
    problem: str = ""


def write_reply(reasoning: str, code: str, format: Format) -> str:
    """The reply as the model shall write it; :func:`parse_reply` gives the same parts back."""
    if format == "json":
        return json.dumps({"reasoning": reasoning, "code": code}, ensure_ascii=False)
    block = f"```python\n{code.strip()}\n```"
    # An empty reasoning leaves no line break: it would merge with the role line before the reply.
    return f"{reasoning.strip()}\n{block}" if reasoning.strip() else block


def parse_reply(text: str, format: Format, finish: Literal["stop", "length"] = "stop") -> ParsedReply:
    """Read a reply. Whatever the model wrote gives a record, never an exception.

    What a thinking model writes up to ``</think>`` is passed over; cut inside it, there is no code.
    """
    text = without_thinking(_encodable(text))
    parsed = _parse_json(text) if format == "json" else _parse_fenced(text, finish)
    if finish == "length" and parsed.problem:
        return ParsedReply(parsed.reasoning, "", "it was cut off at the token limit before the code ended; "
                                                 "be shorter")
    return parsed


def without_thinking(text: str) -> str:
    """What a reply says after its thinking; empty where the thinking has no end."""
    if text.lstrip().startswith("<think>") and "</think>" not in text:
        return ""
    return text.rpartition("</think>")[2]


def _parse_fenced(text: str, finish: str) -> ParsedReply:
    blocks = [b for b in _FENCE.finditer(text) if b[1].lower() in _PYTHON]
    if not blocks:
        return ParsedReply(text.strip(), "", "it has no ```python code block")
    chosen = next((b for b in reversed(blocks) if "result" in b[2]), blocks[-1])
    reasoning = text[: blocks[0].start()].strip()
    code = chosen[2].strip("\n").rstrip()
    if finish == "length" and not chosen[0].rstrip().endswith("```"):
        return ParsedReply(reasoning, "", "the code block has no end")
    if not code.strip():
        return ParsedReply(reasoning, "", "the code block is empty")
    return ParsedReply(reasoning, code)


def _parse_json(text: str) -> ParsedReply:
    start = text.find("{")
    if start < 0:
        return ParsedReply(text.strip(), "", "it is not a JSON object with the keys reasoning and code")
    try:
        data, _ = json.JSONDecoder(strict=False).raw_decode(text[start:])
    except (ValueError, RecursionError) as e:  # a plain ValueError: a number of thousands of digits
        message = str(e).split(":")[0] if isinstance(e, ValueError) else "nested too deeply"
        return ParsedReply("", "", f"it is not valid JSON ({message})")
    code, reasoning = data.get("code"), data.get("reasoning", "")
    if isinstance(reasoning, list):
        reasoning = "\n".join(str(r) for r in reasoning)
    if not isinstance(code, str) or not code.strip():
        return ParsedReply(str(reasoning), "", "its key code must hold Python code as a string")
    fenced = _FENCE.search(code)
    code = (fenced[2] if fenced else code).strip("\n").rstrip()
    return ParsedReply(_encodable(str(reasoning)), _encodable(code))


def _encodable(text: str) -> str:
    """``text`` without lone surrogates (JSON's ``\\ud800``), which no file and no prompt can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
