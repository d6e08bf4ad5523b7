"""One example through a system to a scored outcome: the one place that decides what a failure is.

*Ground, build BOXes, fetch demonstrations, solve, score.* A question ends *answered* (scored, whatever the
answer is worth), with a *failed reading* (ours: in n, scored 0, told before a call is paid for) or with
*unusable gold* (outside n). Whatever the machinery or a server does to it leaves it *unfinished*: it has no
record, and ``--resume`` takes it up again. One question never ends a run; only what concerns all of them does
(:class:`~pandora_train.errors.UserError`: a bad key, an unknown model, a full disk).
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pandora_train.box import boxes_for
from pandora_train.box.schema import schema_of
from pandora_train.errors import GoldError, MachineryError, ReadingError, UserError, first_line
from pandora_train.ground import Grounder
from pandora_train.metrics import as_text, database, gold_rows, is_right, metric_names, needs_gold_rows, score
from pandora_train.metrics.spider import databases
from pandora_train.metrics.sqlrun import Cells
from pandora_train.prompt import Demonstration, Prompt, PromptConfig
from pandora_train.records import Ending, Example, Execution, Status, Step, Trajectory, Usage
from pandora_train.runs import in_threads
from pandora_train.sandbox.protocol import Runner
from pandora_train.systems.protocol import Solution, System, Task

SHOWN = 200
"""Gold rows kept beside an answer, for reading."""
STREAK = 64
"""Questions left unfinished in a row after which the rest isn't asked: the server is down."""
WRONG = "it is not the expected answer"


@dataclass(frozen=True)
class Answer:
    """A question's record, with what it was made from where reading and gold allowed it."""

    trajectory: Trajectory
    task: Task | None = None
    prompt: Prompt | None = None
    gold: Cells | None = None
    """What the gold SQL gives; ``None`` where right isn't decided by SQL."""

    @property
    def right(self) -> bool:
        """Whether the primary metric is 1, strictly: equals in another order than gold's are not right."""
        rows, task = self.trajectory.rows, self.task
        return self.trajectory.status == "ok" and task is not None and is_right(task.example, rows, self.gold)


class Answerer:
    """Answers examples by one system; safe to call from several threads."""

    def __init__(self, system: System, runner: Runner, prompt: PromptConfig, ground: Grounder,
                 demonstrations: Callable[[Example], Sequence[Demonstration]] = lambda example: ()) -> None:
        self.system, self.runner, self.prompt = system, runner, prompt
        self.ground, self.demonstrations = ground, demonstrations

    def __call__(self, example: Example, hint: tuple[str, str] = ("", ""), teach: bool = False,
                 scored: bool = True) -> Answer:
        """Follow ``example`` to its end.

        ``hint`` and ``teach`` (compare each answer with gold, and feed a wrong one back) are for teachers;
        without ``scored`` no gold is asked for. Raises :class:`~pandora_train.errors.MachineryError` where
        the question stays unfinished, :class:`~pandora_train.errors.UserError` for what concerns all
        questions.
        """
        began = time.monotonic()
        try:
            task = self._read(example, hint)
            gold = _gold(task.example) if scored else None
        except ReadingError as e:
            return Answer(_without_answer(example, "failed reading", e, scored, began))
        except GoldError as e:
            return Answer(_without_answer(example, "unusable gold", e, False, began))
        if teach:
            task = replace(task, check=lambda rows: "" if is_right(task.example, rows, gold) else WRONG)
        task = replace(task, demonstrations=self.demonstrations(task.example))
        solution = self.system.solve(task)
        trajectory = _trajectory(task, solution)
        if scored:
            shown = None if gold is None else as_text(gold[:SHOWN])
            trajectory = trajectory.model_copy(update={
                "scores": self._scores(task.example, trajectory, gold), "gold_rows": shown})
        seconds = time.monotonic() - began
        return Answer(trajectory.model_copy(update={"seconds": seconds}), task, solution.prompt, gold)

    def _read(self, example: Example, hint: tuple[str, str]) -> Task:
        """The grounded question with its BOXes; whatever a reader or builder raises is a failed reading."""
        try:
            grounded = self.ground(example)
            boxes = boxes_for(grounded.knowledge)
            schema = schema_of(boxes, self.prompt.values, self.prompt.types, example.question)
        except (MachineryError, UserError):
            raise
        except Exception as e:
            raise ReadingError(f"its data cannot be read ({described(e)})") from e
        if not schema.places:
            raise ReadingError("; ".join(["its BOXes hold no field", *boxes.notes]))
        return Task(grounded, boxes, schema, hint=hint)

    def _scores(self, example: Example, trajectory: Trajectory, gold: Cells | None) -> dict[str, float]:
        """All metrics; a metric that fails is our fault, and never the answer's."""
        try:
            scores = score(example, trajectory.rows, gold)
            return scores | self._suite(example, trajectory, gold)
        except MachineryError:
            raise
        except Exception as e:
            raise MachineryError(f"scoring failed ({described(e)})") from e

    def _suite(self, example: Example, trajectory: Trajectory, gold: Cells | None) -> dict[str, float]:
        """Spider's test-suite accuracy (TS) where the database has variants beside it, else nothing.

        The code that gave the answer must be right on every ``.sqlite`` of the folder, strictly, as in the
        official test suite.
        """
        variants = databases(database(example))[1:] if needs_gold_rows(example) else []
        if not variants:
            return {}
        right = is_right(example, trajectory.rows, gold)
        return {"ts": float(right and all(self._holds(example, trajectory.steps[-1].code, str(variant))
                                          for variant in variants))}

    def _holds(self, example: Example, code: str, path: str) -> bool:
        """Whether ``code`` gives what the gold SQL gives on the database at ``path``."""
        moved = example.model_copy(update={"knowledge": example.knowledge.model_copy(update={"path": path})})
        rows = self.runner.run(boxes_for(moved.knowledge), code).rows
        return is_right(moved, rows, gold_rows(moved))


