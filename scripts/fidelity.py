"""How faithful BOXes and label compiler are: gold queries as pandas over the BOXes against the gold answers.

    python scripts/fidelity.py --benchmark spider [--benchmark grailqa …] [--data ../shared/data] [--quick]

Without ``--benchmark`` all are measured. ``--quick`` takes a sample of each that ends within a minute.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal


def spider(data: Path, quick: bool, workers: int) -> Any:
    """Both splits, each in full or as a sample."""
    import fidelity_spider

    found = []
    splits: tuple[Literal["train", "dev"], ...] = ("train", "dev")
    for split in splits:
        figures = fidelity_spider.measure(data, split, 60 if quick else 0, workers)
        fidelity_spider.show(figures)
        found.append(figures)
    return found


def graph(part: str) -> Callable[[Path, bool, int], Any]:
    """One of the graph benchmarks."""
    def measure(data: Path, quick: bool, workers: int) -> Any:
        import fidelity_graph

        sample = ["--quick", "40", "--filter-sample", "20"] if quick else []
        return fidelity_graph.main(["--data", str(data), "--part", part, *sample])

    return measure


def wikitq(data: Path, quick: bool, workers: int) -> Any:
    """Step programs over the training tables."""
    import fidelity_wikitq

    figures = fidelity_wikitq.measure(data, 150 if quick else 0, workers)
    fidelity_wikitq.show(figures)
    return figures


BENCHMARKS: dict[str, Callable[[Path, bool, int], Any]] = {
    "spider": spider, "grailqa": graph("grailqa"), "webqsp": graph("webqsp"),
    "pathquestion": graph("pathquestion"), "wikitq": wikitq,
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", action="append", choices=list(BENCHMARKS), help="default: all")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the benchmarks")
    parser.add_argument("--workers", type=int, default=2, help="labels in flight")
    parser.add_argument("--quick", action="store_true", help="a sample of each, under a minute")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args(argv)
    figures = {name: BENCHMARKS[name](arguments.data, arguments.quick, arguments.workers)
               for name in arguments.benchmark or BENCHMARKS}
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
