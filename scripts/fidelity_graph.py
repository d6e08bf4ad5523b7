"""How faithful graph BOXes are: gold forms run on the graph against the same forms compiled over the BOXes.

    python scripts/fidelity_graph.py --data ../shared/data [--part grailqa] [--quick 50] [--json out.json]

For every logical form, with the relation filter off: does the compiled pandas give exactly what the form
gives on the whole graph (``equal``), and does each reach the gold answer. Then the size of the BOXes against
hops and R*, and how many answers the relation filter loses. Compiled code is run in this process: its only
foreign parts are quoted names.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from graph_reference import Evaluator, Triples, parse

from pandora_train.box import schema_of, schema_text
from pandora_train.box.box import BoxSet
from pandora_train.box.graph import boxes_of
from pandora_train.box.relations import RelationFilter
from pandora_train.box.store import open_graph
from pandora_train.box.triples import Graph
from pandora_train.compile import Compiled, Unsupported
from pandora_train.compile.graph.path import compile_path
from pandora_train.compile.graph.sexpr import compile_sexpr
from pandora_train.records import GraphKnowledge

LAYERS = ("explored", "all")
FLOORS = {("grailqa", "explored"): 494, ("grailqa", "all"): 553, ("webqsp", "explored"): 562,
          ("webqsp", "all"): 591}
"""Questions whose gold the logical form reaches on the graph (data README)."""
TOPS = (100, 50, 30, 20, 10)


@dataclass(frozen=True)
class Form:
    """One gold form: where it starts, what it should give."""

    id: str
    question: str
    program: str
    topics: tuple[str, ...]
    gold: set[str]
    hops: int

    @property
    def operators(self) -> list[str]:
        """What the table is broken down by: every operator beyond joins, inverses and intersections."""
        if "(" not in self.program:
            return [f"path of {self.program.count('->') + 1}"]
        found = set(re.findall(r"\(\s*(\w+)", self.program)) - {"R"}
        return sorted(found) or ["JOIN"]


class Names:
    """Ids to node names: the fragment's own, else those that the question files give."""

    def __init__(self, data: Path) -> None:
        self.known: dict[str, str] = {}
        for line in (data / "freebase_fragment/names.tsv").read_text(encoding="utf-8").split("\n"):
            identifier, _, name = line.partition("\t")
            self.known[identifier] = name

    def add(self, pairs: Iterable[tuple[str, Any]]) -> None:
        for identifier, name in pairs:
            if name:
                self.known.setdefault(identifier, str(name))

    def topics(self, program: str, entities: Iterable[str]) -> tuple[str, ...]:
        """Topic nodes; for a form without entity, the type it starts from."""
        found = tuple(dict.fromkeys(self.known.get(m, m) for m in entities))
        return found or tuple(re.findall(r"[a-z_0-9]+\.[a-z_0-9.]+", program)[:1])


def grailqa(data: Path, names: Names) -> list[Form]:
    """The dev questions; answers by name."""
    entries = json.loads((data / "grailqa/grailqa_v1.0_dev.json").read_text(encoding="utf-8"))
    for e in entries:
        names.add(e["topic_entity"].items())
        nodes = e["graph_query"]["nodes"]
        names.add((n["id"], n["friendly_name"]) for n in nodes if n["node_type"] == "entity")
        names.add((a["answer_argument"], a.get("entity_name")) for a in e["answer"])
    return [Form(str(e["qid"]), e["question"], e["s_expression"],
                 names.topics(e["s_expression"], e["topic_entity"]),
                 {a.get("entity_name") or a["answer_argument"] for a in e["answer"]}, 3)
            for e in entries]


def webqsp(data: Path, names: Names) -> list[Form]:
    """The test questions with a logical form; a value's answer is the value itself."""
    entries = json.loads((data / "webqsp/webqsp_test.json").read_text(encoding="utf-8"))
    for q in json.loads((data / "webqsp/webqsp_100_original_parses.json").read_text(encoding="utf-8")):
        for p in q["Parses"]:
            names.add((c["Argument"], c.get("EntityName")) for c in p.get("Constraints", []))
    forms = []
    for e in entries:
        names.add(e["topic_entity"].items())
        values = [i for i in e["answer_mids"] if not re.fullmatch(r"[mg]\.[0-9a-z_]+", i)]
        gold = set([n for n in e["answers"] if n] + values)
        if program := e.get("lf_exec_equal_gold"):
            topics = names.topics(program, e["topic_entity"])
            forms.append(Form(e["id"], e["question"], program, topics, gold, 2))
    return forms


