"""Records that cross rooms and runs: examples, executions, steps, trajectories.

Frozen, strict pydantic models; each serialises to one JSON line. ``version`` marks the layout of what
is written to disk. Ids are stable over machines: official ids where a benchmark has them, else a hash of
the content.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

VERSION = 2
"""Layout of what runs and memories write; a folder of another version is refused by name."""

Benchmark = Literal["spider", "wikitq", "grailqa", "webqsp", "pathquestion", "files"]
Row = tuple[str | None, ...]
"""One answer row: text cells as the code returned them, ``None`` for a missing value (NULL, NaN, NaT)."""


class Record(BaseModel):
    """Base of all records: frozen and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def content_id(*parts: Any, size: int = 12) -> str:
    """Stable hex id of JSON-serialisable content (SHA-256, first ``size`` digits)."""
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:size]


# --- questions and what they are asked over -----------------------------------------------------------


class TableKnowledge(Record):
    """One table in a CSV or TSV file."""

    kind: Literal["table"] = "table"
    path: str
    name: str = ""
    """Original table name; unnamed tables become the BOX ``Table``."""
    dialect: Literal["csv", "wikitq"] = "csv"
    """``wikitq``: the official files' escapes (backslashes in .csv; ``\\n``, ``\\p``, ``\\\\`` in .tsv)."""


class DatabaseKnowledge(Record):
    """One SQLite database."""

    kind: Literal["database"] = "database"
    path: str
    db_id: str
    foreign_keys: tuple[tuple[str, str, str, str], ...] | None = None
    """(table, column, table, column) in the source's spelling; ``None``: those that the file declares."""


class GraphKnowledge(Record):
    """The neighbourhood of some nodes in a graph.

    ``store`` is a triple file (.tsv, .txt, .nt, .ttl), a folder in the fragment's layout, or the URL of a
    SPARQL endpoint.
    """

    kind: Literal["graph"] = "graph"
    store: str
    topics: tuple[str, ...] = ()
    hops: int = 2
    relations: tuple[str, ...] | None = None
    """R*, the relations kept (paper, section 3.3); ``None`` keeps all."""
    layers: str = "all"
    """Fragment only: ``explored`` leaves out triples entailed by gold forms."""


Knowledge = Annotated[TableKnowledge | DatabaseKnowledge | GraphKnowledge, Field(discriminator="kind")]


class Gold(Record):
    """What counts as right. Which fields are set depends on the benchmark (see ``metrics/``)."""

    language: Literal["", "sql", "sexpr", "sparql", "path", "steps", "squall"] = ""
    program: str = ""
    """The label in ``language``: SQL, an s-expression, SPARQL, a path, a step program or SQUALL's tokens."""
    answers: tuple[str, ...] | None = None
    """The answer set as compared (WikiTQ items, entity ids, or names on a fragment); ``None`` for SQL."""
    canon: tuple[str, ...] = ()
    """WikiTQ's ``targetCanon`` beside each of ``answers``, where the tagged file gives it."""
    answer_ids: tuple[str, ...] = ()
    """Entity ids when ``answers`` holds names."""
    parses: tuple[tuple[str, ...], ...] = ()
    """WebQSP: the answers of each parse of a question with a Good and Complete one (official script)."""


class Example(Record):
    """One question over one piece of knowledge."""

    id: str
    benchmark: Benchmark
    split: str
    question: str
    knowledge: Knowledge
    gold: Gold = Gold()
    group: str
    """Cluster for standard errors and leakage checks: database, table or topic entity."""
    tags: dict[str, str] = {}
    """What reports break scores down by: level, hardness, function."""


# --- what happened ------------------------------------------------------------------------------------


