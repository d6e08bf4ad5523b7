"""Fill the memory from training questions: by compiling their labels, or by asking a model (section 4.3).

Everything is kept only when its executed answer equals gold. ``attempts.jsonl`` says what became of every
question, ``memory.jsonl`` holds what was kept; a rerun skips finished questions and repeats no paid call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import PositiveInt

from pandora_train.answer import Answer, Answerer, Notices, answer_all
from pandora_train.encoder import open_encoder
from pandora_train.errors import MachineryError, UserError
from pandora_train.leakage import program_id
from pandora_train.memory import Entry, Turn
from pandora_train.records import Example, PromptSettings, Record, Step, Trajectory
from pandora_train.retrieval import Query, Retriever
from pandora_train.runs import Run, write_json
from pandora_train.sandbox import Sandbox
from pandora_train.sandbox.protocol import Runner
from pandora_train.setup import AnswerConfig, opened, who_answers
from pandora_train.sources import DataConfig, load
from pandora_train.systems.compiled import FAILED, UNSUPPORTED, CompiledLabel
from pandora_train.systems.pandora import question_of
from pandora_train.teach.verify import verify


class AnnotateConfig(AnswerConfig):
    """``pandora annotate``: training questions to memory."""

    data: list[DataConfig]
    """Training questions, by benchmark."""
    teacher: Literal["compile", "llm"] = "compile"
    """``compile`` writes labels as pandas at no cost; ``llm`` asks a model, databases first. The second
    stage's demonstrations are the first's (``retrieval.memory`` stays empty)."""
    unchecked: bool = True
    """Keep compiled labels that give gold but that changed data could not check."""
    workers: PositiveInt = 2
    """Questions in flight."""


class Attempt(Record):
    """What became of one training question."""

    id: str
    benchmark: str
    outcome: str
    """``kept``, ``unsupported``, ``wrong``, … with the cause in ``reason``."""
    reason: str = ""
    trajectory: Trajectory | None = None
    """The LLM teacher's steps."""


Judged = tuple[str, str, Entry | None]
"""Outcome, reason, and what is kept."""


def annotate(config: AnnotateConfig, run: Run) -> Path:
    """Annotate all configured questions; returns the memory file.

    Raises :class:`UserError` when nothing at all was kept, :class:`MachineryError` when questions are left
    unfinished.
    """
    examples = list({e.id: e for data in config.data for e in load(data)}.values())
    teach = _compile if config.teacher == "compile" else _ask
    unfinished = teach(config, run, examples)
    _summary(run)
    if unfinished:
        first, reason = next(iter(unfinished.items()))
        raise MachineryError(f"{len(unfinished)} questions are unfinished, for example {first}: {reason}")
    memory = run.path / "memory.jsonl"
    if not memory.exists():
        raise UserError(f"no question was kept: {run.path / 'attempts.jsonl'} has the reasons")
    return memory


def _each(config: AnnotateConfig, run: Run, title: str, examples: Sequence[Example],
          attempt: Callable[[Example], Answer], judge: Callable[[Answer], Judged]) -> dict[str, str]:
    """Attempt every question that is not done with; returns the unfinished."""
    finished, notices = {a.id for a in run.read("attempts.jsonl", Attempt)}, Notices()

    def one(example: Example) -> None:
        answer = attempt(example)
        trajectory = answer.trajectory
        notices(trajectory)
        if trajectory.ending == "answered":
            outcome, reason, entry = judge(answer)
        else:
            outcome, reason, entry = trajectory.ending, trajectory.reason, None
        if entry is not None:  # memory first: a kill in between repeats the attempt, and loses nothing
            run.append("memory.jsonl", entry)
        run.append("attempts.jsonl", Attempt(
            id=example.id, benchmark=example.benchmark, outcome=outcome, reason=reason,
            trajectory=trajectory if answer.prompt is not None else None))

    return answer_all([e for e in examples if e.id not in finished], config.workers, title, one)


# --- the free teacher -----------------------------------------------------------------------------------


def _compile(config: AnnotateConfig, run: Run, examples: Sequence[Example]) -> dict[str, str]:
    settings = config.prompt_settings()
    with Sandbox(config.sandbox) as sandbox:
        answerer = Answerer(CompiledLabel(sandbox), sandbox, config.agent.prompt, config.grounder())
        return _each(config, run, "compile", examples, answerer,
                     lambda answer: _judge_compiled(answer, sandbox, config.unchecked, settings))


