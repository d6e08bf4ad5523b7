"""Annotate, distill and evaluate on the sample data, with the compiler and a scripted model."""

import json
from collections import Counter

import pytest

from pandora_train.config import load
from pandora_train.distill import DistillConfig, distill
from pandora_train.errors import UserError
from pandora_train.evaluate.run import EvaluateConfig, evaluate
from pandora_train.llm import LLMConfig
from pandora_train.memory import read_entries
from pandora_train.records import Trajectory
from pandora_train.runs import Run
from pandora_train.sources import DataConfig
from pandora_train.sources import load as load_data
from pandora_train.teach.annotate import AnnotateConfig, Attempt, annotate

SPIDER = "data/sample/spider"


@pytest.fixture(scope="module", autouse=True)
def at_the_root(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(request.config.rootpath)
        yield


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    config = load(AnnotateConfig, "configs/quickstart/annotate.yaml")
    run = Run("annotate", "t", config, tmp_path_factory.mktemp("annotate"))
    annotate(config, run)
    return run.path


def test_most_sample_labels_compile_and_give_gold(memory):
    attempts = [Attempt.model_validate_json(x) for x in (memory / "attempts.jsonl").read_text().splitlines()]
    kept = Counter(a.benchmark for a in attempts if a.outcome == "kept")
    asked = Counter(a.benchmark for a in attempts)
    for benchmark in ("spider", "wikitq", "grailqa", "webqsp"):
        assert kept[benchmark] >= 0.8 * asked[benchmark], (benchmark, kept, asked)


def test_annotating_again_repeats_nothing(memory):
    before = {p.name: p.read_bytes() for p in memory.glob("*.jsonl")}
    config = load(AnnotateConfig, "configs/quickstart/annotate.yaml")
    annotate(config, Run("annotate", "t", config, memory, resume=True))
    assert {p.name: p.read_bytes() for p in memory.glob("*.jsonl")} == before


def distilled(memory, tmp_path, *overrides):
    base = [f"memory=[{memory}]", "model=pypi:smollm2-135m-instruct"]
    config = load(DistillConfig, "configs/quickstart/distill.yaml", [*base, *overrides])
    run = Run("distill", "t", config, tmp_path / "rows")
    distill(config, run)
    return run.path


@pytest.mark.model
def test_rows_are_what_the_agent_would_send(memory, tmp_path):
    from datasets import load_dataset

    folder = distilled(memory, tmp_path)
    rows = load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    assert set(rows) == {"train", "validation"}
    assert {r["benchmark"] for r in rows["train"]} == {"spider", "wikitq", "grailqa", "webqsp"}
    entries = {e.id: e for e in read_entries(memory)}
    for row in rows["train"]:
        roles = [m["role"] for m in row["messages"]]
        assert roles == ["system", "user", "assistant"]
        assert row["messages"][1]["content"].startswith(entries[row["id"]].boxes)
        assert entries[row["id"]].turns[-1].code in row["messages"][2]["content"]
    held = {(r["benchmark"], r["group"]) for r in rows["validation"]}
    assert not held & {(r["benchmark"], r["group"]) for r in rows["train"]}


@pytest.mark.model
def test_what_is_held_out_demonstrates_nothing(memory, tmp_path):
    from datasets import load_dataset

    folder = distilled(memory, tmp_path, "retrieval.k=2", "held_out=0.4", "max_tokens=100000")
    rows = load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    entries = {e.id: e for e in read_entries(memory)}
    held = {entries[r["id"]].turns[-1].code for r in rows["validation"]}
    shown = "".join(r["messages"][0]["content"] for split in rows.values() for r in split)
    assert held
    assert not [code for code in held if code in shown]
    with pytest.raises(UserError, match="memory="):
        distilled(memory, tmp_path / "b", f"retrieval.memory={memory}")


@pytest.mark.model
@pytest.mark.parametrize("how", ["id", "group"])
def test_a_leak_fails_the_run_and_can_be_dropped(memory, tmp_path, how):
    against = "against=[{benchmark: spider, path: data/sample/spider, split: train, limit: 1}]"
    shared = [] if how == "group" else ["shared_groups=[spider, grailqa, webqsp, wikitq]"]
    with pytest.raises(UserError, match="leaks"):
        distilled(memory, tmp_path, against, *shared)
    folder = distilled(memory, tmp_path / "dropped", against, "leaks=drop", *shared)
    counts = json.loads((folder / "results.json").read_text())["counts"]
    assert counts.get("dropped, same id as evaluation") == 1
    assert ("dropped, same group as evaluation" in counts) == (how == "group")


def evaluation(tmp_path, replies, **fields):
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(r) + "\n" for r in replies))
    return EvaluateConfig(data=[DataConfig(benchmark="spider", path=SPIDER, split="dev", limit=4)],
                          llm=LLMConfig(kind="scripted", script=str(script)), workers=2, **fields)


