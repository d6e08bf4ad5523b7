"""Do the tests notice faults? Single mutants of the compiler and of the prompt's code, one at a time.

    python scripts/mutants.py [--only sql] [--limit 120]

Each mutant changes one place of a copy of the checkout; the fast tests of its part then run until one fails.
Exit status 1 when more than one mutant in ten survives. Hypothesis draws from a fixed seed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("pandora_train", "tests", "data/sample", "configs", "pyproject.toml")
TESTS = {
    "compile/sql/": ("tests/compile/test_sql_semantics.py", "tests/compile/test_sql_style.py",
                     "tests/compile/test_sql_random.py"),
    "compile/graph/": ("tests/compile/test_graph.py", "tests/compile/test_graph_random.py"),
    "compile/programs/": ("tests/compile/test_programs_over_table.py",
                          "tests/compile/test_programs_over_graph.py", "tests/compile/test_squall.py"),
    "prompt/": ("tests/prompt",),
}
"""Start of a file's path to the tests that are to notice."""
CAUGHT = 0.9
"""Share of the mutants that the tests must notice."""


@dataclass(frozen=True)
class Mutant:
    """One replacement of a text that stands exactly once in ``file``."""

    fault: str
    file: str
    text: str
    instead: str


MUTANTS = (
    Mutant("NOT (a > b) becomes a < b", "compile/sql/conditions.py",
           '">": "<="', '">": "<"'),
    Mutant("NULL passes !=", "compile/sql/conditions.py",
           "    if not values:\n", "    if values:\n"),
    Mutant("NOT IN a set with NULL", "compile/sql/conditions.py",
           ".notna().all()", ".notna().any()"),
    Mutant("LIKE heeds case", "compile/sql/conditions.py",
           '", case=False" if cased and not beyond', '"" if cased and not beyond'),
    Mutant("NULL sorts at the other end", "compile/sql/select.py",
           "missing_first = not down if", "missing_first = down if"),
    Mutant("OFFSET shortens LIMIT", "compile/sql/select.py",
           "else offset + limit}]", "else limit}]"),
    Mutant("ascending for descending", "compile/sql/select.py",
           'bool(node.args.get("desc"))', 'not node.args.get("desc")'),
    Mutant("outer joins are inner", "compile/sql/joins.py",
           '    if source.side:\n        how.append', '    if source.side == "FULL":\n        how.append'),
    Mutant("NULL joins NULL", "compile/sql/joins.py",
           "if a.nullable and b.nullable]", "if a.nullable and not b.nullable]"),
    Mutant("no group of NULL", "compile/sql/aggregates.py",
           '(", dropna=False" if any(c.nullable for c in by) else "")', '""'),
    Mutant("NULLs add up to 0", "compile/sql/aggregates.py",
           "cells.sum(min_count=1)", "cells.sum()"),
    Mutant("COUNT(DISTINCT x) counts x", "compile/sql/values.py",
           'return "nunique", inner', 'return "count", inner'),
    Mutant("integers divide to fractions", "compile/sql/values.py",
           'isinstance(node, exp.Mod) else "//"', 'isinstance(node, exp.Mod) else "/"'),
    Mutant("DISTINCT is dropped", "compile/sql/scope.py",
           "'.drop_duplicates()' if self.distinct", "'' if self.distinct"),
    Mutant("EXCEPT is INTERSECT", "compile/sql/set_operations.py",
           "mask if both else f'~{mask}'", "mask"),
    Mutant("substr counts from 0", "compile/sql/functions.py",
           "first = start - 1 if start > 0", "first = start if start > 0"),
    Mutant("text is no 0 in sums", "compile/sql/types.py",
           "errors='coerce').fillna(0)", "errors='coerce')"),
    Mutant("nothing counted is missing", "compile/sql/nested.py",
           '".fillna(0)" if counts else ""', '""'),
    Mutant("NOT EXISTS is EXISTS", "compile/sql/nested.py",
           "'>' if positive else '=='", "'>'"),
    Mutant("relations walked the other way", "compile/graph/sets.py",
           "(place.column, place.subject) if back else", "(place.column, place.subject) if not back else"),
    Mutant("conditions on one column merge", "compile/graph/sets.py",
           " and not (left.used & right.used)", ""),
    Mutant("ARGMIN is ARGMAX", "compile/graph/sets.py",
           "{'max' if largest else 'min'}", "max"),
    Mutant("a missing date excludes", "compile/graph/sets.py",
           'f"{cells}.isna() | ({mask})"', "mask"),
    Mutant("a year ends on its first day", "compile/graph/sexpr.py",
           '(f"{when}-12-31", when) if year', "(when, when) if year"),
    Mutant("a tested constant passes", "compile/graph/tree.py",
           "if not apart and constant not in constants", "if apart and constant not in constants"),
    Mutant("ORDER BY the other way", "compile/graph/tree.py",
           'order[0].order == "DESC"', 'order[0].order != "DESC"'),
    Mutant("OPTIONAL is required", "compile/graph/frames.py",
           "\", how='left'\" if how == \"left\" else \"\"", '""'),
    Mutant("MINUS keeps what it drops", "compile/graph/frames.py",
           'mask = f"~{left.name}', 'mask = f"{left.name}'),
    Mutant("the next row is the one before", "compile/programs/over_table.py",
           "'+' if forward else '-'", "'-' if forward else '+'"),
    Mutant("an average is a sum", "compile/programs/over_table.py",
           '("average", "mean")', '("average", "sum")'),
    Mutant("head and tail change places", "compile/programs/over_graph.py",
           "(JOIN (R {query", "(JOIN ({query"),
    Mutant("quotes in SQUALL's text", "compile/programs/squall.py",
           """.replace("'", "''")""", ""),
    Mutant("the first block counts", "prompt/reply.py",
           "for b in reversed(blocks)", "for b in blocks"),
    Mutant("a block without a language is none", "prompt/reply.py",
           '_PYTHON = {"", ', "_PYTHON = {"),
    Mutant("half a block is run", "prompt/reply.py",
           'if finish == "length" and not chosen', 'if finish == "stop" and not chosen'),
    Mutant("an empty JSON code is run", "prompt/reply.py",
           "or not code.strip():\n        return ParsedReply(str",
           "or False:\n        return ParsedReply(str"),
    Mutant("lone surrogates stay", "prompt/reply.py",
           '"utf-8", "replace"', '"utf-8", "surrogatepass"'),
    Mutant("the line above the fault", "prompt/feedback.py",
           "lines[error.line - 1]", "lines[error.line - 2]"),
    Mutant("an empty result stands", "prompt/feedback.py",
           "if execution.empty:", "if False:"),
    Mutant("markers in an error message", "prompt/feedback.py",
           "return neutralise(text)", "return text"),
    Mutant("the farthest demonstrations are shown", "prompt/layout.py",
           "self.demonstrations[:shown]", "self.demonstrations[-shown:] if shown else []"),
    Mutant("the nearest demonstration first", "prompt/layout.py",
           "for demonstration in reversed(nearest):", "for demonstration in nearest:"),
    Mutant("a prompt over the budget", "prompt/layout.py",
           "<= config.budget:", "<= config.budget + 10:"),
    Mutant("a schema beyond its share", "prompt/layout.py",
           "whole = text(config.schema_tokens)", "whole = text(10**6)"),
    Mutant("a reply goes back with its thinking", "prompt/layout.py",
           "neutralise(without_thinking(reply))", "neutralise(reply)"),
    Mutant("marks in a reply stand", "prompt/layout.py",
           "neutralise(without_thinking(reply))", "without_thinking(reply)"),
    Mutant("names may spell an instruction's end", "prompt/text.py",
           r"|\[(?=/?INST\])", ""),
    Mutant("settings forget the types", "prompt/layout.py",
           "types=self.types, system_role", "system_role"),
    Mutant("no hint is shown", "prompt/templates/feedback.j2",
           "Hint: {{ hint }}", "Hint."),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the mutants, print what became of each."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only mutants of files whose path holds this")
    parser.add_argument("--limit", type=int, default=180, help="seconds for the tests of one mutant")
    options = parser.parse_args(argv)
    mutants = [m for m in MUTANTS if options.only in m.file]
    with tempfile.TemporaryDirectory(prefix="pandora_mutants_") as folder:
        copy = Path(folder)
        for name in COPIED:
            source, target = ROOT / name, copy / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        for start in sorted({_part(m) for m in mutants}):
            if (status := tests(copy, TESTS[start], options.limit)) != 0:
                print(f"the tests of {start} fail without a mutant (status {status})")
                return 2
        caught = sum(is_caught(copy, mutant, options.limit) for mutant in mutants)
    print(f"{caught} of {len(mutants)} caught")
    return 0 if caught >= CAUGHT * len(mutants) else 1