def _judge_compiled(answer: Answer, runner: Runner, unchecked: bool, settings: PromptSettings) -> Judged:
    step = answer.trajectory.steps[0]
    for outcome in (UNSUPPORTED, FAILED):
        if step.problem.startswith(outcome):
            return outcome, step.problem.removeprefix(f"{outcome}: "), None
    assert answer.task is not None
    assert step.execution is not None
    check = verify(answer.task.example, answer.task.boxes, step.code, step.execution, answer.gold, runner)
    if not (check.status == "verified" or (check.status == "unchecked" and unchecked)):
        return check.status, check.cause, None
    return "kept", check.status, _entry(answer, settings, {"teacher": "compile", "checked": check.status})


# --- a model as teacher ---------------------------------------------------------------------------------


def _is_first(example: Example) -> bool:
    return example.gold.language == "sql"


def _ask(config: AnnotateConfig, run: Run, examples: Sequence[Example]) -> dict[str, str]:
    """Two stages: databases with their SQL as help, then the rest with the first stage as demonstrations.

    The second begins when all of the first were asked, so that a resumed run shows what an uninterrupted one
    would; what the first left unfinished demonstrates nothing, and holds up nothing.
    """
    if config.retrieval.memory:
        raise UserError("retrieval.memory: the first stage fills the memory of the second; leave it empty")
    databases = [e for e in examples if _is_first(e)]
    others = [e for e in examples if not _is_first(e)]
    settings = config.prompt_settings()
    with opened(config) as setup:
        run.record(who_answers(setup, config), {"identity": setup.identity.model_dump(mode="json")})
        answerer, teacher = setup.answerer, setup.llm.name

        def judge(answer: Answer) -> Judged:
            if not answer.right:
                status = answer.trajectory.status
                return "wrong" if status == "ok" else "no answer", str(status), None
            return "kept", "", _entry(answer, settings, {"teacher": teacher, "checked": "gold"})

        unfinished = _each(config, run, "databases", databases, lambda e: answerer(
            e, hint=("SQL", e.gold.program), teach=True), judge)
        first = {e.id for e in databases}
        entries = [e for e in _kept(run) if e.id in first]
        if entries:
            retriever = Retriever(entries, open_encoder(config.encoder))
            answerer.demonstrations = lambda e: retriever.demonstrations(Query.of(e), config.retrieval)
        return unfinished | _each(config, run, "tables and graphs", others,
                                  lambda e: answerer(e, teach=True), judge)


def _kept(run: Run) -> list[Entry]:
    """The memory in the order of ids: the order in which questions finished must not matter."""
    return sorted({e.id: e for e in run.read("memory.jsonl", Entry)}.values(), key=lambda e: e.id)


def _entry(answer: Answer, settings: PromptSettings, provenance: dict[str, str]) -> Entry:
    assert answer.task is not None
    example, question = answer.task.example, question_of(answer.task.example)
    return Entry(id=example.id, benchmark=example.benchmark, group=example.group, question=question.text,
                 topics=question.topics, boxes=answer.task.schema, turns=_turns(answer.trajectory.steps),
                 language=example.gold.language, program=example.gold.program, program_id=program_id(example),
                 settings=settings, provenance=provenance)


def _turns(steps: Sequence[Step]) -> tuple[Turn, ...]:
    """What a student may learn from: the whole conversation, unless a turn followed gold's verdict.

    No deployed agent is ever told that its answer is wrong; then the last, right turn stands alone.
    """
    if any(step.verdict for step in steps):
        steps = steps[-1:]
    return tuple(Turn(reply=s.reply, reasoning=s.reasoning, code=s.code, feedback=s.feedback) for s in steps)


def _summary(run: Run) -> None:
    counts: dict[str, Counter[str]] = {}
    for attempt in run.read("attempts.jsonl", Attempt):
        of_benchmark = counts.setdefault(attempt.benchmark, Counter())
        of_benchmark[attempt.outcome] += 1
        if attempt.outcome != "kept" and attempt.reason:
            of_benchmark[f"{attempt.outcome}: {attempt.reason.split(':')[0]}"] += 1
    write_json(run.path / "results.json", {b: dict(c.most_common()) for b, c in counts.items()})
