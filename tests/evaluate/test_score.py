"""``pandora score``: official prediction files over small folders in the official layouts, and the real ones."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pandora_train.errors import UserError
from pandora_train.evaluate.score import ScoreReport, score_file
from pandora_train.report import scored
from pandora_train.sources import DataConfig

REAL = Path(__file__).resolve().parents[2].parent / "shared" / "data"
NEEDS_DATA = pytest.mark.skipif(not REAL.is_dir(), reason="the benchmark data folders are not here")
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def outcomes(report: ScoreReport) -> list[tuple[str, float]]:
    return [(s.outcome, s.scores[report.primary]) for s in report.samples]


# --- Spider -------------------------------------------------------------------------------------------

QUERIES = ["SELECT name FROM pet ORDER BY age", "SELECT count(*) FROM pet", "SELECT name FROM gone",
           "SELECT name, age FROM pet"]


@pytest.fixture
def spider(tmp_path: Path) -> DataConfig:
    """Four questions; the third stands on a database that isn't there."""
    dbs = ["pets", "pets", "lost", "pets"]
    write(tmp_path / "dev.json", [{"db_id": db, "question": f"question {i}?", "query": q}
                                  for i, (db, q) in enumerate(zip(dbs, QUERIES, strict=True))])
    table = {"table_names_original": ["pet"], "column_names_original": [[-1, "*"], [0, "name"], [0, "age"]],
             "foreign_keys": []}
    write(tmp_path / "tables.json", [table | {"db_id": "pets"}, table | {"db_id": "lost"}])
    database(tmp_path / "database" / "pets" / "pets.sqlite", [("rex", 3), ("tom", 5), (None, 7)])
    return DataConfig(benchmark="spider", path=str(tmp_path))


