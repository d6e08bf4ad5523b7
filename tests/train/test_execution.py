"""Held-out execution accuracy: a student that has learnt its one answer by heart gets it right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pandora_train.config import load
from pandora_train.errors import UserError
from pandora_train.prompt import PromptConfig, Question, lay_out
from pandora_train.rows import SftRow
from pandora_train.sources import knowledge_for
from pandora_train.train import TrainConfig, train
from pandora_train.train.base import load_adapted, trainable
from pandora_train.train.encode import sample_of
from pandora_train.train.execution import questions, right_answers
from pandora_train.train.loss import AnswerLoss, use_tree_attention
from pandora_train.train.tree import build_tree

QUESTION, REPLY = "How many towns?", "```python\nresult = [[len(towns)]]\n```"


@pytest.fixture
def config(tmp_path: Path, model_folder: Path) -> TrainConfig:
    (tmp_path / "towns.csv").write_text("name,size\nA,3\nB,5\n")
    (tmp_path / "questions.jsonl").write_text(json.dumps(
        {"question": QUESTION, "knowledge": "towns.csv", "answers": ["2"]}) + "\n")
    return load(TrainConfig, None, [
        f"model={model_folder}", "data=x", "precision=fp32", "lora.rank=16",
        f"execution.data=[{{benchmark: files, path: {tmp_path / 'questions.jsonl'}}}]", "execution.max_tokens=60"])


def test_accuracy_follows_what_the_student_knows(config: TrainConfig, tmp_path: Path, tokenizer: Any) -> None:
    from pandora_train.box import boxes_for, schema_of

    assert config.execution is not None
    model = load_adapted(config.model, config, torch.device("cpu"))
    asked = questions(config.execution)
    assert right_answers(model, tokenizer, config.execution, PromptConfig().settings(), asked) == 0
    boxes = boxes_for(knowledge_for(str(tmp_path / "towns.csv")))
    prompt = lay_out(PromptConfig(), schema_of(boxes), Question(QUESTION), [], lambda _: 0)
    row = SftRow(id="1", benchmark="files", group="g", prompt=tuple(prompt.messages()),
                 completion=({"role": "assistant", "content": REPLY},))
    tree = build_tree([sample_of(row, tokenizer)])
    optimizer = torch.optim.AdamW(trainable(model), lr=2e-2)
    use_tree_attention(model.get_base_model(), torch.device("cpu"))
    for _ in range(120):
        loss = AnswerLoss(model)(tree) / len(tree.targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if float(loss.detach()) < 0.02:
            break
    assert right_answers(model, tokenizer, config.execution, PromptConfig().settings(), asked) == 1


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_run_measures_it_beside_the_held_out_loss(config: TrainConfig, precision: str, tmp_path: Path,
                                                    write_rows: Callable[..., Path]) -> None:
    settings = config.model_copy(update={"data": str(write_rows(8)), "held_out": 0.4, "epochs": 2.0,
                                         "precision": precision, "batch_size": 2})
    train(settings, tmp_path / "run")
    assert json.loads((tmp_path / "run" / "results.json").read_text())["execution_accuracy"] == [0.0, 0.0]
    without = settings.model_copy(update={"held_out": 0.0})
    with pytest.raises(UserError, match="held_out"):
        train(without, tmp_path / "other")
    assert not (tmp_path / "other").exists()
