"""The look through a data directory: it finds what is left, and tells apart what is not."""

from pathlib import Path

import pytest

from headrace.log import SYSTEM_DISK
from headrace.log.excision import CheckReport, Sighting
from headrace.log.excision_check import DirectoryCheck, Evidence, size_below
from headrace.records import Codec, Record, build_batch
from headrace.records.matching import Criteria

KEY = b"customer-0042"
SECRET = b"lives in Tallinn, likes tea"


def batch(key: bytes = KEY, value: bytes = SECRET, *, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(b"somebody else", b"else" * 20), Record(key, value)]
    return bytes(build_batch(records, timestamp=0, codec=codec))


def check(root: Path, *, until: int = 100) -> CheckReport:
    evidence = Evidence()
    evidence.add([KEY, SECRET, b"short", None])
    return DirectoryCheck(
        SYSTEM_DISK,
        root,
        {"people-0/": until, "archive.cache/1f-0-": until},
        Criteria.of([KEY]),
        evidence,
        lambda _: None,
    ).run()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "people-0").mkdir()
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "people-0" / f"{0:020d}.log").write_bytes(batch(b"another", b"x"))
    return tmp_path


def test_a_clean_directory_passes(root: Path):
    report = check(root)
    assert report.passed
    assert (report.files, report.bytes, report.strings) == (1, size_below(root), 2)
    assert (report.left, report.elsewhere, report.later) == ([], [], 0)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    "name", [f"{0:020d}.log", "00.log.rewritten", f"{0:020d}.log.tmp", "whatever"]
)
def test_a_record_that_is_left_is_found_whatever_its_codec_and_file(
    root: Path, codec: Codec, name: str
):
    (root / "people-0" / name).write_bytes(batch(codec=codec) * 2)
    report = check(root)
    assert not report.passed
    assert [(each.file, each.records) for each in report.left] == [(f"people-0/{name}", 2)]


def test_bytes_in_a_file_that_is_no_segment_are_found(root: Path):
    (root / "people-0" / "stray.tmp").write_bytes(b"\0" * 1000 + SECRET[:-1] + SECRET + b"\0")
    assert check(root).left == [Sighting("people-0/stray.tmp", 0, 1)]


def test_a_copy_of_an_archived_segment_counts_as_the_topic_itself(root: Path):
    for name in ("1f-0-0", "1f-1-0"):
        (root / "archive.cache" / name).mkdir(parents=True)
        (root / "archive.cache" / name / f"{0:020d}.log").write_bytes(batch())
    report = check(root)
    assert [each.file for each in report.left] == [f"archive.cache/1f-0-0/{0:020d}.log"]
    assert [each.file for each in report.elsewhere] == [f"archive.cache/1f-1-0/{0:020d}.log"]


def test_bytes_across_two_pieces_are_found(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headrace.log.excision_check.PIECE_BYTES", 64)
    (root / "people-0" / "stray.tmp").write_bytes(b"\0" * 50 + (SECRET + b"..") * 10)
    assert check(root).left == [Sighting("people-0/stray.tmp", 0, 10)]


def test_records_that_were_written_later_are_counted_apart(root: Path):
    later = bytes(build_batch([Record(KEY, SECRET)], timestamp=0, base_offset=100))
    (root / "people-0" / f"{100:020d}.log").write_bytes(later)
    report = check(root)
    assert report.passed
    assert report.later == 1
    assert (report.alike, report.elsewhere) == ([], [])


def test_other_topics_may_have_the_same_keys_and_bytes(root: Path):
    (root / "orders-0" / f"{0:020d}.log").write_bytes(batch() + batch(b"other", SECRET))
    (root / "groups.journal").write_bytes(b"...." + KEY)
    report = check(root)
    assert report.passed
    assert report.elsewhere == [
        Sighting("groups.journal", 0, 1),
        Sighting(f"orders-0/{0:020d}.log", 1, 3),
    ]


def test_another_record_with_the_same_value_is_not_a_failure(root: Path):
    (root / "people-0" / f"{0:020d}.log").write_bytes(batch(b"twin", SECRET))
    report = check(root)
    assert report.passed
    assert report.alike == [Sighting(f"people-0/{0:020d}.log", 0, 1)]
    assert report.elsewhere == []


def test_a_key_that_begins_like_a_removed_one_is_told_apart(root: Path):
    (root / "people-0" / f"{0:020d}.log").write_bytes(batch(KEY + b"7", b"somebody else"))
    report = check(root)
    assert report.passed
    assert report.alike == [Sighting(f"people-0/{0:020d}.log", 0, 1)]
    assert report.elsewhere == []


def test_what_cannot_be_read_is_not_said_to_be_clean(root: Path):
    damaged = bytearray(batch(codec=Codec.GZIP))
    damaged[-9] ^= 1
    (root / "people-0" / f"{7:020d}.log").write_bytes(damaged)
    (root / "orders-0" / f"{7:020d}.log").write_bytes(damaged)
    report = check(root)
    assert not report.passed
    assert report.unreadable == [f"people-0/{7:020d}.log"]


def test_a_batch_that_is_still_being_written_does_no_harm(root: Path):
    growing = batch(b"another", b"x") + batch(b"another", b"x")[:-5]
    (root / "people-0" / f"{100:020d}.log").write_bytes(growing)
    assert check(root).passed