def database(path: Path, rows: list[tuple[str | None, int]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE pet (name TEXT, age INTEGER)")
        connection.executemany("INSERT INTO pet VALUES (?, ?)", rows)
    connection.close()


def test_sql_lines_follow_the_question_file(spider: DataConfig, tmp_path: Path) -> None:
    lines = ["SELECT name FROM pet ORDER BY age DESC", "select 3\tpets", "anything", "SELECT age, name FROM pet"]
    report = score_file(write(tmp_path / "p.sql", "\n".join(lines) + "\n"), spider)
    assert outcomes(report) == [("answered", 0.0), ("answered", 1.0), ("answered", 1.0)]
    assert (report.n, report.unusable, report.unknown) == (3, 1, 0)
    assert report.metrics["ex"].value == pytest.approx(2 / 3)


def test_failed_empty_and_late_sql_is_a_counted_zero(spider: DataConfig, tmp_path: Path) -> None:
    lines = ["SELECT nme FROM pet", ENDLESS, "", ""]
    report = score_file(write(tmp_path / "p.sql", "\r\n".join(lines) + "\n"), spider, timeout=5)
    assert outcomes(report) == [("error", 0.0), ("timeout", 0.0), ("no answer", 0.0)]
    assert report.metrics["ex"].n == 3
    assert "no such column: nme" in report.samples[0].note


def test_foreign_sql_cannot_write(spider: DataConfig, tmp_path: Path) -> None:
    before = (tmp_path / "database" / "pets" / "pets.sqlite").read_bytes()
    lines = ["DROP TABLE pet", "ATTACH '/tmp/x.sqlite' AS x", "x", "PRAGMA user_version = 7"]
    report = score_file(write(tmp_path / "p.sql", "\n".join(lines)), spider)
    assert report.outcomes == {"error": 3}
    assert (tmp_path / "database" / "pets" / "pets.sqlite").read_bytes() == before


def test_several_databases_are_a_test_suite(spider: DataConfig, tmp_path: Path) -> None:
    database(tmp_path / "database" / "pets" / "other.sqlite", [("rex", 3), ("ann", 9)])
    lines = ["SELECT name FROM pet ORDER BY age", "SELECT 3", "x", "SELECT name, age FROM pet"]
    report = score_file(write(tmp_path / "p.sql", "\n".join(lines)), spider)
    assert (report.metrics["ex"].value, report.metrics["ts"].value) == (1.0, pytest.approx(2 / 3))


def test_the_number_of_lines_must_fit(spider: DataConfig, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 2 statements, spider dev has 4 questions"):
        score_file(write(tmp_path / "p.sql", "SELECT 1\nSELECT 2\n"), spider)


def test_sql_as_a_json_list(spider: DataConfig, tmp_path: Path) -> None:
    queries = ["SELECT name\nFROM pet\nORDER BY age", "SELECT 3", "x", "SELECT 1"]
    assert [v for _, v in outcomes(score_file(write(tmp_path / "p.json", queries), spider))] == [1.0, 1.0, 0.0]
    with pytest.raises(UserError, match="not a list of SQL"):
        score_file(write(tmp_path / "p.json", {"0": "SELECT 1"}), spider)


def test_rows_and_sql_as_jsonl(spider: DataConfig, tmp_path: Path) -> None:
    ids = [s.id for s in score_file(write(tmp_path / "p.sql", "x\n" * 4), spider).samples]
    entries = [{"id": ids[0], "rows": [["rex"], ["tom"], [None]]}, {"id": ids[1], "sql": "SELECT 3"},
               {"id": ids[2], "rows": None}]
    report = score_file(write(tmp_path / "p.jsonl", "\n".join(map(json.dumps, entries))), spider)
    assert outcomes(report) == [("answered", 1.0), ("answered", 1.0), ("no answer", 0.0)]


# --- WikiTQ -------------------------------------------------------------------------------------------


@pytest.fixture
def wikitq(tmp_path: Path) -> DataConfig:
    rows = ["id\tutterance\tcontext\ttargetValue", "nt-1\twhich?\tcsv/1-csv/1.csv\tBern, Basel|Ulm",
            "nt-2\thow many?\tcsv/1-csv/1.csv\t3", "nt-3\twhen?\tcsv/1-csv/1.csv\t2008"]
    write(tmp_path / "data" / "random-split-1-dev.tsv", "\n".join(rows) + "\n")
    write(tmp_path / "csv" / "1-csv" / "1.tsv", "a\tb\n1\t2\n")
    return DataConfig(benchmark="wikitq", path=str(tmp_path))


def test_official_tsv_missing_and_unknown_ids(wikitq: DataConfig, tmp_path: Path) -> None:
    report = score_file(write(tmp_path / "p.tsv", "nt-1\tUlm\tBern, Basel\nnt-2\nnt-9\tx\n"), wikitq)
    assert outcomes(report) == [("answered", 1.0), ("empty", 0.0), ("missing", 0.0)]
    assert (report.n, report.unknown, report.metrics["da"].value) == (3, 1, pytest.approx(1 / 3))


def test_ids_may_be_ours_or_official(wikitq: DataConfig, tmp_path: Path) -> None:
    lines = ['{"id": "wikitq:nt-2", "answers": ["3.0"]}', '{"id": "nt-3", "rows": [["2008"]]}']
    report = score_file(write(tmp_path / "p.jsonl", "\n".join(lines)), wikitq)
    assert [s.scores["da"] for s in report.samples] == [0.0, 1.0, 1.0]


@pytest.mark.parametrize(("name", "content", "message"), [
    ("p.tsv", "nt-1\ta\nnt-1\tb\n", "'nt-1' is predicted twice"),
    ("p.tsv", "nt-8\ta\n", "none of its 1 ids"),
    ("p.jsonl", "{", "line 1: not valid JSON"),
    ("p.jsonl", "[]", "line 1: not a JSON object"),
    ("p.jsonl", '{"rows": []}', "line 1: no id"),
    ("p.jsonl", '{"id": "nt-1"}', "line 1: no answer"),
    ("p.jsonl", '{"id": "nt-1", "answers": "a, b"}', "is str, not a list"),
])
def test_files_that_cannot_be_read_are_refused(wikitq: DataConfig, tmp_path: Path, name: str, content: str,
                                               message: str) -> None:
    with pytest.raises(UserError, match=message):
        score_file(write(tmp_path / name, content), wikitq)


def test_sql_where_gold_is_no_sql_is_refused(wikitq: DataConfig, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only where gold is SQL"):
        score_file(write(tmp_path / "p.jsonl", '{"id": "nt-1", "sql": "SELECT 1"}'), wikitq)
    with pytest.raises(UserError, match="no prediction file"):
        score_file(tmp_path / "none.tsv", wikitq)


# --- graphs -------------------------------------------------------------------------------------------


def grail(qid: int, level: str, answers: list[str] | str, form: str) -> dict[str, Any]:
    listed = answers if isinstance(answers, str) else [{"answer_argument": a, "entity_name": a.upper()}
                                                       for a in answers]
    return {"qid": qid, "question": "?", "answer": listed, "level": level, "function": "none",
            "s_expression": form, "graph_query": {"nodes": []}}


@pytest.fixture
def grailqa(tmp_path: Path) -> DataConfig:
    form = "(AND film (JOIN film.directed_by m.9))"
    write(tmp_path / "grailqa_v1.0_dev.json", [grail(1, "i.i.d.", ["m.1", "m.2"], form),
                                               grail(2, "zero-shot", ["m.3"], form),
                                               grail(3, "zero-shot", "null", form)])
    return DataConfig(benchmark="grailqa", path=str(tmp_path), store="none")


def ontology(folder: Path) -> None:
    write(folder / "fb_roles", "film film.directed_by director\ndirector director.films film\n")
    write(folder / "fb_types", "film meta.subclassOf common.topic\n")
    write(folder / "reverse_properties", "film.directed_by\tdirector.films\ndirector.films\tfilm.directed_by\n")


def test_official_grailqa_file_with_and_without_the_ontology(grailqa: DataConfig, tmp_path: Path) -> None:
    predicted = {"1": {"logical_form": "(AND film (JOIN (R director.films) m.9))", "answer": ["m.8"]},
                 "2": {"logical_form": "(AND film m.9)", "answer": ["m.3", "m.4"]}}
    file = write(tmp_path / "p.json", predicted)
    report = score_file(file, grailqa)
    assert "em" not in report.metrics
    assert "no em" in report.notes[-1]
    assert [s.scores["f1"] for s in report.samples] == [0.0, pytest.approx(2 / 3), 0.0]
    ontology(tmp_path / "ontology")
    report = score_file(file, grailqa)
    assert report.metrics["em"].value == pytest.approx(1 / 3)
    assert [s.scores["f1"] for s in report.samples] == [1.0, pytest.approx(2 / 3), 0.0]
    assert set(report.subsets) >= {"level=i.i.d.", "level=zero-shot"}  # and none for a level that isn't there


def test_webqsp_file_best_parse_and_both_hits(tmp_path: Path) -> None:
    good = {"QuestionQuality": "Good", "ParseQuality": "Complete"}

    def parse(*answers: str) -> dict[str, Any]:
        return {"AnnotatorComment": good, "TopicEntityMid": "m.0", "Sparql": "",
                "Answers": [{"AnswerArgument": a, "EntityName": None} for a in answers]}

    bad = parse("m.1") | {"AnnotatorComment": {"QuestionQuality": "Bad", "ParseQuality": "Complete"}}
    questions = [("W-1", [parse("m.1"), parse("m.1", "m.2")]), ("W-2", [parse("m.5")]), ("W-3", [bad])]
    write(tmp_path / "WebQSP.test.json", {"Questions": [
        {"QuestionId": i, "RawQuestion": "?", "Parses": p} for i, p in questions]})
    predictions = [{"QuestionId": "W-1", "Answers": ["m.2", "m.1"]},
                   {"QuestionId": "W-2", "Answers": [{"AnswerArgument": "m.4"}, {"AnswerArgument": "m.5"}]},
                   {"QuestionId": "W-3", "Answers": ["m.1"]}]
    data = DataConfig(benchmark="webqsp", path=str(tmp_path), split="test", store="none")
    report = score_file(write(tmp_path / "p.json", predictions), data)
    assert (report.n, report.unusable, report.unknown) == (2, 1, 0)
    values = {name: metric.value for name, metric in report.metrics.items()}
    assert values == {"f1": pytest.approx((1 + 2 / 3) / 2), "precision": 0.75, "recall": 1.0,
                      "true_accuracy": 0.5, "hits@1": 0.5, "hit": 1.0}


# --- the real files -------------------------------------------------------------------------------------


def gold_file(benchmark: str, folder: Path) -> tuple[Path, DataConfig]:
    """Gold as a prediction file in the official format."""
    path = REAL / benchmark
    if benchmark == "spider":
        entries = json.loads((path / "dev.json").read_text(encoding="utf-8"))
        text = "\n".join(" ".join(e["query"].split()) for e in entries)
        return write(folder / "p.sql", text), DataConfig(benchmark="spider", path=str(path))
    if benchmark == "wikitq":
        rows = [r.split("\t") for r in (path / "data" / "random-split-1-dev.tsv").read_text(
            encoding="utf-8").split("\n")[1:] if r]
        text = "\n".join("\t".join([r[0], *r[3].split("|")]) for r in rows)
        return write(folder / "p.tsv", text), DataConfig(benchmark="wikitq", path=str(path))
    if benchmark == "grailqa":
        entries = json.loads((path / "grailqa_v1.0_dev.json").read_text(encoding="utf-8"))
        found = {str(e["qid"]): {"logical_form": e["s_expression"],
                                 "answer": [a["answer_argument"] for a in e["answer"]]} for e in entries}
        return write(folder / "p.json", found), DataConfig(benchmark="grailqa", path=str(path), store="none")
    entries = json.loads((path / "webqsp_test.json").read_text(encoding="utf-8"))
    listed = [{"QuestionId": e["id"], "Answers": e["answer_mids"]} for e in entries]
    return write(folder / "p.json", listed), DataConfig(benchmark="webqsp", path=str(path), split="test",
                                                         store="none")


@NEEDS_DATA
@pytest.mark.parametrize(("benchmark", "n"), [("spider", 650), ("wikitq", 2831), ("grailqa", 700),
                                              ("webqsp", 1139)])
def test_gold_as_prediction_is_all_right(benchmark: str, n: int, tmp_path: Path) -> None:
    report = score_file(*gold_file(benchmark, tmp_path))
    assert report.n == n
    assert report.metrics[report.primary].value == 1.0


@NEEDS_DATA
def test_shuffled_and_empty_predictions_score_what_they_must(tmp_path: Path) -> None:
    for benchmark in ("wikitq", "webqsp"):
        file, data = gold_file(benchmark, tmp_path)
        text = file.read_text(encoding="utf-8")
        if benchmark == "wikitq":
            ids, answers = zip(*(line.split("\t", 1) for line in text.split("\n")), strict=True)
            shuffled = "\n".join(f"{i}\t{a}" for i, a in zip(ids, answers[1:] + answers[:1], strict=True))
            nothing = "\n".join(ids)
        else:
            entries = json.loads(text)
            moved = [e["Answers"] for e in entries[1:] + entries[:1]]
            shuffled = json.dumps([e | {"Answers": a} for e, a in zip(entries, moved, strict=True)])
            nothing = json.dumps([e | {"Answers": []} for e in entries])
        empty_gold = 8 / 1139 if benchmark == "webqsp" else 0.0  # nothing is right where gold is nothing
        primary = "da" if benchmark == "wikitq" else "f1"
        assert score_file(write(tmp_path / f"n{file.suffix}", nothing), data).metrics[primary].value == empty_gold
        assert score_file(write(tmp_path / f"s{file.suffix}", shuffled), data).metrics[primary].value < 0.05


@NEEDS_DATA
def test_one_endless_prediction_among_650_costs_its_time(tmp_path: Path) -> None:
    file, data = gold_file("spider", tmp_path)
    lines = file.read_text(encoding="utf-8").split("\n")
    report = score_file(write(file, "\n".join([ENDLESS, *lines[1:]])), data, timeout=10)
    assert report.outcomes["timeout"] == 1
    assert report.metrics["ex"].value == pytest.approx(649 / 650)


def test_the_terminal_says_what_the_numbers_are_about(wikitq: DataConfig, tmp_path: Path) -> None:
    shown = scored(write(tmp_path / "p.tsv", "nt-1\tx\n"), "wikitq", Path(wikitq.path), out=tmp_path / "v.json")
    assert max(map(len, shown.split("\n")[1:4])) <= 80
    assert "3 questions" in shown
    assert "2 missing" in shown
    verdicts = json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))
    assert [v["outcome"] for v in verdicts["samples"]] == ["answered", "missing", "missing"]
