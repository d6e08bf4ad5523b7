"""Tables: escapes, repairs that are told, and types only where every cell reads back as written."""

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pandora_train.box.box import BoxSet
from pandora_train.box.table import column_names, table_boxes, typed
from pandora_train.errors import ReadingError
from pandora_train.records import TableKnowledge


def boxes(path: Path, content: str, dialect: str = "csv", name: str = "") -> BoxSet:
    path.write_bytes(content.encode())
    return table_boxes(TableKnowledge.model_validate({"path": str(path), "dialect": dialect, "name": name}))


def frame(path: Path, content: str, dialect: str = "csv") -> pd.DataFrame:
    return boxes(path, content, dialect).boxes[0].frame


@pytest.mark.parametrize(
    ("cells", "dtype"),
    [
        (["1", "-2", "0"], "int64"), (["1", "", "3"], "Int64"), (["1.5", "-0.25", ""], "float64"),
        (["007", "1"], "str"), (["1,000", "2"], "str"), (["1.50", "2.5"], "str"), (["3", "1.5"], "str"),
        (["-0"], "str"), (["+1"], "str"), (["1_000"], "str"), (["1e5"], "str"), (["١٢"], "str"), (["nan"], "str"),
        (["9223372036854775807"], "int64"), (["9223372036854775808"], "str"), (["0.1000000000000000055"], "str"),
        ([" 1"], "str"), (["", ""], "str"), ([], "str"), (["true"], "str"),
    ],
)
def test_a_column_is_a_number_only_when_each_cell_reads_back(cells: list[str], dtype: str) -> None:
    assert typed(list(cells)).dtype == dtype


@example(["1\u0660"])
@given(st.lists(st.one_of(st.from_regex(r"-?\d{1,20}(\.\d{1,20})?", fullmatch=True), st.text(max_size=4))))
def test_no_cell_is_lost_by_typing(cells: list[str]) -> None:
    back = [None if v is None or pd.isna(v) else str(v) for v in typed(list(cells)).tolist()]
    assert back == [c or None for c in cells]


def test_wikitq_tsv_escapes_are_undone_and_header_breaks_squeezed(tmp_path: Path) -> None:
    box = boxes(tmp_path / "t.tsv", "Chart\\nUK\tNote\n1\ta\\pb\\nc\\\\d\n", "wikitq").boxes[0]
    assert list(box.frame.columns) == ["Chart UK", "Note"]
    assert box.original_fields == {"Chart UK": "Chart\nUK"}
    assert box.frame["Note"].tolist() == ["a|b\nc\\d"]
    assert box.name == "Table"


def test_wikitq_csv_quotes_with_backslashes(tmp_path: Path) -> None:
    content = '"A","B"\n"say \\"hi\\", ok","back\\\\slash"\n"two\nlines",""\n'
    table = frame(tmp_path / "t.csv", content, "wikitq")
    assert table["A"].tolist() == ['say "hi", ok', "two\nlines"]
    assert table["B"].tolist()[0] == "back\\slash"
    assert table["B"].isna().tolist() == [False, True]


def test_users_decimals_are_numbers_but_codes_are_not(tmp_path: Path) -> None:
    content = "price,code,long,share\n1.50,007,12345678901234567.5,12%\n3,1,2.5,4\n,2,1.5,5\n"
    found = boxes(tmp_path / "t.csv", content)
    assert found.boxes[0].frame.dtypes.astype(str).tolist() == ["float64", "str", "str", "str"]
    assert found.boxes[0].frame["price"].sum() == 4.5
    assert found.notes == ("price: decimals of several lengths were read as numbers, so that 1.50 is 1.5",)
    assert frame(tmp_path / "t.csv", content, "wikitq")["price"].tolist()[0] == "1.50"


def test_users_files_keep_their_backslashes(tmp_path: Path) -> None:
    assert frame(tmp_path / "t.tsv", "path\nC:\\new\\path\n")["path"].tolist() == ["C:\\new\\path"]
    assert frame(tmp_path / "t.csv", 'a\n"x ""y"" z"\n')["a"].tolist() == ['x "y" z']


