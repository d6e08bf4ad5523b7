"""Answer sets of knowledge-graph questions: GrailQA, WebQSP and PathQuestion.

An answer's items are its cells, row by row, without missing cells. Items compare as exact strings.
"""

from __future__ import annotations

from collections.abc import Sequence


def set_f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """GrailQA's official F1 over sets: 0 without an item in common, also when both are empty."""
    wanted, found = set(gold), set(predicted)
    common = len(wanted & found)
    return 2 * common / (len(wanted) + len(found)) if common else 0.0


def prf(gold: Sequence[str], predicted: Sequence[str]) -> tuple[float, float, float]:
    """WebQSP's official precision, recall and F1: over lists, duplicates kept.

    Both empty: 1, 1, 1; only gold empty: 0, 1, 0; only the prediction empty: 1, 0, 0.
    """
    if not gold or not predicted:
        return float(not predicted), float(not gold), float(not gold and not predicted)
    wanted, found = set(gold), set(predicted)
    hits = sum(item in found for item in gold)
    misses = sum(item not in wanted for item in predicted)
    if not hits:
        return 0.0, 0.0, 0.0
    precision, recall = hits / (hits + misses), hits / len(gold)
    return precision, recall, 2 * precision * recall / (precision + recall)


def best_prf(parses: Sequence[Sequence[str]], predicted: Sequence[str]) -> tuple[float, float, float]:
    """The first best F1 over the parses' answers, with its precision and recall: (precision, recall, f1)."""
    return max((prf(parse, predicted) for parse in parses), key=lambda scores: scores[2])


def hits_at_1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Whether the first predicted item is in gold."""
    return float(bool(predicted) and predicted[0] in set(gold))


def hit(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Whether any predicted item is in gold."""
    return float(not set(gold).isdisjoint(predicted))
