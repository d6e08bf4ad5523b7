"""The execution guide's words: what the model is told after a step that gave no answer (appendix C.2)."""

from __future__ import annotations

from pandora_train.prompt.text import neutralise, render
from pandora_train.records import Execution


def feedback(code: str, problem: str, execution: Execution | None, wrong: str = "") -> str:
    """The user message after a step; empty when the step's answer stands.

    ``problem`` is a reply that could not be run, ``wrong`` a teacher's comparison with gold. Errors, limits
    and empty results come from ``execution``.
    """
    if problem:
        return neutralise(render("feedback", kind="reply", message=problem, hint=""))
    if execution is None:
        raise ValueError("a step has a problem or an execution")
    if execution.error is not None:
        error = execution.error
        lines = code.splitlines()
        source = lines[error.line - 1].strip() if error.line and error.line <= len(lines) else ""
        line = error.line if source else None
        message = f"{error.type}: {error.message}"
        text = render("feedback", kind="error", message=message, line=line, source=source, hint=error.hint)
        return neutralise(text)
    if execution.outcome != "result":
        return neutralise(render("feedback", kind="error", message=_limit(execution), line=None, hint=""))
    if execution.empty:
        return neutralise(render("feedback", kind="empty", hint=execution.hint))
    if wrong:
        return neutralise(render("feedback", kind="wrong", message=wrong, hint=""))
    return ""


def _limit(execution: Execution) -> str:
    told = {
        "timeout": "it did not end in time",
        "output_limit": "its result is too large",
        "signal": "the Python process crashed",
        "exit": "the Python process ended before `result` was read",
        "bad_payload": "`result` could not be read",
    }
    return told.get(execution.outcome, execution.outcome)
