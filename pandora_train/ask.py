"""Ask your own data one question: files become BOXes, the agent answers, the terminal shows how."""

from __future__ import annotations

from pandora_train.agent import Agent, AgentConfig
from pandora_train.box import boxes_for
from pandora_train.config import Config
from pandora_train.ground import Grounder
from pandora_train.llm import LLMConfig, open_llm
from pandora_train.memory import RetrievalConfig, open_memory
from pandora_train.records import Example, Trajectory, content_id
from pandora_train.sandbox import Sandbox, SandboxConfig
from pandora_train.sources.files import knowledge_for


class AskConfig(Config):
    """``pandora ask``: one question over the user's own files."""

    llm: LLMConfig
    """The agent's backbone."""
    agent: AgentConfig = AgentConfig()
    """Prompt and execution guide."""
    retrieval: RetrievalConfig = RetrievalConfig(k=3)
    """Memory, if there is one."""
    sandbox: SandboxConfig = SandboxConfig()
    """Limits of generated code."""


def answer(config: AskConfig, question: str, path: str, topics: tuple[str, ...]) -> Trajectory:
    """One trajectory for ``question`` over a table, database or graph at ``path``."""
    knowledge = knowledge_for(path, topics)
    example = Example(id=f"files:{content_id(question, path)}", benchmark="files", split="ask",
                      question=question, knowledge=knowledge, group="ask")
    example = Grounder(config.retrieval)(example)
    memory = open_memory(config.retrieval)
    near = memory.demonstrations(example, config.retrieval) if memory else []
    llm = open_llm(config.llm)
    try:
        with Sandbox(config.sandbox) as runner:
            return Agent(llm, runner, config.agent).solve(example, boxes_for(example.knowledge), near)[0]
    finally:
        llm.close()


def ask(config: AskConfig, question: str, path: str, topics: tuple[str, ...] = ()) -> None:
    """Print reasoning, code and answer of one question."""
    from rich.console import Console
    from rich.syntax import Syntax
    from rich.table import Table
    from rich.text import Text

    trajectory = answer(config, question, path, topics)
    console = Console()
    for step in trajectory.steps:
        console.print(step.reasoning or step.reply, markup=False)
        if step.code:
            console.print(Syntax(step.code, "python", word_wrap=True))
        if step.feedback:
            console.print(step.feedback, style="yellow", markup=False)
    if trajectory.rows is None:
        console.print(f"[red]no answer ({trajectory.status})[/red]")
        return
    table = Table(show_header=False)
    for row in trajectory.rows:  # cells are data, not markup
        table.add_row(*(Text("" if cell is None else cell) for cell in row))
    console.print(table)
