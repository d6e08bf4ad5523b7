"""Our denotation verdict beside a plain, independent reading of the official ``evaluator.py`` v1.0.2."""

from __future__ import annotations

import math
import random
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pandora_train.metrics.wikitq import denotation_match, normalize

WIKITQ = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "wikitq"


# --- the oracle: character by character, no regular expressions -----------------------------------------


def plain(text: str) -> str:
    kept = [c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c) != "Mn"]
    text = "".join({**dict.fromkeys("‘’´`", "'"), **dict.fromkeys("“”", '"'), **dict.fromkeys("‐‑‒–—−", "-")}
                   .get(c, c) for c in kept)
    while True:
        before = text
        text = without_tail(text.strip(), citation_end)
        text = without_tail(text.strip(), bracket_end, first=1)
        text = text.strip()
        if len(text) >= 2 and text[0] == text[-1] == '"' and '"' not in text[1:-1]:
            text = text[1:-1]
        if text == before:
            break
    text = text[:-1] if text[-1:] == "." else text
    squeezed = ""
    for c in text:
        squeezed += " " if c.isspace() and not squeezed.endswith(" ") else "" if c.isspace() else c
    return squeezed.lower().strip()


def without_tail(text: str, end_of: object, first: int = 0) -> str:
    """Cut the longest tail made of pieces; ``end_of(text, i)`` is where a piece starting at i ends, or 0."""
    for start in range(first, len(text)):
        at = start
        while at < len(text) and (to := end_of(text, at)):  # type: ignore[operator]
            at = to
        if at == len(text):
            return text[:start]
    return text


def citation_end(text: str, at: int) -> int:
    if text[at] in "•♦†‡*#+":
        return at + 1
    close = text.find("]", at)
    if text[at] != "[" or close < 0:
        return 0
    return close + 1 if at > 0 or (close > 1 and text[1:close].isdecimal()) else 0


def bracket_end(text: str, at: int) -> int:
    close = text.find(")", at)
    return close + 1 if text[at:at + 2] == " (" and close > 0 else 0


def typed(text: str, canon: str = "") -> tuple[str, object, str]:
    """(kind, payload, normalised string)."""
    source, normal = canon or text, plain(text)
    if "_" not in source:
        for kind in (int, float):
            try:
                number = kind(source)
            except ValueError:
                continue
            if math.isfinite(number):
                return "number", int(number) if abs(number - round(number)) < 1e-6 else number, normal
        parts = source.lower().split("-")
        if len(parts) == 3:
            unknown = [{"xx", "xxxx"}, {"xx"}, {"xx"}]
            try:
                year, month, day = (-1 if p in u else int(p) for p, u in zip(parts, unknown, strict=True))
            except ValueError:
                return "string", normal, normal
            if month in (-1, *range(1, 13)) and day in (-1, *range(1, 32)) and (year, month, day) != (-1, -1, -1):
                return ("number", year, normal) if month == day == -1 else ("date", (year, month, day), normal)
    return "string", normal, normal


def oracle(gold: list[str], predicted: list[str], canon: list[str] | None = None) -> bool:
    pairs = list(zip(gold, canon or [""] * len(gold), strict=True))
    wanted = {typed(g, c)[:2]: typed(g, c) for g, c in reversed(pairs)}  # a set keeps the first of equals
    found = {typed(p)[:2]: typed(p) for p in reversed(predicted)}

    def match(a: tuple[str, object, str], b: tuple[str, object, str]) -> bool:
        if a[2] == b[2]:
            return True
        if a[0] == b[0] == "number":
            return abs(a[1] - b[1]) < 1e-6  # type: ignore[operator]
        return a[0] == b[0] == "date" and a[1] == b[1]

    return len(wanted) == len(found) and all(any(match(w, f) for f in found.values()) for w in wanted.values())


# --- pairs --------------------------------------------------------------------------------------------


def questions() -> list[tuple[list[str], str]]:
    lines = (WIKITQ / "data" / "random-split-1-dev.tsv").read_text(encoding="utf-8").split("\n")[1:]
    rows = [line.split("\t") for line in lines if line]
    return [(row[3].split("|"), row[2]) for row in rows]


def cells(context: str) -> list[str]:
    file = (WIKITQ / context).with_suffix(".tsv")
    return [c for line in file.read_text(encoding="utf-8").split("\n")[1:4] for c in line.split("\t")]


