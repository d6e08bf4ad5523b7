"""Fill the memory from training questions: by compiling their labels, or by asking a model (section 4.3).

Everything is kept only when its executed answer equals gold. ``attempts.jsonl`` says what became of every
question, ``memory.jsonl`` holds what was kept; a rerun skips finished questions and repeats no paid call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import PositiveInt

from pandora_train.agent import Agent, AgentConfig, shown_topics
from pandora_train.box import boxes_for, schema_text
from pandora_train.compile import Unsupported, compile_label
from pandora_train.config import Config
from pandora_train.errors import MachineryError, UserError
from pandora_train.ground import Grounder
from pandora_train.leakage import program_id
from pandora_train.llm import LLMConfig, open_llm
from pandora_train.memory import Entry, Memory, RetrievalConfig, SentenceEncoder, Turn
from pandora_train.metrics import is_right
from pandora_train.prompt import neutralise
from pandora_train.records import Example, Record, Row, Trajectory
from pandora_train.runs import Run, in_threads, write_json
from pandora_train.sandbox import Sandbox, SandboxConfig
from pandora_train.sandbox.protocol import Runner
from pandora_train.sources import DataConfig, load
from pandora_train.teach.verify import verify


class AnnotateConfig(Config):
    """``pandora annotate``: training questions to memory."""

    data: list[DataConfig]
    """Training questions, by benchmark."""
    teacher: Literal["compile", "llm"] = "compile"
    """``compile`` writes labels as pandas at no cost; ``llm`` asks a model, databases first."""
    llm: LLMConfig | None = None
    """The model of ``teacher: llm``."""
    agent: AgentConfig = AgentConfig()
    """How the model is asked."""
    retrieval: RetrievalConfig = RetrievalConfig()
    """R* of graphs, and the second stage's demonstrations (``memory`` stays empty, the first fills it)."""
    unchecked: bool = True
    """Keep compiled labels that give gold but that changed data could not check."""
    sandbox: SandboxConfig = SandboxConfig()
    """Limits of generated code."""
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


def annotate(config: AnnotateConfig, run: Run) -> Path:
    """Annotate all configured questions; returns the memory file.

    Raises :class:`UserError` when nothing at all was kept, or failures of the machinery left questions
    unfinished.
    """
    done = {a.id for a in run.read("attempts.jsonl", Attempt)}
    examples = [e for data in config.data for e in load(data)]
    left = list({e.id: e for e in examples if e.id not in done}.values())
    with Sandbox(config.sandbox) as runner:
        if config.teacher == "compile":
            _each(config, run, "compile", left, lambda e: _compile(e, runner, config))
        else:
            _ask(config, run, left, {e.id for e in examples if _is_first(e)}, runner)
    _summary(run)
    memory = run.path / "memory.jsonl"
    if not memory.exists():
        raise UserError(f"no question was kept: {run.path / 'attempts.jsonl'} has the reasons")
    return memory


def _each(config: AnnotateConfig, run: Run, title: str, left: list[Example],
          attempt: Callable[[Example], tuple[Attempt, Entry | None]]) -> None:
    ground = Grounder(config.retrieval)
    failures: list[str] = []

    def one(example: Example) -> None:
        try:
            record, entry = attempt(ground(example))
        except MachineryError as e:
            failures.append(f"{example.id}: {e}")
            return
        if entry is not None:  # memory first: a kill in between repeats the attempt, and loses nothing
            run.append("memory.jsonl", entry)
        run.append("attempts.jsonl", record)

    in_threads(one, left, config.workers, title)
    if failures:
        raise UserError(f"{len(failures)} questions unfinished by failures of the machinery, first: "
                        f"{failures[0]}; run again with --resume")


