"""Why an answer is wrong: the paper's six kinds (section 5.10), found by rules, with what the rule saw.

The kinds are root causes, tried in this order: the code named a BOX or field that is not there; it did not
run to an answer; the answer is right but in another form; BOXes or fields of the gold program are missing;
the code computes another kind of answer than asked for (query intent); what remains beside a gold program
is reasoning logic. Where no rule reaches, the kind is ``unknown``; it is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from pandora_train.errors import did_you_mean
from pandora_train.evaluate.programs import (
    BoxFields,
    Profile,
    code_profile,
    gold_profile,
    normal,
    parses,
    read_schema,
)
from pandora_train.evaluate.stats import primary_of
from pandora_train.evaluate.values import compare_values, number
from pandora_train.records import Execution, Record, Step, Trajectory

if TYPE_CHECKING:  # pandas takes a second to import, and reports need none
    from pandora_train.box.box import BoxSet

ErrorKind = Literal["execution", "box", "field", "logic", "intent", "format", "unknown"]
KINDS: dict[ErrorKind, str] = {
    "execution": "execution failure",
    "box": "BOX error",
    "field": "field error",
    "logic": "reasoning logic",
    "intent": "query intent",
    "format": "output format",
    "unknown": "unknown",
}


class Diagnosis(Record):
    """The kind of one sample's error."""

    id: str
    kind: ErrorKind
    rule: str
    """Short name of the rule that decided."""
    evidence: tuple[str, ...] = ()
    """What the rule saw, one sentence each."""


def primary_score(trajectory: Trajectory) -> float | None:
    """The sample's score under its benchmark's main metric; ``None`` when it was never scored."""
    name = primary_of(trajectory.benchmark, [trajectory])
    return trajectory.scores.get(name)


def diagnose(trajectory: Trajectory, schema: str, boxes: BoxSet | None = None,
             reference: str = "") -> Diagnosis | None:
    """The error kind of one sample; ``None`` when it is fully right or was not scored.

    ``schema`` is the BOX schema text of its prompt. With ``boxes`` the values are looked at too, and
    ``reference`` may hold the gold program as pandas code; both decide more (see ``explain.py``).
    """
    score = primary_score(trajectory)
    if trajectory.ending != "answered" or score is None or score >= 1:
        return None
    kind, rule, evidence = _decide(trajectory, read_schema(schema), boxes, reference)
    return Diagnosis(id=trajectory.id, kind=kind, rule=rule, evidence=tuple(evidence))


Ruling = tuple[ErrorKind, str, list[str]]


def _decide(t: Trajectory, schema: BoxFields, boxes: BoxSet | None, reference: str) -> Ruling:
    if not t.steps:
        return "execution", "nothing ran", ["the prompt did not fit, so that no code was written"]
    last = t.steps[-1]
    if last.refusal:
        return "execution", "refused", [f"the model or its provider refused: {last.refusal}"]
    if last.execution is None:
        return "execution", "unusable reply", [f"the reply could not be run: {last.problem}"]
    made = re.findall(r"^\s*(\w+)\s*=\s*pd\.DataFrame\((.*)", last.code, re.MULTILINE)
    copied = sorted({name for name, body in made if name in schema or "[...]" in body})
    if copied:
        return "box", "BOX rewritten", [f"the code writes {', '.join(copied)} anew; the BOXes are not read"]
    if last.execution.outcome != "result":
        return _failed(t, last, last.execution, schema)
    ruling = _unread(last, schema) or _form(t) or _against_gold(t, last, schema, reference)
    ruling = ruling or _by_values(t, last, schema, boxes) or _by_answer(t)
    return ruling or ("unknown", "no rule", ["neither code nor answer decides between the kinds"])


def _unread(step: Step, schema: BoxFields) -> Ruling | None:
    if not schema or not parses(step.code) or code_profile(step.code, schema).boxes:
        return None
    return "box", "no BOX read", ["the code uses none of the BOXes"]


# --- code that did not run to an answer -----------------------------------------------------------------

_MISSING = re.compile(r"has no attribute '(\w+)'|name '(\w+)' is not defined")
_NOT_THERE = re.compile(r"not in index|not found in axis|not in the \[?columns|are in the \[columns\]")


