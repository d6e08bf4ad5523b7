"""Against trl: the same tokens and labels, except newlines of the template that trl labels; the rows load as
they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pandora_train.rows import read_rows
from pandora_train.train.encode import encode_rows
from pandora_train.train.export import export_llama_factory
from pandora_train.train.loss import AnswerLoss, use_tree_attention
from pandora_train.train.tree import build_tree

trl = pytest.importorskip("trl")
Rows = tuple[Path, list[dict[str, Any]], Any, Any]


@pytest.fixture(scope="module")
def trl_rows(tmp_path_factory: pytest.TempPathFactory, model_folder: Path, write_rows: Callable[..., Path]
             ) -> Rows:
    """(file, trl's tokenised rows, its tokenizer, its trainer) for the rows file, loaded by ``load_dataset`` unchanged."""
    from datasets import load_dataset
    from transformers import AutoTokenizer

    file = write_rows(6)
    out = tmp_path_factory.mktemp("trl")
    data = load_dataset("parquet", data_files=str(file), split="train", cache_dir=str(out / "cache"))
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    tokenizer.chat_template = trl.chat_template_utils.qwen2_5_chat_template
    arguments = trl.SFTConfig(output_dir=str(out), max_length=None, report_to=[],
                              use_cpu=True, bf16=False)
    trainer = trl.SFTTrainer(model=str(model_folder), args=arguments, train_dataset=data,
                             processing_class=tokenizer)
    return file, list(trainer.train_dataset), tokenizer, trainer


def test_labels_equal_trls_except_template_newlines(trl_rows: Rows, tokenizer: Any) -> None:
    file, theirs, their_tokenizer, _ = trl_rows
    samples, counts = encode_rows(read_rows(file), their_tokenizer, 4096)
    assert not counts
    newline = tokenizer.encode("\n")[0]
    for sample, other in zip(samples, theirs, strict=True):
        ids, ours = list(other["input_ids"]), len(sample.tokens)
        assert list(sample.tokens) == ids[:ours]
        assert ids[ours:] == [newline]  # after the end of the turn nothing is left to learn
        theirs_marked = [label != -100 for label in other["labels"][:ours]]
        extra = [i for i, (a, b) in enumerate(zip(sample.labelled, theirs_marked, strict=True)) if a != b]
        for i in extra:
            assert theirs_marked[i]
            assert sample.tokens[i] == newline
            assert tokenizer.decode(sample.tokens[:i]).endswith(("<|im_start|>assistant", "<|im_end|>"))


def test_loss_equals_trls_on_the_common_labels(trl_rows: Rows) -> None:
    file, theirs, tokenizer, trainer = trl_rows
    samples, _ = encode_rows(read_rows(file), tokenizer, 4096)
    batch = trainer.data_collator([dict(row) for row in theirs])
    for n, sample in enumerate(samples):
        for i in range(len(batch["labels"][n])):
            if i >= len(sample.labelled) or not sample.labelled[i]:
                batch["labels"][n][i] = -100
    model = trainer.model.eval()
    with torch.no_grad():
        reference = float(trainer.compute_loss(model, batch))
        use_tree_attention(model, torch.device("cpu"))
        ours = float(AnswerLoss(model)(build_tree(samples))) / sum(s.targets for s in samples)
    assert ours == pytest.approx(reference, rel=1e-5)


def test_llama_factory_export(write_rows: Callable[..., Path], tmp_path: Path) -> None:
    """Its documented fields: file, formatting, column and tags; the messages as they are."""
    file = write_rows(3)
    write_rows(2).rename(file.parent / "heldout.parquet")
    out = export_llama_factory(file.parent, tmp_path / "lf")
    sets = json.loads((out / "dataset_info.json").read_text())
    assert list(sets) == ["pandora", "pandora_heldout"]
    assert list(json.loads((export_llama_factory(file, out, "more") / "dataset_info.json").read_text())) == [*sets, "more"]
    info = sets["pandora"]
    assert info["formatting"] == "sharegpt"
    assert info["tags"]["assistant_tag"] == "assistant"
    lines = [json.loads(line) for line in (out / info["file_name"]).read_text().splitlines()]
    for line, row in zip(lines, read_rows(file), strict=True):
        turns = [(m[info["tags"]["role_tag"]], m[info["tags"]["content_tag"]])
                 for m in line[info["columns"]["messages"]]]
        assert turns == [(m["role"], m["content"]) for m in (*row.prompt, *row.completion)]
