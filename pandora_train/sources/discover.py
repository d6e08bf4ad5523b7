"""``pandora data``: what is found where, where each original is to be had, and a checksum manifest.

Nothing is downloaded: the benchmarks' own sites ask for their terms to be accepted there.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pandora_train.errors import UserError
from pandora_train.runs import write_text
from pandora_train.sources import DataConfig, read
from pandora_train.sources.reading import MissingFile, lines

ORIGINS = {
    "spider": "https://yale-lily.github.io/spider (CC BY-SA 4.0): unzip spider_data.zip; the folder with "
    "tables.json, dev.json and database/",
    "wikitq": "https://github.com/ppasupat/WikiTableQuestions/releases, 1.0.2 (CC BY-SA 4.0): unzip the "
    "compact release; the folder with data/ and csv/",
    "grailqa": "https://dki-lab.github.io/GrailQA (terms on the page): unzip GrailQA_v1.0.zip; the folder "
    "with grailqa_v1.0_dev.json. Its questions need Freebase: a SPARQL endpoint "
    "(https://github.com/dki-lab/Freebase-Setup) or a fragment as store",
    "webqsp": "https://www.microsoft.com/download/details.aspx?id=52763 (terms on the page): unzip; the "
    "folder with data/WebQSP.train.json. Its questions need Freebase, as GrailQA's do",
    "pathquestion": "https://github.com/zmtkeke/IRN (no licence stated): the folder PathQuestion with "
    "PQ-2H.txt and 2H-kb.txt",
}
_MARKERS = {
    "spider": ["tables.json"],
    "wikitq": ["data/random-split-1-dev.tsv", "data/training.tsv", "data/pristine-unseen-tables.tsv"],
    "grailqa": ["grailqa_v1.0_train.json", "grailqa_v1.0_dev.json"],
    "webqsp": ["WebQSP.train.json", "WebQSP.test.json", "data/WebQSP.train.json", "data/WebQSP.test.json",
               "webqsp_test.json"],
    "pathquestion": ["PQ-2H.txt", "PQ-3H.txt"],
}
_GRAPHS = ["triples.tsv"]


@dataclass(frozen=True)
class Survey:
    """One benchmark folder: usable questions per split, and why others are not usable."""

    benchmark: str
    path: Path
    counts: dict[str, int] = field(default_factory=dict)
    unusable: dict[str, Counter[str]] = field(default_factory=dict)
    """Split to reason to number of questions."""
    problems: dict[str, str] = field(default_factory=dict)
    """Split to what keeps it from being read at all."""


def discover(root: Path) -> list[Survey]:
    """The benchmark folders that ``root`` is or holds, each split read in full.

    Raises :class:`UserError` when ``root`` is no folder.
    """
    if not root.is_dir():
        raise UserError(f"no folder {root}")
    folders = [root, *sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))]
    surveys = []
    for benchmark, markers in _MARKERS.items():
        surveys += [_survey(benchmark, f) for f in folders if any((f / m).is_file() for m in markers)]
    return surveys


def _survey(benchmark: str, path: Path) -> Survey:
    survey = Survey(benchmark, path)
    for split in ("train", "dev", "test"):
        config = DataConfig.model_validate({"benchmark": benchmark, "path": str(path), "split": split})
        try:
            loaded = read(config)
        except MissingFile:
            continue
        except UserError as e:
            survey.problems[split] = str(e)
            continue
        survey.counts[split] = len(loaded.examples)
        if loaded.unusable:
            survey.unusable[split] = Counter(loaded.unusable.values())
    return survey


def graphs(root: Path) -> list[Path]:
    """Graph stores in the fragment's layout that ``root`` is or holds."""
    folders = [root, *sorted(p for p in root.iterdir() if p.is_dir())]
    return [f for f in folders if all((f / name).is_file() for name in _GRAPHS)]


def show_data(root: Path, manifest: Path | None = None) -> None:
    """Print what :func:`discover` finds under ``root`` and where the rest is to be had.

    With ``manifest`` the checksums of all files are written there, or verified if it exists already; raises
    :class:`UserError` when they differ.
    """
    console = Console(highlight=False)
    say = partial(console.print, markup=False, soft_wrap=True)
    surveys = discover(root)
    table = Table("benchmark", "folder", "train", "dev", "test", "not usable")
    for f in surveys:
        cells = [str(f.counts.get(s, "–")) for s in ("train", "dev", "test")]
        left_out = sum(reasons.total() for reasons in f.unusable.values())
        table.add_row(f.benchmark, escape(str(f.path)), *cells, str(left_out))
    for path in graphs(root):
        triples = sum(1 for _ in lines(path / "triples.tsv")) - 1
        table.add_row("graph", escape(str(path)), "", "", "", f"{triples} triples")
    console.print(table)
    for f in surveys:
        for split, reasons in f.unusable.items():
            for reason, count in reasons.most_common():
                say(f"  {f.benchmark} {split}: {count} not usable: {reason}")
        for split, problem in f.problems.items():
            say(f"  {f.benchmark} {split}: {problem}")
    say("Originals (nothing is downloaded for you):")
    for benchmark, origin in ORIGINS.items():
        say(f"  {benchmark}: {origin}")
    if manifest is not None:
        say(check_manifest(root, manifest))


def check_manifest(root: Path, manifest: Path) -> str:
    """Write ``manifest`` for the files of ``root``, or verify it if it exists; says which was done.

    Lines are those of ``sha256sum``, relative to ``root``. Raises :class:`UserError` naming files that
    changed, are gone, or are new.
    """
    sums = {p: digest for p, digest in _checksums(root) if (root / p).resolve() != manifest.resolve()}
    if not manifest.exists():
        write_text(manifest, "".join(f"{digest}  {path}\n" for path, digest in sums.items()))
        return f"{manifest}: checksums of {len(sums)} files written"
    known: dict[str, str] = {}
    for number, line in lines(manifest):
        digest, gap, path = line.partition("  ")
        if not gap:
            raise UserError(f"{manifest}, line {number}: not a checksum, two spaces and a path")
        known[path] = digest
    wrong = [f"{p} changed" for p in sums if p in known and known[p] != sums[p]]
    wrong += [f"{p} is gone" for p in known if p not in sums]
    wrong += [f"{p} is new" for p in sums if p not in known]
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise UserError(f"{manifest}: {', '.join(wrong[:5])}{more}; remove the manifest to write a new one")
    return f"{manifest}: all {len(sums)} files as recorded"


def _checksums(root: Path) -> list[tuple[str, str]]:
    """Relative path and SHA-256 of each file under ``root``, hidden ones left out, sorted."""
    sums = []
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        relative = path.relative_to(root)
        if not any(part.startswith(".") for part in relative.parts):
            with path.open("rb") as f:
                sums.append((relative.as_posix(), hashlib.file_digest(f, "sha256").hexdigest()))
    return sums
