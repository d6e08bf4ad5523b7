"""`pandora data`: what is found, what is not usable, and the checksum manifest."""

from pathlib import Path

import pytest

from pandora_train.errors import UserError
from pandora_train.sources.discover import ORIGINS, check_manifest, discover, graphs, show_data

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "sample"


def test_the_sample_folder_is_found_in_full() -> None:
    found = {f.benchmark: f for f in discover(SAMPLE)}
    assert set(found) == {"spider", "wikitq", "grailqa", "webqsp"}
    for f in found.values():
        assert min(f.counts["train"], f.counts["dev"]) >= 15
        assert not f.unusable
        assert not f.problems
    assert graphs(SAMPLE) == [SAMPLE / "graph"]


def test_a_benchmark_folder_itself_may_be_named() -> None:
    assert [f.benchmark for f in discover(SAMPLE / "wikitq")] == ["wikitq"]


def test_an_unreadable_split_is_reported_beside_the_others(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "random-split-1-dev.tsv").write_text("nonsense\n")
    [found] = discover(tmp_path)
    assert found.counts == {}
    assert "lacks id" in found.problems["dev"]


def test_the_report_names_every_original(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    show_data(tmp_path)
    printed = capsys.readouterr().out
    assert all(origin.split(" ")[0] in printed for origin in ORIGINS.values())


def test_no_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder"):
        discover(tmp_path / "gone")


def test_the_manifest_is_written_then_verified(tmp_path: Path) -> None:
    root = tmp_path / "data"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "sub" / "b.txt").write_text("b")
    manifest = root / "SHA256SUMS"
    assert "2 files written" in check_manifest(root, manifest)
    assert "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a.txt" in manifest.read_text()
    assert "all 2 files as recorded" in check_manifest(root, manifest)
    (root / "a.txt").write_text("A")
    (root / "sub" / "b.txt").rename(root / "c.txt")
    with pytest.raises(UserError, match=r"a\.txt changed, sub/b\.txt is gone, c\.txt is new"):
        check_manifest(root, manifest)
    manifest.write_text("no checksum\n")
    with pytest.raises(UserError, match="line 1: not a checksum"):
        check_manifest(root, manifest)


def test_the_sample_data_is_as_its_manifest_says() -> None:
    assert "files as recorded" in check_manifest(SAMPLE, SAMPLE / "SHA256SUMS")
