"""Reading: what is broken is told with file and line, and no path leaves its folder."""

from pathlib import Path

import pytest

from pandora_train.errors import UserError
from pandora_train.sources import reading


@pytest.mark.parametrize("relative", ["../secret.txt", "/etc/passwd", "a/../../secret.txt", "link/secret.txt"])
def test_no_path_leaves_the_folder(tmp_path: Path, relative: str) -> None:
    root = tmp_path / "data"
    root.mkdir()
    (tmp_path / "secret.txt").write_text("x")
    (root / "link").symlink_to(tmp_path)
    with pytest.raises(UserError, match="leaves the folder"):
        reading.inside(root, relative)


def test_a_link_within_the_folder_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    assert reading.inside(tmp_path, "alias/x") == tmp_path / "alias" / "x"


def test_other_encodings_are_refused_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "x.tsv"
    file.write_bytes("eins\nzwei\nf\u00fcnf\n".encode("latin1"))
    with pytest.raises(UserError, match=r"x\.tsv, line 3: not UTF-8"):
        reading.text(file)


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    file = tmp_path / "x.tsv"
    file.write_bytes(b"\xef\xbb\xbfid\n")
    assert list(reading.lines(file)) == [(1, "id")]


def test_lines_split_at_line_feeds_alone(tmp_path: Path) -> None:
    file = tmp_path / "x.tsv"
    file.write_text("a\u2028b\x0cc\r\n\nd\n", encoding="utf-8", newline="")
    assert list(reading.lines(file)) == [(1, "a\u2028b\x0cc"), (3, "d")]


def test_broken_json_and_missing_keys_name_the_place(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('[{"a": 1},\n {"a": }]')
    with pytest.raises(UserError, match=r"x\.json: not valid JSON .*line 2"):
        reading.read_json(file)
    file.write_text('[{"a": 1, "b": 2}, {"b": 3}]')
    with pytest.raises(UserError, match=r"x\.json, entry 2: no a"):
        reading.records(file, ["a", "b"])
    file.write_text('{"a": 1}')
    with pytest.raises(UserError, match="must hold a JSON list, not dict"):
        reading.records(file, ["a"])


def test_a_missing_folder_suggests_a_near_one(tmp_path: Path) -> None:
    (tmp_path / "spider").mkdir()
    with pytest.raises(UserError, match="did you mean 'spider'"):
        reading.folder(str(tmp_path / "spidr"))


def test_a_missing_file_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*gone\.json"):
        reading.text(tmp_path / "gone.json")
    with pytest.raises(reading.MissingFile, match=r"has no a\.json or b\.json"):
        reading.first_file(tmp_path, ["a.json", "b.json"])
