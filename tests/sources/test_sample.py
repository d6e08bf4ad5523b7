"""The sample data: every gold answer is worked out again by code that the product doesn't use."""

import json
import random
import re
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pyoxigraph as ox
import pytest

from pandora_train.sources import DataConfig, load

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample"
NS = "http://rdf.freebase.com/ns/"
XSD = "http://www.w3.org/2001/XMLSchema#"


def entries(file: str) -> Any:
    return json.loads((SAMPLE / file).read_text())


@pytest.mark.parametrize("benchmark", ["spider", "wikitq", "grailqa", "webqsp"])
def test_train_and_dev_share_no_id_and_no_question(benchmark: str) -> None:
    path = str(SAMPLE / benchmark)
    train, dev = (
        load(DataConfig.model_validate({"benchmark": benchmark, "path": path, "split": s})) for s in ("train", "dev")
    )
    assert min(len(train), len(dev)) >= 15
    assert len({e.id for e in train + dev}) == len(train + dev)
    assert not {e.question for e in train} & {e.question for e in dev}
    if benchmark in ("spider", "wikitq"):
        assert not {e.group for e in train} & {e.group for e in dev}


# --- Spider


def shuffled(schema: str, seed: int) -> sqlite3.Connection:
    """The database of a ``schema.sql`` with its rows stored in another order (no primary keys, so rowids follow)."""
    lines = schema.replace(" PRIMARY KEY", "").splitlines(keepends=True)
    rows = [line for line in lines if line.startswith("INSERT")]
    random.Random(seed).shuffle(rows)
    con = sqlite3.connect(":memory:")
    con.executescript("".join(line for line in lines if not line.startswith("INSERT")) + "".join(rows))
    return con


@pytest.mark.parametrize("file", ["train_spider.json", "dev.json"])
def test_spider_gold_gives_values_and_hangs_on_no_row_order(file: str) -> None:
    for entry in entries(f"spider/{file}"):
        folder = SAMPLE / "spider" / "database" / entry["db_id"]
        with sqlite3.connect(f"file:{folder / entry['db_id']}.sqlite?mode=ro", uri=True) as con:
            rows = con.execute(entry["query"]).fetchall()
        assert any(cell is not None for row in rows for cell in row), entry
        for seed in range(3):
            again = shuffled((folder / "schema.sql").read_text(), seed).execute(entry["query"]).fetchall()
            ordered = "ORDER BY" in entry["query"]
            rounded = [[[round(c, 9) if isinstance(c, float) else c for c in r] for r in x] for x in (rows, again)]
            assert rounded[0] == rounded[1] if ordered else sorted(map(repr, rounded[0])) == sorted(
                map(repr, rounded[1])
            ), entry


def test_spider_databases_equal_their_schema_files_and_tables_json() -> None:
    for schema in entries("spider/tables.json"):
        folder = SAMPLE / "spider" / "database" / schema["db_id"]
        built = sqlite3.connect(":memory:")
        built.executescript((folder / "schema.sql").read_text())
        with sqlite3.connect(folder / f"{schema['db_id']}.sqlite") as stored:
            assert list(stored.iterdump()) == list(built.iterdump())
        for number, table in enumerate(schema["table_names_original"]):
            columns = [name for owner, name in schema["column_names_original"] if owner == number]
            assert columns == [row[1] for row in built.execute(f"PRAGMA table_info({table})")]


# --- WikiTQ: sample_wikitq.json holds an expression over the table for each question


def answered(expression: str, table: pd.DataFrame) -> list[str]:
    value = eval(expression, {"t": table, "str": str, "list": list})
    return [str(v) for v in value]