def answers(gold: list[str], random_: random.Random, others: list[str]) -> Iterator[list[str]]:
    yield gold
    yield [*gold, *gold]
    yield [g.upper() for g in gold]
    yield [f'"{g}"' for g in gold]
    yield [f"{g} (details)[1]" for g in gold]
    yield [f"{g}." for g in gold]
    yield [g.replace(",", "") for g in gold]
    yield [f"{g}.0" for g in gold]
    yield [", ".join(gold)]
    yield gold[:-1]
    yield [*gold, random_.choice(others)]
    yield [random_.choice(others)]


@pytest.mark.skipif(not WIKITQ.is_dir(), reason="the WikiTableQuestions data folder is not here")
def test_real_questions_get_the_oracle_verdict() -> None:
    random_ = random.Random(3)
    pairs, right, differences = 0, 0, []
    for gold, context in random_.sample(questions(), 900):
        for predicted in answers(gold, random_, cells(context)):
            expected = oracle(gold, predicted)
            pairs, right = pairs + 1, right + expected
            if denotation_match(gold, predicted) != expected:
                differences.append((gold, predicted))
    assert not differences
    print(f"wikitq pairs {pairs}, right {right}")
    assert pairs > 2000
    assert 0.2 < right / pairs < 0.8


@pytest.mark.skipif(not WIKITQ.is_dir(), reason="the WikiTableQuestions data folder is not here")
def test_gold_as_prediction_is_right_on_every_question() -> None:
    assert [gold for gold, _ in questions() if not denotation_match(gold, gold)] == []


MESSY = st.text(alphabet='ab1 2[]()"\'.•*+#†‡-–—,%éÉxX’“”´\t\u00a0²_', max_size=10)
ITEMS = st.one_of(MESSY, st.sampled_from([
    "C#", "C++", "c", "[1]", "", "1,000", "50%", "1_000", "1000", "1000.0", "999.9999999", "1e3", "2.9999999", "3",
    "inf", "nan", "2008-xx-xx", "2008", "xx-05-01", "xxxx-05-01", "2008-13-01", "2008-1-1", "2008-01-01",
    "xx-xx-xx", "0.1", "0.1000001", "-5", "+5", " 5 ", "٣"]))


@settings(max_examples=400, deadline=None)
@given(MESSY)
def test_any_string_is_normalised_as_the_oracle_does(text: str) -> None:
    assert normalize(text) == plain(text)


@settings(max_examples=500, deadline=None)
@given(st.lists(ITEMS, max_size=3), st.lists(ITEMS, max_size=3), st.booleans())
def test_generated_pairs_get_the_oracle_verdict(gold: list[str], other: list[str], near: bool) -> None:
    predicted = [*gold[::-1], *other[:1]] if near else other
    assert denotation_match(gold, predicted) == oracle(gold, predicted)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(ITEMS, ITEMS), max_size=3), st.lists(ITEMS, max_size=3))
def test_tagged_gold_is_typed_by_its_canonical_form(gold: list[tuple[str, str]], predicted: list[str]) -> None:
    texts, canon = [g for g, _ in gold], [c for _, c in gold]
    if all(texts):
        predicted = predicted or canon
        assert denotation_match(texts, predicted, canon) == oracle(texts, predicted, canon)


# --- the smallest example of each rule ------------------------------------------------------------------


@pytest.mark.parametrize(("gold", "predicted", "right"), [
    (["Bangkok, Thailand"], ["Bangkok", "Thailand"], False),  # commas split nothing
    (["3"], ["3.0"], True),
    (["1,000"], ["1000"], False),  # not a number with a comma
    (["50%"], ["50"], False),
    (["1000"], ["1_000"], False),
    (["C#"], ["C++"], True),
    (["a", "a"], ["A"], True),  # sets
    (["3"], ["2.9999999"], False),  # truncated, officially
    (["0.5"], ["0.5000001"], True),
    (["2008-xx-xx"], ["2008"], True),  # a year alone is a number
    (["xx-05-01"], ["xxxx-5-1"], True),
    (["São Paulo"], ["sao paulo"], True),
    (["a"], [], False),
    (["x"], ["x", "y"], False),
])
def test_rule(gold: list[str], predicted: list[str], right: bool) -> None:
    assert denotation_match(gold, predicted) is right