def _failed(t: Trajectory, step: Step, execution: Execution, schema: BoxFields) -> Ruling:
    error = execution.error
    if error is None:
        return "execution", execution.outcome, [f"the run ended by {execution.outcome.replace('_', ' ')}"]
    seen = [f"{error.type}: {error.message}" + (f" (line {error.line})" if error.line else "")]
    if re.search(r"\bread_(csv|excel|sql|table|json|parquet)\b", step.code) and (
            error.type in ("FileNotFoundError", "PermissionError") or "read_" in error.message):
        return "box", "reads a file", [*seen, "the code reads a file where the BOXes are loaded already"]
    missing = _MISSING.search(error.message)
    if error.type == "NameError" and missing and missing[2] and _meant_as_box(missing[2], step.code, schema):
        known = ", ".join(schema) or "none"
        return "box", "invented BOX", [*seen, f"'{missing[2]}' is no BOX; the BOXes are {known}"]
    unread = _unread(step, schema)
    if unread:
        return unread
    field = _missing_field(error.type, error.message, step.code)
    if field:
        homes = [box for box, names in schema.items() if normal(field) in {normal(n) for n in names}]
        where = f"it is a field of {', '.join(homes)}" if homes else "no BOX has such a field"
        needed = set(homes) & _gold_boxes(t, schema) if t.gold.program else set(homes)
        if needed and not {normal(b) for b in needed} & code_profile(step.code, schema).boxes:
            return "box", "field of an unread BOX", [*seen, f"{where}, which the code does not read"]
        return "field", "missing field", [*seen, f"'{field}' is not in the frame it is asked of; {where}"]
    return "execution", error.type, seen


def _gold_boxes(t: Trajectory, schema: BoxFields) -> set[str]:
    """The BOXes that the gold program reads, by the names of the schema."""
    gold = gold_profile(t.gold) or Profile()
    if t.gold.language == "sql":
        return {box for box in schema if normal(box) in gold.boxes}
    return {box for relation in gold.fields for box, _ in relation_homes(relation, schema)}


def _meant_as_box(name: str, code: str, schema: BoxFields) -> bool:
    """Whether the code uses ``name`` as a frame, never sets it, and a BOX has nearly that name."""
    used = re.search(rf"\b{name}\s*[\[.]|merge\([^)]*\b{name}\b|concat\([^)]*\b{name}\b", code)
    made = re.search(rf"^\s*{name}\s*=[^=]|\bfor {name}\b|def {name}\b", code, re.MULTILINE)
    similar = did_you_mean(name.lower(), [box.lower() for box in schema])
    return bool(used) and not made and bool(similar)


def _missing_field(kind: str, message: str, code: str) -> str:
    """The field that an exception says is missing, or an empty string."""
    if kind == "KeyError" or _NOT_THERE.search(message):
        quoted = re.findall(r"'([^']+)'", message) or re.findall(r"\"([^\"]+)\"", message)
        return quoted[0] if quoted else ""
    if kind == "UndefinedVariableError":
        match = re.search(r"name '([^']+)' is not defined", message)
        return match[1] if match else ""
    match = re.search(r"'DataFrame\w*' object has no attribute '(\w+)'", message)
    if kind == "AttributeError" and match and not re.search(rf"\.{match[1]}\s*\(", code):
        return match[1]
    return ""


# --- answers that are right in another form -------------------------------------------------------------


def _form(t: Trajectory) -> Ruling | None:
    if t.rows is None:
        return None
    for gold in _gold_tables(t):
        how = compare_values(gold, t.rows)
        if how and how.startswith("repeated"):
            return "logic", "distinct", [f"the values are gold's, {how}"]
        if how:
            return "format", how.split(":")[0], [f"the answer is gold's, in another form: {how}"]
    return None


def _gold_tables(t: Trajectory) -> Iterable[tuple[tuple[str | None, ...], ...]]:
    if t.gold_rows is not None:
        yield t.gold_rows
    for answers in (t.gold.answers, *t.gold.parses):
        if answers:
            yield tuple((a,) for a in answers)


# --- code beside the gold program -----------------------------------------------------------------------


def _against_gold(t: Trajectory, step: Step, schema: BoxFields, reference: str) -> Ruling | None:
    gold = gold_profile(t.gold)
    if gold is None or not schema:
        return None
    code = code_profile(step.code, schema)
    if t.gold.language == "sql":
        return _against_names(t, gold, code, schema)
    ruling = _against_relations(t, gold, code, schema)
    if ruling is None and reference:
        ruling = _against_names(t, code_profile(reference, schema), code, schema)
    return ruling


def _against_names(t: Trajectory, gold: Profile, code: Profile, schema: BoxFields) -> Ruling:
    """Both sides name BOXes and fields alike; SQL's double quotes may hold values, which are no fields."""
    known = {normal(f) for fields in schema.values() for f in fields}
    missing = sorted((gold.boxes & {normal(b) for b in schema}) - code.boxes)
    if missing:
        return "box", "missing BOX", [f"gold reads {', '.join(missing)}, the code does not"]
    lacking = sorted((gold.fields & known) - code.fields)
    if lacking:
        return "field", "missing field", [f"gold uses {', '.join(lacking)}, the code does not"]
    return _intent(t, gold, code) or _logic(t, gold)