def test_wikitq_answers_are_what_pandas_gives() -> None:
    expressions = json.loads((Path(__file__).parent / "sample_wikitq.json").read_text())
    seen = set()
    for line in (SAMPLE / "wikitq" / "data" / "training.tsv").read_text().splitlines()[1:]:
        identifier, _, context, target = line.split("\t")
        # the official escapes, read by pandas' own parser
        table = pd.read_csv(SAMPLE / "wikitq" / context, escapechar="\\", doublequote=False)
        assert answered(expressions[identifier], table) == target.split("|"), line
        seen.add(identifier)
    assert seen == set(expressions)


def test_wikitq_splits_make_up_the_training_file() -> None:
    read = {n: (SAMPLE / "wikitq" / "data" / f"{n}.tsv").read_text().splitlines()[1:]
            for n in ("training", "random-split-1-train", "random-split-1-dev")}
    assert sorted(read["training"]) == sorted(read["random-split-1-train"] + read["random-split-1-dev"])


# --- the graph: GrailQA's s-expressions by a plain interpreter, WebQSP's SPARQL by oxigraph


def graph() -> tuple[list[tuple[str, str, str]], dict[str, list[str]], dict[str, str]]:
    """Triples over ids, roles by relation, ids by name."""
    folder = SAMPLE / "graph"
    ids = {name: i for i, name in (line.split("\t") for line in (folder / "names.tsv").read_text().splitlines())}
    roles = {r[0]: r[1:] for r in (line.split("\t") for line in (folder / "relation_roles.tsv").read_text().splitlines())}
    triples = [tuple(line.split("\t")[:3]) for line in (folder / "triples.tsv").read_text().splitlines()[1:]]
    return [(ids.get(h, h), r, ids.get(t, t)) for h, r, t in triples], roles, ids


class Interpreter:
    def __init__(self) -> None:
        self.triples, self.roles, _ = graph()
        self.types: dict[str, set[str]] = {}
        for head, relation, tail in self.triples:
            domain, range_, _ = self.roles[relation]
            self.types.setdefault(domain, set()).add(head)
            self.types.setdefault(range_, set()).add(tail)

    def run(self, text: str) -> set[str]:
        tokens = re.findall(r"[()]|[^\s()]+", text)

        def expression() -> Any:
            token = tokens.pop(0)
            if token != "(":
                return token
            parts = []
            while tokens[0] != ")":
                parts.append(expression())
            tokens.pop(0)
            return parts

        return self.value(expression())

    def value(self, e: Any) -> set[str]:
        if isinstance(e, str):
            return {e} if e.startswith("m.") else self.types[e]
        match e[0]:
            case "AND":
                return self.value(e[1]) & self.value(e[2])
            case "COUNT":
                return {str(len(self.value(e[1])))}
            case "JOIN" if isinstance(e[1], list):
                of = self.value(e[2])
                return {t for h, r, t in self.triples if r == e[1][1] and h in of}
            case "JOIN":
                of = self.value(e[2])
                return {h for h, r, t in self.triples if r == e[1] and t in of}
            case "ARGMAX" | "ARGMIN":
                of = self.value(e[1])
                values = {h: float(t) for h, r, t in self.triples if r == e[2] and h in of}
                best = max(values.values()) if e[0] == "ARGMAX" else min(values.values())
                return {h for h, v in values.items() if v == best}
            case "ge" | "gt" | "le" | "lt":
                limit = float(e[2].split("^^")[0])
                fits = {"ge": float.__ge__, "gt": float.__gt__, "le": float.__le__, "lt": float.__lt__}[e[0]]
                return {h for h, r, t in self.triples if r == e[1] and fits(float(t), limit)}
        raise AssertionError(e)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_grailqa_answers_are_what_the_s_expressions_give(split: str) -> None:
    interpreter = Interpreter()
    for entry in entries(f"grailqa/grailqa_v1.0_{split}.json"):
        gold = {a["answer_argument"] for a in entry["answer"]}
        assert interpreter.run(entry["s_expression"]) == gold != set(), entry["question"]
        used = set(re.findall(r"\bm\.0\w+", entry["s_expression"]))
        nodes = entry["graph_query"]["nodes"]
        assert used == {n["id"] for n in nodes if n["node_type"] == "entity"}
        assert sum(n["question_node"] for n in nodes) == 1
        assert (len(nodes), len(entry["graph_query"]["edges"])) == (entry["num_node"], entry["num_edge"])


