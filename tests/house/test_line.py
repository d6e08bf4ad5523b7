"""Annotate, distill and evaluate on the sample data, with the compiler and a scripted model."""

import json
import re
from collections import Counter

import pytest

from pandora_train.box import schema_text
from pandora_train.config import load
from pandora_train.distill import DistillConfig, distill
from pandora_train.errors import UserError
from pandora_train.evaluate.results import read_results
from pandora_train.evaluate.run import EvaluateConfig, evaluate
from pandora_train.llm import LLMConfig
from pandora_train.llm.identity import read_prompt_settings
from pandora_train.memory import read_entries
from pandora_train.prompt import PromptConfig
from pandora_train.records import Trajectory
from pandora_train.rows import read_rows
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
    assert read_prompt_settings(folder) == PromptConfig().settings()
    assert set(rows) == {"train", "validation"}
    assert {r["benchmark"] for r in rows["train"]} == {"spider", "wikitq", "grailqa", "webqsp"}
    entries = {e.id: e for e in read_entries(str(memory))}
    for row in rows["train"]:
        assert [m["role"] for m in row["prompt"]] == ["system", "user"]
        assert [m["role"] for m in row["completion"]] == ["assistant"]
        assert row["prompt"][1]["content"].startswith(schema_text(entries[row["id"]].boxes))
        assert entries[row["id"]].turns[-1].code in row["completion"][0]["content"]
    held = {(r["benchmark"], r["group"]) for r in rows["validation"]}
    assert not held & {(r["benchmark"], r["group"]) for r in rows["train"]}


@pytest.mark.model
def test_what_is_held_out_demonstrates_nothing(memory, tmp_path):
    from datasets import load_dataset

    folder = distilled(memory, tmp_path, "retrieval.k=2", "held_out=0.4", "max_tokens=100000")
    rows = load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    entries = {e.id: e for e in read_entries(str(memory))}
    held = {entries[r["id"]].turns[-1].code for r in rows["validation"]}
    shown = "".join(r["prompt"][0]["content"] for split in rows.values() for r in split)
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
    assert results == read_results(run.path / "results.json")
    assert (results.questions.asked, results.questions.n, results.complete) == (4, 4, True)
    assert all(t.scores["ex"] == 0 and t.gold_rows is not None for t in samples)
    before = {f.name: f.read_bytes() for f in run.path.glob("*.jsonl")}
    (tmp_path / "script.jsonl").write_text("")  # a repeated call would now fail
    assert evaluate(config, Run("evaluate", "t", config, tmp_path / "run", resume=True)) == results
    assert {f.name: f.read_bytes() for f in run.path.glob("*.jsonl")} == before


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


def test_a_compiler_that_stumbles_over_one_label_ends_nothing(tmp_path, monkeypatch):
    from pandora_train.systems import compiled as module

    config = AnnotateConfig(data=[DataConfig(benchmark="spider", path=SPIDER, split="dev", limit=3)])
    compiled, broken = module.compile_label, load_data(config.data[0])[0].id

    def stumbles(example, boxes):
        return [][1] if example.id == broken else compiled(example, boxes)

    monkeypatch.setattr(module, "compile_label", stumbles)
    run = Run("annotate", "t", config, tmp_path / "run")
    annotate(config, run)
    attempts = {a.id: a for a in run.read("attempts.jsonl", Attempt)}
    assert len(attempts) == 3
    assert attempts[broken].outcome == "compiler failed"
    assert "IndexError" in attempts[broken].reason
    assert all(a.outcome != "compiler failed" for i, a in attempts.items() if i != broken)


@pytest.mark.parametrize(("setting", "said"), [
    ("prompt.values=matched", "agent.prompt.values=none (here matched)"), ("prompt.types=true", "agent.prompt.types=False")])
@pytest.mark.model
def test_rows_are_laid_out_as_the_memory_was_annotated(memory, tmp_path, setting, said):
    with pytest.raises(UserError, match=re.escape(said)):
        distilled(memory, tmp_path, setting)


@pytest.mark.model
def test_one_question_of_two_memories_is_one_row_or_one_a_program(memory, tmp_path):
    from pandora_train.runs import append_line

    second = tmp_path / "second.jsonl"
    entries = read_entries(str(memory))
    for e in entries:
        other = e.turns[-1].model_copy(update={"code": e.turns[-1].code + "\n# again", "reply": "x"})
        append_line(second, e.model_copy(update={"turns": (other,), "provenance": {"teacher": "m", "checked": "gold"}})
                    .model_dump_json())
    both = f"memory=[{memory}, {second}]"
    once, twice = (read_rows(distilled(memory, tmp_path / n, both, f"programs={n}", "held_out=0", "max_tokens=99999"))
                   for n in ("1", "2"))
    assert len({r.id for r in once}) == len(once) == len({e.question.lower() for e in entries})
    assert len({r.id for r in twice}) == len(twice) == 2 * len(once)
    assert not [r for r in once if "# again" in r.completion[0]["content"]]


def test_settings_that_make_no_sense_are_refused(tmp_path):
    for wrong in ("workers=0", "agent.rounds=-1", "retrieval.k=-1", "relations.keep=-1"):
        with pytest.raises(UserError, match=wrong.split("=")[0]):
            load(EvaluateConfig, "configs/quickstart/tiny-evaluate.yaml", [wrong])
    with pytest.raises(UserError, match="limits"):
        load(DistillConfig, "configs/quickstart/distill.yaml", ["limits={spidr: 3}"])


def test_questions_that_their_files_make_unusable_are_counted_outside_n(tmp_path):
    import shutil

    shutil.copytree("data/sample/wikitq", tmp_path / "wikitq")
    data = DataConfig(benchmark="wikitq", path=str(tmp_path / "wikitq"), split="dev")
    examples = load_data(data)
    gone = examples[0].knowledge.path
    (tmp_path / "wikitq" / gone.removeprefix(str(tmp_path / "wikitq") + "/")).unlink()
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps({"text": "```python\nresult = [[1]]\n```", "contains": e.question}) + "\n" for e in examples))
    config = EvaluateConfig(data=[data], llm=LLMConfig(kind="scripted", script=str(script)), workers=2)
    results = evaluate(config, Run("evaluate", "t", config, tmp_path / "run"))
    lost = sum(e.knowledge.path == gone for e in examples)
    assert results.questions.asked == len(examples)
    assert results.questions.unusable == {"no table file for it in csv/": lost}
    assert results.questions.n == len(examples) - lost
    assert results.complete