def _against_relations(t: Trajectory, gold: Profile, code: Profile, schema: BoxFields) -> Ruling | None:
    unplaced: list[str] = []
    for relation in sorted(gold.fields):
        homes = relation_homes(relation, schema)
        if not homes:
            unplaced.append(relation)
        elif not any(normal(box) in code.boxes for box, _ in homes):
            names = ", ".join(box for box, _ in homes)
            return "box", "missing BOX", [f"gold follows {relation} of {names}, which the code does not read"]
        elif not any(normal(field) in code.fields for _, field in homes):
            return "field", "missing field", [f"gold follows {relation}; the code uses no field for it"]
    if unplaced:
        return None  # the relation has another name in the BOXes, or was not extracted
    return _intent(t, gold, code) or _logic(t, gold)


def relation_homes(relation: str, schema: BoxFields) -> list[tuple[str, str]]:
    """(BOX, field) pairs that hold ``relation``: a field of its last words in a BOX of its type."""
    words = relation.split(".")
    tails = {normal("_".join(words[-n:])) for n in range(1, len(words) + 1)}
    kind = normal(words[-2]) if len(words) > 1 else ""
    return [(box, f) for box, names in schema.items() for f in names if normal(f) in tails
            and (not kind or re.search(rf"(^|_){kind}(_|$)", normal(box)))]


def _intent(t: Trajectory, gold: Profile, code: Profile) -> Ruling | None:
    """BOXes and fields are right, but the code asks for another kind of answer."""
    lacking = gold.aggregates - code.aggregates
    if lacking:
        return "intent", "aggregate", [f"gold computes {', '.join(sorted(lacking))}, the code does not"]
    extra = code.aggregates - gold.aggregates - {"count"}
    if extra:
        return "intent", "aggregate", [f"the code computes {', '.join(sorted(extra))}, gold does not"]
    width = len(t.rows[0]) if t.rows else None
    if gold.columns and width and gold.columns != width:
        return "intent", "columns", [f"gold answers with {gold.columns} columns, the code with {width}"]
    return None


def _logic(t: Trajectory, gold: Profile) -> Ruling:
    names = ", ".join(sorted(gold.fields)) or "none"
    seen = [f"BOXes, fields ({names}) and kind of answer are gold's; conditions, joins or order differ"]
    last = t.steps[-1].execution
    if t.status == "empty" and last and last.hint:
        seen.append(last.hint)
    return "logic", "same fields", seen


# --- no gold program ------------------------------------------------------------------------------------


def _by_values(t: Trajectory, step: Step, schema: BoxFields, boxes: BoxSet | None) -> Ruling | None:
    """Where gold's values lie in the BOXes: does the code use one of those fields?"""
    answers = [a for a in t.gold.answers or () if a.strip()]
    if boxes is None or not answers:
        return None
    wanted = {a.strip().lower() for a in answers}
    homes = [(b.name, str(c)) for b in boxes for c in b.frame.columns
             if wanted <= {str(v).strip().lower() for v in b.frame[c].dropna()}]
    if not homes:
        return None
    code = code_profile(step.code, schema)
    named = ", ".join(f"{box}.{field}" for box, field in homes[:4])
    if any(normal(field) in code.fields for _, field in homes):
        return None
    if all(number(a) is not None for a in answers):
        return None  # a number stands in some column by chance
    return "field", "answer's field", [f"gold's values lie in {named}; the code uses none of these fields"]


def _by_answer(t: Trajectory) -> Ruling | None:
    """What answer and gold have in common."""
    gold = [a for a in t.gold.answers or () if a.strip()]
    answer = [c for row in t.rows or () for c in row if c is not None]
    if gold and t.status == "empty":
        hint = t.steps[-1].execution.hint if t.steps and t.steps[-1].execution else ""
        return ("logic", "no such value", [hint]) if "no such value" in hint else None
    if not gold or not answer:
        return None
    one_number = len(gold) == 1 and number(gold[0]) is not None
    if one_number and answer == ["0"] and re.search(r"==|\.isin\(|\.contains\(", t.steps[-1].code):
        return "logic", "no row is left", ["the code counts nothing: no row meets its conditions"]
    if one_number and len(answer) > 1:
        return "intent", "list for a number", [f"gold is one number, the answer lists {len(answer)} values"]
    shared = {g.strip().lower() for g in gold} & {a.strip().lower() for a in answer}
    if shared:
        return "logic", "part of the answer", [
            f"{len(shared)} of gold's {len(gold)} values are among the {len(answer)} of the answer"]
    kinds = [{number(v) is not None for v in values} for values in (gold, answer)]
    if kinds[0] != kinds[1] and all(len(k) == 1 for k in kinds):
        words = ("a number", "text") if kinds[0] == {True} else ("text", "a number")
        return "intent", "kind of answer", [f"gold is {words[0]}, the answer is {words[1]}"]
    return None
