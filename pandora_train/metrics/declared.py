"""What our metrics do otherwise than the official scripts, in words: printed beside every score."""

from __future__ import annotations

DEVIATIONS: dict[str, tuple[str, ...]] = {
    "spider": (
        "ex: gold keeps its DISTINCT (the official script strips it by default; keep_distinct there)",
        "ex: an answer's text is read by the gold cell's type; numbers agree within relative 1e-9, whole "
        "numbers exactly, True is 1; NULL is only a missing cell; [[]] is empty",
        "ex: where SQL leaves the result open (ties in ORDER BY or at a limit, LIMIT without ORDER BY, bare "
        "columns) any result it allows is right; ex_strict takes only the stored one, as officially",
    ),
    "wikitq": (
        "da: a missing cell is no item; numbers hold no underscores (official on Python 2)",
    ),
    "grailqa": (
        "em: node functions are compared every time (the official matcher drops them while comparing)",
        "f1: an answer without a logical form can't earn 1 by its form, as the official f1 allows",
        "hits@1: the first answer is in gold; not in the official script; a missing cell is no item",
    ),
    "webqsp": (
        "hits@1: the first answer is in gold; hit: any answer is; neither is in the official script; gold is "
        "the union of the parses; both are 0 where gold is empty; a missing cell is no item",
    ),
    "pathquestion": (
        "f1 over the answer set; hits@1: the first answer is in gold; hit: any answer is",
    ),
    "files": ("da: WikiTableQuestions' rules, or ex where gold is SQL",),
}
