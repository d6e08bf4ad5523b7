"""Predictions in official formats: `pandora score` of them gives the run's own scores."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pandora_train.errors import GoldError
from pandora_train.evaluate.results import summarise
from pandora_train.evaluate.score import score_file
from pandora_train.metrics import as_text, gold_rows, metric_names, score
from pandora_train.records import Example, Row, Trajectory
from pandora_train.report import write_predictions
from pandora_train.runs import write_json
from pandora_train.sources import DataConfig, load

ROOT = Path(__file__).resolve().parents[2]
SAMPLE, SHARED = ROOT / "data" / "sample", ROOT.parent / "shared" / "data"
WHERE = {"spider": "", "wikitq": "", "grailqa": "freebase_fragment", "webqsp": "freebase_fragment",
         "pathquestion": ""}


def data(root: Path, benchmark: str, limit: int | None) -> DataConfig:
    store = WHERE[benchmark]
    split = "test" if benchmark == "webqsp" and root == SHARED else "dev"
    return DataConfig(benchmark=benchmark, path=str(root / benchmark), split=split, limit=limit,
                      store=str(root / store) if store and (root / store).is_dir() else "")


def answers(example: Example, rng: random.Random) -> tuple[Row, ...] | None:
    """Right, partly right, wrong, odd, empty or no answer."""
    gold = gold_rows(example)
    right = as_text(gold) if gold is not None else tuple((a,) for a in example.gold.answers or ())
    return rng.choice([right, right, right[:1], right[::-1], ((None,), *right), (("tab\there", "line\nthere"),),
                       (("", None),), (), None])


def samples(examples: list[Example]) -> Iterator[Trajectory]:
    rng = random.Random(3)
    for number, e in enumerate(examples):
        about = {"id": e.id, "benchmark": e.benchmark, "split": e.split, "group": e.group, "question": e.question,
                 "gold": e.gold}
        try:
            rows = answers(e, rng)
            scores = score(e, rows)
        except GoldError:
            yield Trajectory.model_validate(about | {"ending": "unusable gold", "reason": "its SQL fails"})
            continue
        if number % 11 == 5:
            yield Trajectory.model_validate(about | {"ending": "failed reading", "reason": "no file",
                                                     "scores": dict.fromkeys(metric_names(e), 0.0)})
        else:
            yield Trajectory.model_validate(about | {"status": "ok", "rows": rows, "scores": scores})


def run_of(folder: Path, config: DataConfig) -> list[Trajectory]:
    made = list(samples(load(config)))
    folder.mkdir()
    (folder / "samples.jsonl").write_text("".join(t.model_dump_json() + "\n" for t in made), encoding="utf-8")
    (folder / "config.yaml").write_text(yaml.safe_dump({"data": [config.model_dump(mode="json")]}))
    write_json(folder / "results.json", summarise(made, made).model_dump())
    return made


@pytest.mark.parametrize("root", [SAMPLE, pytest.param(SHARED, marks=pytest.mark.skipif(
    not SHARED.is_dir(), reason="needs the benchmarks beside the checkout"))], ids=["sample", "benchmarks"])
@pytest.mark.parametrize("benchmark", list(WHERE))
def test_a_run_written_and_scored_again_has_its_own_scores(benchmark: str, root: Path, tmp_path: Path) -> None:
    if not (root / benchmark).is_dir():
        pytest.skip(f"no {benchmark} there")
    config = data(root, benchmark, 60 if benchmark == "spider" else None)
    made = {t.id: t for t in run_of(tmp_path / "run", config) if t.ending != "unusable gold"}
    (line,) = write_predictions(tmp_path / "run", tmp_path / "out")
    (file,) = (tmp_path / "out").iterdir()
    assert line.startswith(f"{file}: {len(made)} questions")
    again = {s.id: s.scores for s in score_file(file, config).samples if s.id in made}
    assert again.keys() == made.keys()
    assert len({json.dumps(s) for s in again.values()}) > 1
    for i, t in made.items():
        empty = benchmark == "webqsp" and t.rows is None and () in t.gold.parses  # any wrong answer's recall is 1
        expected = t.scores | ({"recall": 1.0} if empty else {})
        assert {k: again[i][k] for k in t.scores} == expected, (i, t.rows, t.gold)


def test_answers_over_a_fragment_are_said_to_be_names(tmp_path: Path) -> None:
    run_of(tmp_path / "run", data(SAMPLE, "grailqa", 20))
    assert "names of the fragment" in write_predictions(tmp_path / "run", tmp_path / "out")[0]


def test_pandas_answers_are_said_to_be_no_sql(tmp_path: Path) -> None:
    run_of(tmp_path / "run", data(SAMPLE, "spider", 5))
    assert "no SQL" in write_predictions(tmp_path / "run", tmp_path / "out")[0]