@pytest.mark.parametrize(("content", "columns"), [("a;b\n1;2,5\n", 2), ("a\tb\tc\n1\t2\t3\n", 3), ("a,b\n1,2\n", 2)])
def test_the_delimiter_is_read_off_the_header(tmp_path: Path, content: str, columns: int) -> None:
    assert frame(tmp_path / "t.csv", content).shape == (1, columns)


def test_a_users_table_is_named_after_its_file(tmp_path: Path) -> None:
    box = boxes(tmp_path / "t.csv", "a\n1\n", name="my sales 2024").boxes[0]
    assert (box.name, box.original) == ("my_sales_2024", "my sales 2024")


def test_repeated_and_empty_headers_are_named_and_told(tmp_path: Path) -> None:
    found = boxes(tmp_path / "t.csv", "Name,Name,,Name_2\n1,2,3,4\n")
    assert list(found.boxes[0].frame.columns) == ["Name", "Name_3", "column_3", "Name_2"]
    assert found.boxes[0].original_fields == {"Name_3": "Name", "column_3": ""}
    assert found.notes == ("repeated or empty headers were renamed: Name_3, column_3",)


@given(st.lists(st.sampled_from(["", " ", "a", "a_2", "A", "a\n", "column_1", "column_2_2"]), max_size=8))
def test_column_names_are_unique_and_in_place(header: list[str]) -> None:
    names, renamed = column_names(header)
    assert len(names) == len(header) == len(set(names))
    assert all(n == " ".join(h.split()) or n in renamed for n, h in zip(names, header, strict=True))


def test_ragged_rows_are_filled_or_widened_and_told(tmp_path: Path) -> None:
    found = boxes(tmp_path / "t.csv", "a,b\n1\n2,x,extra\n3,y,\n4,z\n")
    table = found.boxes[0].frame
    assert table["a"].tolist() == [1, 2, 3, 4]
    assert table["b"].isna().tolist() == [True, False, False, False]
    assert table["column_3"].dropna().tolist() == ["extra"]
    assert found.notes[0] == "1 columns beyond the header were named"
    assert found.notes[-1] == "3 rows differ in length from the header and were filled or widened"


def test_a_regular_table_has_no_notes(tmp_path: Path) -> None:
    assert boxes(tmp_path / "t.csv", "a,b\n1,2\n\n3,4\n").notes == ()


def test_windows_and_old_mac_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    assert frame(tmp_path / "t.csv", "\ufeffa,b\r\n1,2\r\n").to_dict("list") == {"a": [1], "b": [2]}
    assert frame(tmp_path / "u.csv", "a,b\r1,2\r").to_dict("list") == {"a": [1], "b": [2]}


def test_other_line_separators_stay_in_the_cell(tmp_path: Path) -> None:
    assert frame(tmp_path / "t.csv", "a\nx\u2028y\x0cz\x85w\n")["a"].tolist() == ["x\u2028y\x0cz\x85w"]


def test_a_header_alone_is_an_empty_table(tmp_path: Path) -> None:
    assert frame(tmp_path / "t.csv", "a,b\n").shape == (0, 2)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ReadingError, match=r"t\.csv is empty"):
        boxes(tmp_path / "t.csv", "")
    with pytest.raises(ReadingError, match=r"cannot read .*gone\.csv"):
        table_boxes(TableKnowledge(path=str(tmp_path / "gone.csv")))
    (tmp_path / "l.csv").write_bytes("a\nf\u00fcnf\n".encode("latin1"))
    with pytest.raises(ReadingError, match=r"l\.csv, line 2: not UTF-8"):
        table_boxes(TableKnowledge(path=str(tmp_path / "l.csv")))
    with pytest.raises(ReadingError, match=r"big\.csv, row 2: field larger than"):
        boxes(tmp_path / "big.csv", 'a\n"' + "x" * 200_000 + '"\n')