def pathquestion(data: Path, depth: int) -> list[Form]:
    """Distinct (topic, chain) pairs of PQ-2H or PQ-3H with all their answers."""
    forms: dict[tuple[str, str], Form] = {}
    for line in (data / f"pathquestion/PQ-{depth}H.txt").read_text(encoding="utf-8").splitlines():
        question, answers, path = line.split("\t")
        steps = path.split("#")
        chain = " -> ".join(steps[1:steps.index("<end>"):2])
        gold = {a for a in re.split(r"[(/)]", answers) if a}
        forms.setdefault((steps[0], chain), Form(f"{steps[0]}#{chain}", question, chain, (steps[0],), gold,
                                                 depth))
    return list(forms.values())


def run(program: Compiled, boxes: BoxSet) -> set[str]:
    """The answer set of a compiled program."""
    names: dict[str, Any] = {**boxes.frames(), "pd": pd}
    exec(program.code, names)
    return {str(row[0]) for row in names["result"]}


def compiled(form: Form, boxes: BoxSet, graph: Graph, names: Names) -> set[str]:
    """Answers over the BOXes. A relation that no triple of the neighbourhood has leaves nothing to find."""
    try:
        if "(" in form.program:
            return run(compile_sexpr(form.program, boxes, graph, names.known), boxes)
        return run(compile_path(form.program, boxes, graph, form.topics[0]), boxes)
    except Unsupported as e:
        if e.reason != "relation not in the BOXes":
            raise
        return {"0"} if parse(form.program)[0] == "COUNT" else set()