def test_evaluation_scores_and_resumes_without_repeating(tmp_path):
    examples = load_data(DataConfig(benchmark="spider", path=SPIDER, split="dev", limit=4))
    bad = "1. Try.\n```python\nresult = [['certainly not']]\n```"
    replies = [{"text": bad, "contains": e.question} for e in examples]
    config = evaluation(tmp_path, replies)
    run = Run("evaluate", "t", config, tmp_path / "run")
    results = evaluate(config, run)
    samples = run.read("samples.jsonl", Trajectory)
    assert {t.id for t in samples} == {e.id for e in examples}
    assert results["questions"]["scored"] == 4
    assert all(t.scores["ex"] == 0 and t.gold_rows is not None for t in samples)
    before = (run.path / "samples.jsonl").read_bytes()
    (tmp_path / "script.jsonl").write_text("")  # a repeated call would now fail
    evaluate(config, Run("evaluate", "t", config, tmp_path / "run", resume=True))
    assert (run.path / "samples.jsonl").read_bytes() == before


def test_machinery_failures_leave_samples_unfinished(tmp_path, monkeypatch):
    from pandora_train.errors import MachineryError
    from pandora_train.evaluate import run as module
    from pandora_train.llm.scripted import ScriptedLLM

    def gone(messages, sample):
        raise MachineryError("server gone")

    monkeypatch.setattr(module, "open_llm", lambda config: ScriptedLLM(gone))
    config = evaluation(tmp_path, [])
    run = Run("evaluate", "t", config, tmp_path / "run")
    with pytest.raises(UserError, match="4 samples unfinished"):
        evaluate(config, run)
    assert run.read("samples.jsonl", Trajectory) == []
    assert json.loads((run.path / "results.json").read_text())["questions"]["unfinished"] == 4


def test_the_llm_teacher_asks_databases_first_and_keeps_only_gold(tmp_path):
    examples = load_data(DataConfig(benchmark="spider", path=SPIDER, split="dev", limit=2))
    replies = [{"text": "1. Guess.\n```python\nresult = [['no']]\n```", "contains": e.question}
               for e in examples for _ in range(4)]
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(r) + "\n" for r in replies))
    config = AnnotateConfig(data=[DataConfig(benchmark="spider", path=SPIDER, split="dev", limit=2)], teacher="llm",
                            llm=LLMConfig(kind="scripted", script=str(script)))
    with pytest.raises(UserError, match="no question was kept"):
        annotate(config, Run("annotate", "t", config, tmp_path / "run"))
    attempts = [Attempt.model_validate_json(x) for x in (tmp_path / "run/attempts.jsonl").read_text().splitlines()]
    assert [a.outcome for a in attempts] == ["wrong", "wrong"]
    assert all(len(a.trajectory.steps) == 4 for a in attempts)


def test_annotating_goes_on_after_a_failure_of_the_machinery_and_resumes(tmp_path, monkeypatch):
    from pandora_train.errors import MachineryError
    from pandora_train.teach import annotate as module

    config = AnnotateConfig(data=[DataConfig(benchmark="spider", path=SPIDER, split="dev", limit=3)] * 2)
    compiled, broken = module._compile, load_data(config.data[0])[0].id

    def fails_once(example, *rest):
        if example.id == broken:
            raise MachineryError("no child")
        return compiled(example, *rest)

    monkeypatch.setattr(module, "_compile", fails_once)
    with pytest.raises(UserError, match="1 questions unfinished"):
        annotate(config, Run("annotate", "t", config, tmp_path / "run"))
    monkeypatch.setattr(module, "_compile", compiled)
    run = Run("annotate", "t", config, tmp_path / "run", resume=True)
    assert len(run.read("attempts.jsonl", Attempt)) == 2
    annotate(config, run)
    assert len({a.id for a in run.read("attempts.jsonl", Attempt)}) == len(run.read("attempts.jsonl", Attempt)) == 3


def test_settings_that_make_no_sense_are_refused(tmp_path):
    for wrong in ("workers=0", "agent.rounds=-1", "retrieval.k=-1"):
        with pytest.raises(UserError, match=wrong.split("=")[0]):
            load(EvaluateConfig, "configs/quickstart/tiny-evaluate.yaml", [wrong])
    with pytest.raises(UserError, match="limits"):
        load(DistillConfig, "configs/quickstart/distill.yaml", ["limits={spidr: 3}"])
