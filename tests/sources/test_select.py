"""Parts and limits: by hash of the ids, disjoint, nested, the same everywhere."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pandora_train.errors import UserError
from pandora_train.records import Example, TableKnowledge
from pandora_train.sources.select import DataConfig, digest, select, span


def examples(count: int) -> list[Example]:
    table = TableKnowledge(path="t.csv")
    return [
        Example(id=f"files:{n}", benchmark="files", split="dev", question="?", knowledge=table, group="g")
        for n in range(count)
    ]


def config(**settings: object) -> DataConfig:
    return DataConfig.model_validate({"benchmark": "files", "path": "q.jsonl", **settings})


@given(st.integers(1, 12))
def test_parts_are_disjoint_and_leave_nothing_out(count: int) -> None:
    all_ids = {e.id for e in examples(60)}
    parts = [{e.id for e in select(examples(60), config(part=f"{n}/{count}"))} for n in range(1, count + 1)]
    assert set().union(*parts) == all_ids
    assert sum(map(len, parts)) == len(all_ids)


def test_a_range_of_parts_is_the_union_of_its_parts() -> None:
    wide = [e.id for e in select(examples(50), config(part="2-4/5"))]
    single = {e.id for n in (2, 3, 4) for e in select(examples(50), config(part=f"{n}/5"))}
    assert set(wide) == single
    assert wide == [e.id for e in examples(50) if e.id in single], "file order stays"


def test_a_smaller_limit_lies_in_a_larger_one_in_file_order() -> None:
    small = [e.id for e in select(examples(40), config(limit=5))]
    large = [e.id for e in select(examples(40), config(limit=20))]
    assert len(small) == 5
    assert set(small) < set(large)
    assert large == sorted(large, key=lambda i: int(i.split(":")[1]))


def test_the_hash_is_sha256_so_that_other_machines_agree() -> None:
    assert digest("wikitq:nt-0") % 10 == 1
    assert digest("spider:dev:concert_singer:19f1f698") % 10 == 1


@pytest.mark.parametrize("part", ["0/10", "11/10", "7-3/10", "a/b", "3", "1-2/0"])
def test_a_wrong_part_is_refused_with_an_example(part: str) -> None:
    with pytest.raises(ValidationError, match="not like 3/10"):
        config(part=part)


def test_no_part_keeps_all() -> None:
    assert span("") == (1, 1, 1)
    assert len(select(examples(7), config())) == 7


def test_ids_file_keeps_its_ids_and_refuses_unknown_ones(tmp_path: Path) -> None:
    file = tmp_path / "ids.txt"
    file.write_text("files:3\nfiles:1\n\n")
    assert [e.id for e in select(examples(5), config(ids_file=str(file)))] == ["files:1", "files:3"]
    file.write_text("files:3\nfiles:99\n")
    with pytest.raises(UserError, match=r"1 ids are not in this split, such as files:99"):
        select(examples(5), config(ids_file=str(file)))
