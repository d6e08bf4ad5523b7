"""Over-long prompts: demonstrations go first (farthest first), then frames that the answer does not name.

Works on the text that :mod:`pandora_train.prompt` writes: demonstrations are blocks that open with
``### Example``, frames are lines ``name = pd.DataFrame(...)``. The answer is never touched.
"""

from __future__ import annotations

import re

from pandora_train.llm.protocol import Message

_DEMONSTRATION = re.compile(r"(?:^|\n\n)### Example\n.*?(?=\n\n### Example\n|\Z)", re.DOTALL)
_FRAME = re.compile(r"^(\w+) = pd\.DataFrame\(.*\)[ \t]*$\n?", re.MULTILINE)
_KEYS = re.compile(r"^# foreign keys: (.*)$\n?", re.MULTILINE)


def shorter(messages: list[Message]) -> tuple[list[Message] | None, str]:
    """The messages with one piece less and what it was, or ``None`` when nothing more may go."""
    for i, message in enumerate(messages):
        if message["role"] == "system" and (found := _DEMONSTRATION.search(message["content"])):
            return _cut(messages, i, found), "shortened: demonstrations"
    answer = "\n".join(m["content"] for m in messages if m["role"] == "assistant")
    for i, message in enumerate(messages):
        if message["role"] != "user":
            continue
        spare = [f for f in _FRAME.finditer(message["content"])
                 if not re.search(rf"\b{re.escape(f[1])}\b", answer)]
        if spare:
            return _without_keys(_cut(messages, i, spare[-1]), i, spare[-1][1]), "shortened: schema"
    return None, "dropped: too long"


def _without_keys(messages: list[Message], index: int, frame: str) -> list[Message]:
    """Drop the foreign keys of a frame that is no longer shown."""
    content = messages[index]["content"]
    line = _KEYS.search(content)
    if line is None:
        return messages
    kept = [key for key in re.split(r", (?=\w+[.\[])", line[1])
            if not re.search(rf"(?:^| = ){re.escape(frame)}[.\[]", key)]
    shown = f"# foreign keys: {', '.join(kept)}\n" if kept else ""
    new: Message = {"role": messages[index]["role"],
                    "content": content[: line.start()] + shown + content[line.end():]}
    return [*messages[:index], new, *messages[index + 1:]]


def _cut(messages: list[Message], index: int, found: re.Match[str]) -> list[Message]:
    content = messages[index]["content"]
    kept = (content[: found.start()] + content[found.end():]).strip()
    new: Message = {"role": messages[index]["role"], "content": kept}
    return [*messages[:index], new, *messages[index + 1:]]
