"""What answers questions, opened together: model, sandbox, memory, one encoder; and proof of who answers.

``evaluate``, ``annotate`` and ``ask`` are given the same keys and open the same things here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pandora_train.answer import Answerer
from pandora_train.config import Config
from pandora_train.encoder import EMBEDDED, open_encoder
from pandora_train.errors import UserError
from pandora_train.ground import Grounder, RelationsConfig
from pandora_train.llm import LLM, Identity, LLMConfig, open_llm
from pandora_train.memory import Entry
from pandora_train.prompt import Demonstration
from pandora_train.records import Example, PromptSettings, content_id
from pandora_train.retrieval import Query, RetrievalConfig, Retriever, open_retriever
from pandora_train.sandbox import Sandbox, SandboxConfig
from pandora_train.systems.pandora import AgentConfig, Pandora

BOUND = ("values", "types", "relations", "encoder")
"""Prompt settings that a memory was made with; its schemas can't be shown otherwise."""
KEYS = {"relations": "relations.keep", "encoder": "encoder"}
"""Where a setting stands in a stage's config, unless under ``agent.prompt``."""


class AnswerConfig(Config):
    """What answers questions, and how."""

    llm: LLMConfig | None = None
    """The agent's backbone."""
    agent: AgentConfig = AgentConfig()
    """Prompt and execution guide."""
    retrieval: RetrievalConfig = RetrievalConfig()
    """Memory and K."""
    relations: RelationsConfig = RelationsConfig()
    """R* of graph questions."""
    encoder: str = EMBEDDED
    """Question encoder of memory and R*; with a hub, the paper's ``BAAI/bge-large-en-v1.5``."""
    sandbox: SandboxConfig = SandboxConfig()
    """Limits of generated code."""
    other_settings: bool = False
    """Ask an adapter, or show a memory, by other prompt settings than it was made with."""

    def prompt_settings(self) -> PromptSettings:
        """The settings that decide how a question is laid out."""
        return self.agent.prompt.settings(self.relations.keep, self.relations.ranked_by(self.encoder))

    def grounder(self) -> Grounder:
        """Grounds graph questions by this config."""
        return Grounder(self.relations, open_encoder(self.encoder))


class Setup:
    """What is open: the agent as an :class:`Answerer`, and the facts of who answers."""

    def __init__(self, config: AnswerConfig, llm: LLM, sandbox: Sandbox, retriever: Retriever | None) -> None:
        self.llm, self.retriever = llm, retriever
        self.identity: Identity = llm.identity()

        def demonstrations(example: Example) -> list[Demonstration]:
            return retriever.demonstrations(Query.of(example), config.retrieval) if retriever else []

        self.answerer = Answerer(Pandora(llm, sandbox, config.agent), sandbox, config.agent.prompt,
                                 config.grounder(), demonstrations)


@contextmanager
def opened(config: AnswerConfig, leak: Callable[[Entry], str] = lambda entry: "") -> Iterator[Setup]:
    """Open everything ``config`` names; closed again at the end.

    ``leak`` says what a memory entry shares with the questions to be asked; such entries are left out. Raises
    :class:`UserError` where something is missing, or adapter or memory were made with other prompt settings.
    """
    if config.llm is None:
        raise UserError("no model: for example llm.kind=openai llm.model=gpt-4o-mini")
    retriever = open_retriever(config.retrieval, open_encoder(config.encoder), leak)
    settings = config.prompt_settings()
    if retriever is not None and not config.other_settings:
        refuse_other("the memory was annotated", retriever.entries[0].settings, settings, BOUND)
    llm = open_llm(config.llm)
    try:
        with Sandbox(config.sandbox) as sandbox:
            setup = Setup(config, llm, sandbox, retriever)
            if setup.identity.prompt is not None and not config.other_settings:
                refuse_other(f"{config.llm.model} was trained", setup.identity.prompt, settings)
            yield setup
    finally:
        llm.close()


def refuse_other(what: str, made: PromptSettings, asked: PromptSettings,
                 names: tuple[str, ...] = tuple(PromptSettings.model_fields)) -> None:
    """Raise :class:`UserError` naming each prompt setting of ``names`` in which the two differ."""
    other = [name for name in made.differences(asked) if name in names]
    if other:
        said = ", ".join(f"{KEYS.get(n, f'agent.prompt.{n}')}={getattr(made, n)} (here {getattr(asked, n)})"
                         for n in other)
        raise UserError(f"{what} with other prompt settings: {said}; set them so, or other_settings=true")


def who_answers(setup: Setup, config: AnswerConfig) -> dict[str, Any]:
    """Facts that a run keeps and that must be the same when it is resumed."""
    entries = setup.retriever.entries if setup.retriever else []
    return {
        "answers": setup.identity.key,
        "memory": content_id([(e.id, e.turns[-1].code) for e in entries]) if entries else "",
        "encoder": config.encoder,
        "prompt": config.prompt_settings().model_dump(),
    }