def _part(mutant: Mutant) -> str:
    return next(start for start in TESTS if mutant.file.startswith(start))


def is_caught(copy: Path, mutant: Mutant, limit: int) -> bool:
    """Plant the mutant, run the tests, take it out again. Whether they caught it: a test failed in time."""
    file = copy / "pandora_train" / mutant.file
    right = file.read_text(encoding="utf-8")
    if right.count(mutant.text) != 1:
        raise SystemExit(f"renew the mutant: {mutant.file} has not one {mutant.text!r}")
    file.write_text(right.replace(mutant.text, mutant.instead), encoding="utf-8")
    start = time.monotonic()
    status = tests(copy, TESTS[_part(mutant)], limit)
    file.write_text(right, encoding="utf-8")
    outcome = {0: "SURVIVED", 1: "caught", None: "NO END"}.get(status, f"BROKEN ({status})")
    print(f"{outcome:10} {time.monotonic() - start:5.0f} s  {mutant.file}: {mutant.fault}", flush=True)
    return status == 1


def tests(copy: Path, paths: Sequence[str], limit: int) -> int | None:
    """pytest's exit status up to the first failure; ``None`` past ``limit`` seconds."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow and not model",
               "-p", "no:cacheprovider", "--hypothesis-seed=1", "--hypothesis-profile=find_only", *paths]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=limit)
        return done.returncode
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    raise SystemExit(main())