class Usage(Record):
    """Cost of one or more model calls."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    seconds: float = 0.0
    usd: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        names = type(self).model_fields
        return Usage(**{n: getattr(self, n) + getattr(other, n) for n in names})


class CodeError(Record):
    """An exception in generated code, made for repair."""

    type: str
    message: str
    line: int | None = None
    """Line of the generated code, from 1."""
    hint: str = ""


class Execution(Record):
    """What one run of generated code over a BOX set gave. Data only, never pickles."""

    outcome: Literal["result", "error", "timeout", "output_limit", "signal", "exit", "bad_payload"]
    rows: tuple[Row, ...] | None = None
    """Set exactly when ``outcome`` is ``result``."""
    types: tuple[str, ...] = ()
    """Per column: ``int``, ``float``, ``bool``, ``str``, ``date``, ``null`` or ``mixed``."""
    shape: Literal["", "rows", "list", "scalar", "series", "frame", "other"] = ""
    """What ``result`` was before normalisation; ``rows`` is the official list of lists."""
    error: CodeError | None = None
    code: int | None = None
    """Signal number or exit code for those outcomes."""
    hint: str = ""
    """Help beside an empty result: filter values and the nearest values that exist."""
    seconds: float = 0.0

    @property
    def empty(self) -> bool:
        """No rows, only empty rows, or only missing cells (paper, section 4.2, condition b)."""
        return self.rows is not None and all(cell is None for row in self.rows for cell in row)


class Step(Record):
    """One reply of the model and what became of it."""

    reply: str
    reasoning: str = ""
    code: str = ""
    problem: str = ""
    """Why the reply could not be run (truncated, malformed), fed back like an execution error."""
    refusal: str = ""
    """Why the model or its provider refused to reply; ends the question."""
    execution: Execution | None = None
    feedback: str = ""
    """What the model was told after this step; empty on the last one."""
    verdict: bool = False
    """Whether the feedback is a teacher's comparison with gold, which no deployed agent gives."""
    usage: Usage = Usage()


Status = Literal["ok", "empty", "error", "timeout", "limit", "reply", "prompt", "refused"]
"""How the last step ended: an answer, an empty one, failed code, a time-out, another limit (output,
signal, exit), a reply that could not be run, a prompt that does not fit, or a refusal (a policy or content
filter)."""

Ending = Literal["answered", "failed reading", "unusable gold"]
"""What became of a question that is done with. *answered*: scored, whatever the answer is worth. *failed
reading*: our reader or builder can't make its BOXes, or there are none: it counts in n with score 0.
*unusable gold*: its label gives no answer to compare with: outside n. (*unfinished*, by the machinery or a
server, leaves no record: the question is taken up again.)"""


class PromptPart(Record):
    """A piece of a prompt; equal pieces (instruction, a schema) are stored once, by ``key``."""

    kind: Literal["instruction", "demonstration", "boxes", "question"]
    role: Literal["system", "user"]
    key: str


class PromptSettings(Record):
    """What decides how a question is laid out for a model: one record for rows, adapter and agent.

    Written by ``annotate`` and ``distill``, stored beside the adapter, compared by ``evaluate``, ``ask`` and
    ``serve``: a student meets the words that it learnt.
    """

    format: Literal["json", "fenced"] = "fenced"
    values: Literal["none", "samples", "matched"] = "none"
    types: bool = False
    system_role: bool = True
    """Whether instruction and demonstrations stand in a system message."""
    schema_tokens: int = 4000
    """Most tokens of the BOX schemas; fields that share least with the question are left out beyond it."""
    relations: int = 0
    """R*: relations kept of a graph question's neighbourhood; 0 keeps all."""
    encoder: str = ""
    """What ranked them; empty without R*."""
    templates: str = ""
    """Content id of the prompt templates."""

    def differences(self, other: PromptSettings) -> list[str]:
        """Names of the settings in which the two differ."""
        return [name for name in type(self).model_fields if getattr(self, name) != getattr(other, name)]


class PartText(Record):
    """The text of a prompt part; each is stored once a run."""

    key: str
    text: str


class Trajectory(Record):
    """One question followed to its end: an answer, or why there could be none."""

    version: int = VERSION
    id: str
    benchmark: Benchmark
    split: str
    group: str
    question: str
    tags: dict[str, str] = {}
    gold: Gold = Gold()
    prompt: tuple[PromptPart, ...] = ()
    prompt_hash: str = ""
    demonstrations: tuple[str, ...] = ()
    """Example ids of the demonstrations actually in the prompt."""
    demonstrations_cut: int = 0
    """Demonstrations that the token budget left out."""
    steps: tuple[Step, ...] = ()
    rows: tuple[Row, ...] | None = None
    ending: Ending = "answered"
    reason: str = ""
    """Why there is no answer, for the other endings."""
    status: Status | None = None
    """Set exactly when the question was answered."""
    notes: tuple[str, ...] = ()
    """What reading shortened, renamed or left out of the BOXes."""
    usage: Usage = Usage()
    seconds: float = 0.0
    scores: dict[str, float] = {}
    """Metric name to this sample's value; filled by ``evaluate``."""
    gold_rows: tuple[Row, ...] | None = None
    """Rows of the gold SQL, for reading beside the answer."""