def measure(forms: Sequence[Form], graph: Graph, triples: Triples, names: Names) -> dict[str, Any]:
    """Counts for one set of forms over one graph, by operator, with the forms that differ."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    different: list[str] = []
    unsupported: Counter[str] = Counter()
    evaluator, seconds = Evaluator(triples, names.known), 0.0
    for form in forms:
        if "(" in form.program:
            wanted = evaluator.answers(form.program)
        else:
            wanted = triples.walk(form.topics[0], form.program.split(" -> "))
        started = time.perf_counter()
        boxes = boxes_of(graph, form.topics, form.hops)
        seconds += time.perf_counter() - started
        try:
            found: set[str] | None = compiled(form, boxes, graph, names)
        except Unsupported as e:
            unsupported[e.reason] += 1
            found = None
        if found != wanted:
            different.append(form.id)
        answer = bool(wanted - {"0"})
        for key in [*form.operators, "total"]:
            table[key].update(forms=1, with_answer=answer, equal=found == wanted,
                              equal_with_answer=answer and found == wanted,
                              gold_on_graph=wanted == form.gold,
                              gold_over_boxes=found is not None and found == form.gold)
    return {"table": {k: dict(v) for k, v in sorted(table.items())}, "different": different,
            "unsupported": dict(unsupported), "ms_per_boxes": round(1000 * seconds / max(len(forms), 1), 1)}


def sizes(forms: Sequence[Form], graph: Graph) -> list[dict[str, Any]]:
    """Mean rows, columns and schema tokens (characters / 4) of the BOXes by hops, without filter."""
    found = []
    for hops in (1, 2, 3):
        sets = [boxes_of(graph, f.topics, hops) for f in forms]
        found.append({"hops": hops, "R*": "all", **_size(sets)})
    return found


def _size(sets: Sequence[BoxSet]) -> dict[str, float]:
    count = max(len(sets), 1)
    return {"boxes": round(sum(len(s.boxes) for s in sets) / count, 1),
            "columns": round(sum(len(b.frame.columns) for s in sets for b in s) / count, 1),
            "rows": round(sum(len(b.frame) for s in sets for b in s) / count, 1),
            "schema_tokens": round(sum(len(schema_text(schema_of(s))) for s in sets) / count / 4)}


def filtered(forms: Sequence[Form], graph: Graph, names: Names, store: str) -> list[dict[str, Any]]:
    """How many of the forms that reach gold unfiltered still do with the ``n`` relations nearest to the
    question, and how large the BOXes are then."""
    from pandora_train.encoder import EMBEDDED, open_encoder

    choose = RelationFilter(open_encoder(EMBEDDED))
    kept = [f for f in forms if compiled(f, boxes_of(graph, f.topics, f.hops), graph, names) == f.gold]
    ranked = {f.id: [n for n, _ in choose.ranked(graph, f.topics, f.hops, f.question)] for f in kept}
    found = []
    for top in TOPS:
        sets = {f.id: boxes_of(graph, f.topics, f.hops, ranked[f.id][:top]) for f in kept}
        lost = sum(compiled(f, sets[f.id], graph, names) != f.gold for f in kept)
        found.append({"R*": top, "questions": len(kept), "lost": lost, **_size(list(sets.values()))})
    return found


def sample(forms: Sequence[Form], count: int) -> list[Form]:
    """Every k-th form, ``count`` in all (0: all)."""
    step = max(len(forms) // count, 1) if count else 1
    return list(forms[::step])[: count or None]


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print, and give the figures."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the benchmarks' folder")
    parser.add_argument("--part", action="append", choices=["grailqa", "webqsp", "pathquestion", "size"])
    parser.add_argument("--quick", type=int, default=0, metavar="N", help="only N forms of each part")
    parser.add_argument("--filter-sample", type=int, default=150, help="forms for the relation filter")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(argv)
    parts = options.part or ["grailqa", "webqsp", "pathquestion", "size"]
    figures: dict[str, Any] = {}
    names = Names(options.data)
    benchmarks = {"grailqa": grailqa(options.data, names), "webqsp": webqsp(options.data, names)}
    fragment = str(options.data / "freebase_fragment")
    for layers in LAYERS:
        graph = open_graph(GraphKnowledge(store=fragment, layers=layers))
        triples = Triples.of_fragment(Path(fragment), layers)
        for name in benchmarks.keys() & set(parts):
            forms = sample(benchmarks[name], options.quick)
            result = measure(forms, graph, triples, names)
            figures[f"{name} {layers}"] = show(f"{name}-fragment, {layers}", result, FLOORS[name, layers])
    if "pathquestion" in parts:
        for depth in (2, 3):
            kb = options.data / f"pathquestion/{depth}H-kb.txt"
            forms = sample(pathquestion(options.data, depth), options.quick)
            result = measure(forms, open_graph(GraphKnowledge(store=str(kb))), Triples.of_file(kb), names)
            figures[f"pathquestion {depth}H"] = show(f"PathQuestion {depth}H", result, None)
    if "size" in parts:
        graph = open_graph(GraphKnowledge(store=fragment))
        for name, forms in benchmarks.items():
            some = sample(forms, options.quick or options.filter_sample)
            figures[f"{name} size"] = listed(f"{name}: size of the BOXes", sizes(some, graph))
            figures[f"{name} filter"] = listed(f"{name}: relation filter",
                                               filtered(some, graph, names, fragment))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return figures


def show(title: str, result: dict[str, Any], floor: int | None) -> dict[str, Any]:
    """Print one table by operator."""
    columns = ["forms", "with_answer", "equal", "equal_with_answer", "gold_on_graph", "gold_over_boxes"]
    print(f"\n{title} ({result['ms_per_boxes']} ms for the BOXes of a question"
          + (f"; floor for gold: {floor}" if floor else "") + ")")
    print(f"{'operator':<12}" + "".join(f"{c:>19}" for c in columns))
    for key, row in result["table"].items():
        print(f"{key:<12}" + "".join(f"{row.get(c, 0):>19}" for c in columns))
    if result["different"] or result["unsupported"]:
        print("different:", ", ".join(result["different"][:20]), result["unsupported"])
    return result


def listed(title: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print rows as a table."""
    print(f"\n{title}\n{pd.DataFrame(found).to_string(index=False)}")
    return found


if __name__ == "__main__":
    main()
