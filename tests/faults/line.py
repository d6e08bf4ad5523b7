"""A small line over copies of the sample data: questions, the replies of a good model, stages as commands."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pandora_train.answer import Answerer
from pandora_train.prompt import PromptConfig, write_reply
from pandora_train.records import Example, content_id
from pandora_train.sandbox import Sandbox
from pandora_train.sources import DataConfig, load
from pandora_train.systems.compiled import CompiledLabel

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VARYING = {"seconds", "usage"}
"""What differs between two runs over the same questions."""


@dataclass
class Line:
    """One copy of the data with a home of its own."""

    folder: Path
    spider: int = 10
    wikitq: int = 8
    replies: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> list[dict[str, Any]]:
        return [{"benchmark": "spider", "path": str(self.folder / "spider"), "split": "train", "limit": self.spider},
                {"benchmark": "wikitq", "path": str(self.folder / "wikitq"), "split": "train", "limit": self.wikitq}]

    def examples(self) -> list[Example]:
        return [e for d in self.data for e in load(DataConfig.model_validate(d))]

    def stage(self, stage: str, run: str, *overrides: str, config: dict[str, Any] | None = None, resume: bool = False,
              **broken: str) -> subprocess.Popen[str]:
        """Start ``pandora stage``; ``broken``: environment of ``broken_cli.py``."""
        file = self.folder / f"{stage}.yaml"
        file.write_text(json.dumps(config or {"data": self.data}))
        script = str(HERE / "broken_cli.py") if broken else "-m"
        program = [script] if broken else [script, "pandora_train.cli"]
        arguments = [stage, str(file), *overrides, "--run-dir", str(self.folder / run), *(["--resume"] if resume else [])]
        environment = os.environ | {"PANDORA_HOME": str(self.folder / f"home-{run}"), "PYTHONPATH": str(ROOT), **broken}
        return subprocess.Popen([sys.executable, *program, *arguments], env=environment, cwd=ROOT, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def records(self, run: str, file: str) -> dict[str, dict[str, Any]]:
        """Records by id, without what varies; no id twice."""
        lines = [json.loads(line) for line in (self.folder / run / file).read_text().splitlines()]
        by_id = {record["id"]: _plain(record) for record in lines}
        return by_id

    def results(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / run / "results.json").read_text())
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if k not in VARYING}
    return [_plain(v) for v in value] if isinstance(value, list) else value


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """(exit code, output) once it has ended by itself."""
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


def copy_line(folder: Path, **sizes: int) -> Line:
    """A line with the compiler's own replies, every third one wrong at first sight (a column that isn't there)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("spider", "wikitq"):
        shutil.copytree(ROOT / "data" / "sample" / name, folder / name)
    line = Line(folder, **sizes)
    with Sandbox() as sandbox:
        answerer = Answerer(CompiledLabel(sandbox), sandbox, PromptConfig(), lambda e: e)  # type: ignore[arg-type]
        for example in line.examples():
            step = answerer(example).trajectory.steps[0]
            good = write_reply(step.reasoning or "1. Guess.", step.code or "result = [['no']]", "fenced")
            bad = "1. Try.\n```python\nresult = pd.DataFrame({'a': [1]})['b']\n```"
            line.replies[example.question] = bad if int(content_id(example.question), 16) % 3 == 2 else good
    return line


def unwordy(text: str) -> str:
    """``text`` without colours and line ends, for looking words up."""
    return re.sub(r"\s+", " ", re.sub(r"\x1b\[[\d;]*m", "", text))
