"""From the bytes a child left to an :class:`Execution`. Everything in them may be forged."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

from pandora_train.records import CodeError, Execution, Row

_TRACE_LINE = re.compile(rb'File "<code>", line (\d{1,7})')
_TRACE_START = (b"Fatal Python error", b"Current thread", b"Stack (most recent", b"Thread 0x")
_SHAPES = get_args(Execution.model_fields["shape"].annotation)
_TYPES = {"int", "float", "bool", "str", "date", "null", "mixed"}
# Surrogates and control characters, but not tab and line ends, never leave. Of the upper controls only those
# go that a terminal obeys: the others are real text where UTF-8 was once read as Latin-1 ('Ã\x81lvarez').
_CONTROL = dict.fromkeys(
    [*(c for c in range(0x20) if chr(c) not in "\t\n\r"), 0x7F, 0x85, 0x90, 0x98, *range(0x9B, 0xA0),
     *range(0xD800, 0xE000)])
_SIGNALS = {4: "illegal instruction", 6: "abort", 7: "bus error", 8: "arithmetic error", 9: "killed",
            11: "segmentation fault", 24: "processor time used up", 31: "forbidden system call"}


class BadPayload(Exception):
    """The reply isn't one that our child writes."""


def clean(text: str, limit: int | None = None) -> str:
    """``text`` without surrogates and what controls a terminal, cut to ``limit``."""
    return text[:limit].translate(_CONTROL) if not text.isascii() or not text.isprintable() else text[:limit]


def read_reply(data: bytes, max_rows: int, max_bytes: int) -> Execution:
    """The reply's JSON as a record (``seconds`` unset). Raises :class:`BadPayload`."""
    try:
        reply = json.loads(data)
        if not isinstance(reply, dict):
            raise BadPayload("not an object")
        match reply.get("outcome"):
            case "result":
                return Execution(
                    outcome="result", rows=_rows(reply["rows"], max_rows), types=_types(reply["types"]),
                    shape=_one_of(reply["shape"], _SHAPES), hint=_text(reply["hint"], 2000))
            case "error":
                return Execution(outcome="error", error=CodeError(
                    type=_text(reply["type"], 200), message=_text(reply["message"], 2000),
                    line=_line(reply["line"]), hint=_text(reply["hint"], 2000)))
            case "output_limit":
                return output_limit(_text(reply["message"], 200))
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        raise BadPayload(type(e).__name__) from None
    raise BadPayload("unknown outcome")


def _rows(value: Any, max_rows: int) -> tuple[Row, ...]:
    if not isinstance(value, list) or len(value) > max_rows:
        raise BadPayload("rows")
    return tuple(_row(row) for row in value)


def _row(value: Any) -> Row:
    if not isinstance(value, list):
        raise BadPayload("row")
    return tuple([None if cell is None else _text(cell) for cell in value])


def _text(value: Any, limit: int | None = None) -> str:
    if type(value) is not str:
        raise BadPayload("text")
    return clean(value, limit)


def _types(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) and v in _TYPES for v in value):
        raise BadPayload("types")
    return tuple(value)


def _one_of(value: Any, known: tuple[Any, ...]) -> Any:
    if value not in known:
        raise BadPayload("shape")
    return value


def _line(value: Any) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < 10**7:
        raise BadPayload("line")
    return value


def trace_line(data: bytes | bytearray) -> int | None:
    """The innermost line of generated code in a dump of faulthandler."""
    found = _TRACE_LINE.search(data)
    return int(found.group(1)) if found else None


def timed_out(wall: float, trace: bytes | bytearray) -> Execution:
    """Stopped at its wall time."""
    return Execution(outcome="timeout", error=CodeError(
        type="Timeout", message=f"the code ran for more than {wall:g} seconds", line=trace_line(trace)))


def output_limit(message: str) -> Execution:
    """More output than allowed."""
    return Execution(outcome="output_limit", error=CodeError(type="OutputLimit", message=message))


def bad_payload() -> Execution:
    """The child's reply was none of ours: the code tampered with it."""
    return Execution(outcome="bad_payload", error=CodeError(
        type="BadPayload", message="the code interfered with the way its result is returned"))


def ended(status: int, rest: bytes) -> Execution:
    """The child ended without a reply.

    ``status`` is as by ``os.waitstatus_to_exitcode``, ``rest`` what the child wrote.
    """
    trace = rest if rest.startswith(_TRACE_START) else b""
    if rest and not trace:
        return bad_payload()
    if status < 0:
        name = _SIGNALS.get(-status, f"signal {-status}")
        error = CodeError(type="Signal", message=f"the process died: {name}", line=trace_line(trace))
        return Execution(outcome="signal", code=-status, error=error)
    error = CodeError(type="Exit", message="the process ended before it gave a result")
    return Execution(outcome="exit", code=status, error=error)