def _compile(example: Example, runner: Runner, config: AnnotateConfig) -> tuple[Attempt, Entry | None]:
    def record(outcome: str, reason: str = "") -> Attempt:
        return Attempt(id=example.id, benchmark=example.benchmark, outcome=outcome, reason=reason)

    try:
        boxes = boxes_for(example.knowledge)
        compiled = compile_label(example, boxes)
        verdict = verify(example, boxes, compiled, runner)
    except Unsupported as e:
        return record("unsupported", str(e)), None
    except UserError as e:  # its table cannot be read, or its gold SQL fails
        return record("unusable", str(e)), None
    if not (verdict.status == "verified" or (verdict.status == "unchecked" and config.unchecked)):
        return record(verdict.status, verdict.cause), None
    entry = _entry(example, [Turn(reasoning=compiled.reasoning, code=compiled.code)],
                   neutralise(schema_text(boxes)), {"teacher": "compile", "checked": verdict.status})
    return record("kept", verdict.status), entry


def _is_first(example: Example) -> bool:
    return example.gold.language == "sql"


def _ask(config: AnnotateConfig, run: Run, left: list[Example], first: set[str], runner: Runner) -> None:
    """Two stages: databases with their SQL as help, then the rest with the first stage as demonstrations.

    ``first``: ids of the first stage, so that a resumed second stage sees the demonstrations it began with.
    """
    if config.llm is None:
        raise UserError("teacher: llm needs a model, for example llm.kind=openai llm.model=gpt-4o-mini")
    llm = open_llm(config.llm)
    agent = Agent(llm, runner, config.agent)
    try:
        databases = [e for e in left if _is_first(e)]
        _each(config, run, "databases", databases, lambda e: _taught(e, agent, None, config))
        entries = list({e.id: e for e in run.read("memory.jsonl", Entry) if e.id in first}.values())
        encoder = SentenceEncoder(config.retrieval.encoder)
        memory = Memory(entries, encoder, run.path) if entries else None
        rest = [e for e in left if not _is_first(e)]
        _each(config, run, "tables and graphs", rest, lambda e: _taught(e, agent, memory, config))
    finally:
        llm.close()


def _taught(example: Example, agent: Agent, memory: Memory | None,
            config: AnnotateConfig) -> tuple[Attempt, Entry | None]:
    boxes = boxes_for(example.knowledge)
    near = memory.demonstrations(example, config.retrieval) if memory else []
    label = ("SQL", example.gold.program) if _is_first(example) else ("", "")

    def check(rows: tuple[Row, ...]) -> str:
        return "" if is_right(example, rows) else "it is not the expected answer"

    trajectory, _ = agent.solve(example, boxes, near, label, check)
    right = trajectory.status == "ok" and trajectory.rows is not None and is_right(example, trajectory.rows)
    record = Attempt(id=example.id, benchmark=example.benchmark, outcome="kept" if right else "wrong",
                     reason="" if right else trajectory.status, trajectory=trajectory)
    if not right:
        return record, None
    written = [s for s in trajectory.steps if s.code]
    turns = [Turn(reasoning=s.reasoning, code=s.code, feedback=s.feedback) for s in written]
    boxes_text = neutralise(schema_text(boxes, values=config.agent.prompt.values, question=example.question))
    return record, _entry(example, turns, boxes_text, {"teacher": agent.llm.name, "checked": "gold"})


def _entry(example: Example, turns: list[Turn], boxes: str, provenance: dict[str, Any]) -> Entry:
    return Entry(id=example.id, benchmark=example.benchmark, group=example.group, question=example.question,
                 topics=shown_topics(example), boxes=boxes, turns=tuple(turns),
                 program_id=program_id(example), provenance=provenance)


def _summary(run: Run) -> None:
    attempts = run.read("attempts.jsonl", Attempt)
    counts: dict[str, Counter[str]] = {}
    for a in attempts:
        counts.setdefault(a.benchmark, Counter())[a.outcome] += 1
        if a.outcome != "kept" and a.reason:
            counts[a.benchmark][f"{a.outcome}: {a.reason.split(':')[0]}"] += 1
    write_json(run.path / "results.json", {b: dict(c.most_common()) for b, c in counts.items()})