class Notices:
    """Says on standard error what reading left out and why questions have no answer: equal words once."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, trajectory: Trajectory) -> None:
        """What is to be said of one question."""
        words = [f"note: {note}" for note in trajectory.notes]
        if trajectory.ending != "answered":
            words = [f"{trajectory.ending}: {trajectory.reason}"]
        with self._lock:
            new = [w for w in dict.fromkeys(words) if w not in self._said]
            self._said.update(new)
        for text in new:
            print(f"{trajectory.id}: {text}", file=sys.stderr)


def answer_all(examples: Sequence[Example], workers: int, title: str,
               one: Callable[[Example], None]) -> dict[str, str]:
    """Call ``one`` for each example, ``workers`` at a time; returns the unfinished: id to reason.

    After :data:`STREAK` unfinished in a row the rest isn't begun. Raises
    :class:`~pandora_train.errors.UserError` as ``one`` does: what concerns all questions ends the run.
    """
    unfinished: dict[str, str] = {}
    lock, streak = threading.Lock(), 0

    def guarded(example: Example) -> None:
        nonlocal streak
        reason = "not begun: too many before it were left unfinished" if streak >= STREAK else ""
        try:
            if not reason:
                one(example)
        except UserError:
            raise
        except MachineryError as e:
            reason = first_line(e)
        except Exception as e:  # a fault of ours: this question's alone
            reason = described(e)
        with lock:
            streak = streak + 1 if reason else 0
            if reason:
                unfinished[example.id] = reason

    in_threads(guarded, examples, workers, title)
    return unfinished


def described(error: Exception) -> str:
    """A fault of ours in one line: type, message, place."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {first_line(error)}{place}"


def _gold(example: Example) -> Cells | None:
    """Rows of the gold SQL, where that decides. Raises :class:`GoldError` when there is nothing to compare
    with."""
    if not needs_gold_rows(example) and example.gold.answers is None:
        raise GoldError("it has no gold answer")
    try:
        return gold_rows(example)
    except (MachineryError, GoldError):
        raise
    except Exception as e:
        raise GoldError(f"its gold cannot be had ({described(e)})") from e


def _trajectory(task: Task, solution: Solution) -> Trajectory:
    """The record of an answered question, not yet scored."""
    example, steps, prompt = task.example, solution.steps, solution.prompt
    last = steps[-1] if steps else None
    shown: dict[str, object] = {} if prompt is None else {
        "prompt": prompt.parts, "prompt_hash": prompt.hash, "demonstrations": prompt.demonstrations,
        "demonstrations_cut": prompt.cut}
    return _record(example, "answered", steps=steps, status=_status(last), notes=task.boxes.notes,
                   rows=last.execution.rows if last and last.execution else None,
                   usage=sum((s.usage for s in steps), Usage()), **shown)


def _without_answer(example: Example, ending: Ending, error: Exception, scored: bool,
                    began: float) -> Trajectory:
    """The record of a question that no system was asked."""
    scores = dict.fromkeys(metric_names(example), 0.0) if scored else {}
    return _record(example, ending, reason=first_line(error), scores=scores,
                   seconds=time.monotonic() - began)


def _record(example: Example, ending: Ending, **fields: object) -> Trajectory:
    return Trajectory.model_validate({
        "id": example.id, "benchmark": example.benchmark, "split": example.split, "group": example.group,
        "question": example.question, "tags": example.tags, "gold": example.gold, "ending": ending, **fields})


def _status(last: Step | None) -> Status:
    if last is None:
        return "prompt"
    if last.refusal:
        return "refused"
    if last.execution is None:
        return "reply"
    return _ended(last.execution)


def _ended(execution: Execution) -> Status:
    if execution.outcome == "result":
        return "empty" if execution.empty else "ok"
    if execution.outcome in ("error", "timeout"):
        return "error" if execution.outcome == "error" else "timeout"
    return "limit"
