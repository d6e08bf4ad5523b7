"""The free teacher: a question's label, compiled to pandas with its reasoning, is the one reply."""

from __future__ import annotations

from pandora_train.compile import Unsupported, compile_label
from pandora_train.errors import MachineryError, first_line
from pandora_train.records import Step
from pandora_train.sandbox.protocol import Runner
from pandora_train.systems.protocol import Solution, Task

UNSUPPORTED, FAILED = "unsupported", "compiler failed"
"""How a step's problem begins where there is no code."""


class CompiledLabel:
    """Answers a question by its own gold program: no model, no prompt."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    def solve(self, task: Task) -> Solution:
        """One step. A label that can't be compiled is its problem, whatever the compiler stumbled over."""
        try:
            compiled = compile_label(task.example, task.boxes)
        except Unsupported as e:
            return Solution((Step(reply="", problem=f"{UNSUPPORTED}: {e}"),))
        except MachineryError:
            raise
        except Exception as e:
            problem = f"{FAILED}: {type(e).__name__}: {first_line(e)}"
            return Solution((Step(reply="", problem=problem),))
        execution = self.runner.run(task.boxes, compiled.code)
        return Solution((Step(reply="", reasoning=compiled.reasoning, code=compiled.code,
                              execution=execution),))
