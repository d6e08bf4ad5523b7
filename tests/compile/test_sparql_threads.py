"""SPARQL labels compile from several threads at once, as `annotate` does."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pandora_train.box import boxes_for
from pandora_train.compile import compile_label
from pandora_train.sources import DataConfig, load

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample" / "webqsp"


def test_labels_compile_the_same_from_four_threads() -> None:
    examples = load(DataConfig(benchmark="webqsp", path=str(SAMPLE), split="train"))
    alone = [compile_label(e, boxes_for(e.knowledge)).code for e in examples]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            together = list(pool.map(lambda e: compile_label(e, boxes_for(e.knowledge)).code, examples))
            assert together == alone
