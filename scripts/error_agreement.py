"""Agreement of the error rules with labels given by hand, over evaluation run folders.

    python scripts/error_agreement.py RUN... [--labels FILE] [--sheet FILE] [--json FILE] [--quick]

``--sheet`` writes the failures still to be labelled as a text to read beside the labels file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pandora_train.evaluate.agreement import HandLabel, agreement, answer_id, pick_failures, table
from pandora_train.report.load import RunData, load_runs
from pandora_train.runs import read_jsonl

LABELS = Path(__file__).resolve().parent.parent / "tests" / "evaluate" / "error_labels.jsonl"


def main() -> None:
    """Print the agreement table; write the labelling sheet where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, help="evaluation run folders")
    parser.add_argument("--labels", type=Path, default=LABELS)
    parser.add_argument("--sheet", type=Path, help="write unlabelled failures here")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--quick", action="store_true", help="5 failures a task in the sheet")
    arguments = parser.parse_args()
    runs = load_runs(arguments.runs)
    labels = list(read_jsonl(arguments.labels, HandLabel))
    if arguments.sheet:
        arguments.sheet.write_text(sheet(runs, labels, 5 if arguments.quick else 50), encoding="utf-8")
    diagnoses = {(r.name, i): d for r in runs for i, d in r.diagnoses.items()}
    answers = {(r.name, t.id): answer_id(t) for r in runs for t in r.samples}
    found, stale = agreement(labels, diagnoses, answers)
    print(table(found))
    if stale:
        print(f"\n{stale} of {len(labels)} labels are about answers that are not in these runs")
    if arguments.json:
        total, decided, equal, kappa = found.row()
        figures = {"labels": total, "decided": decided, "equal": equal, "kappa": kappa, "stale": stale}
        arguments.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


def sheet(runs: list[RunData], labels: list[HandLabel], per_task: int) -> str:
    """The failures without a label, in the words that decide: question, schema, code, execution, gold."""
    done = {(label.run, label.id, label.answer) for label in labels}
    by_name = {r.name: r for r in runs}
    parts = []
    for number, (name, t) in enumerate(pick_failures({r.name: r.samples for r in runs}, per_task)):
        if (name, t.id, answer_id(t)) in done:
            continue
        last = t.steps[-1] if t.steps else None
        ran = last.execution if last else None
        ended = ran.model_dump_json(exclude_defaults=True)[:600] if ran else t.status
        gold = t.gold_rows if t.gold_rows is not None else t.gold.answers
        parts.append("\n".join([
            f"=== {number} {name} {t.benchmark} {t.id} {answer_id(t)}", t.question,
            by_name[name].schema(t)[:1500], f"--- code\n{last.code if last else ''}",
            f"--- ended {last.problem if last else ''}\n{ended}", f"--- answer {str(t.rows)[:400]}",
            f"--- gold {str(gold)[:400]}", f"--- program {t.gold.program}"]))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
