"""``pandora`` with one of our own rooms broken for some questions: ``BREAK=builder BROKEN=[words, …]``.

The faults of servers and data need no such help (``server.py``, damaged files); these are those of our code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from pandora_train import answer
from pandora_train.errors import MachineryError
from pandora_train.sandbox import Sandbox
from pandora_train.systems import compiled

BROKEN: list[str] = json.loads(os.environ["BROKEN"])
"""What a question, its table or the code that answers it holds, for the fault to strike."""


def strikes(text: str) -> bool:
    return any(words in text for words in BROKEN)


def broken(function: Callable[..., Any], text: Callable[..., str], error: Exception) -> Callable[..., Any]:
    def breaks(*arguments: Any, **options: Any) -> Any:
        if strikes(text(*arguments)):
            raise error
        return function(*arguments, **options)

    return breaks


match os.environ["BREAK"]:
    case "compiler":
        compiled.compile_label = broken(compiled.compile_label, lambda e, b: e.question, IndexError("list index out of range"))
    case "builder":
        answer.boxes_for = broken(answer.boxes_for, lambda k: getattr(k, "path", ""), KeyError("a column of ours"))
    case "metric":
        answer.score = broken(answer.score, lambda e, *_: e.question, ZeroDivisionError("division by zero"))
    case "sandbox":
        Sandbox.run = broken(Sandbox.run, lambda s, b, code, *_: code, MachineryError("the sandbox's zygote ended"))  # type: ignore[method-assign]

if __name__ == "__main__":
    from pandora_train.cli import main

    main()