def test_grailqa_levels_follow_from_the_training_questions() -> None:
    def relations(form: str) -> set[str]:
        return set(re.findall(r"\w+\.\w+\.\w+", form))

    def skeleton(form: str) -> str:
        return re.sub(r"m\.0\w+|\d[\d.]*\^\^", "_", form)

    train = [e["s_expression"] for e in entries("grailqa/grailqa_v1.0_train.json")]
    known, forms = set().union(*map(relations, train)), set(map(skeleton, train))
    levels = set()
    for entry in entries("grailqa/grailqa_v1.0_dev.json"):
        form = entry["s_expression"]
        new = "compositional" if relations(form) <= known else "zero-shot"
        assert entry["level"] == ("i.i.d." if skeleton(form) in forms else new), entry["question"]
        levels.add(entry["level"])
    assert levels == {"i.i.d.", "compositional", "zero-shot"}


def rdf() -> ox.Store:
    store, (triples, roles, _) = ox.Store(), graph()
    kinds = {"type.int": "integer", "type.float": "float", "type.datetime": "date"}
    for head, relation, tail in triples:
        kind = kinds.get(roles[relation][1])
        value = ox.Literal(tail, datatype=ox.NamedNode(XSD + kind)) if kind else ox.NamedNode(NS + tail)
        store.add(ox.Quad(ox.NamedNode(NS + head), ox.NamedNode(NS + relation), value))
    return store


@pytest.mark.parametrize("split", ["train", "dev"])
def test_webqsp_answers_are_what_sparql_gives(split: str) -> None:
    store = rdf()
    for entry in entries(f"webqsp/WebQSP.{split}.json")["Questions"]:
        [parse] = entry["Parses"]
        # Virtuoso's OR, and dotted local names that oxigraph's parser refuses
        sparql = re.sub(r"ns:([\w.]+)", rf"<{NS}\1>", parse["Sparql"].split("\n", 1)[1]).replace(" OR ", " || ")
        found = {row["x"].value.removeprefix(NS) for row in store.query(sparql)}
        assert found == {a["AnswerArgument"] for a in parse["Answers"]} != set(), entry["RawQuestion"]


def test_names_in_the_questions_files_are_those_of_the_graph() -> None:
    _, _, ids = graph()
    by_id = {i: name for name, i in ids.items()}
    for split in ("train", "dev"):
        for entry in entries(f"grailqa/grailqa_v1.0_{split}.json"):
            assert all(by_id[a["answer_argument"]] == a["entity_name"] for a in entry["answer"] if "entity_name" in a)
        for entry in entries(f"webqsp/WebQSP.{split}.json")["Questions"]:
            answers = [a for p in entry["Parses"] for a in p["Answers"] if a["AnswerType"] == "Entity"]
            assert all(by_id[a["AnswerArgument"]] == a["EntityName"] for a in answers)


def test_the_graph_is_well_formed() -> None:
    triples, roles, ids = graph()
    assert len(set(triples)) == len(triples)
    assert {r for _, r, _ in triples} == set(roles) - {"relation"}
    assert len(set(ids.values())) == len(ids)


def test_no_question_of_any_train_part_is_in_any_dev_part() -> None:
    asked: dict[str, set[str]] = {"train": set(), "dev": set()}
    for benchmark in ("spider", "wikitq", "grailqa", "webqsp"):
        for split, seen in asked.items():
            settings = {"benchmark": benchmark, "path": str(SAMPLE / benchmark), "split": split}
            seen |= {re.sub(r"\W+", " ", e.question.lower()) for e in load(DataConfig.model_validate(settings))}
    assert not asked["train"] & asked["dev"]
