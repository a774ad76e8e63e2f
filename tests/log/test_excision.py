"""Excision of a log's segments: exactly what is meant goes, and no crash leaves anything else."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log import LogSettings, PartitionLog, RewrittenSegment
from headrace.log.disk import Disk
from headrace.log.errors import StorageFull
from headrace.log.excision import ExcisionRefused, FileChange, SegmentFile
from headrace.log.excision_rewrite import find_records, rewrite_segment
from headrace.log.manifest import MANIFEST, REWRITTEN
from headrace.log.segment import Segment
from headrace.records import Codec, Record, build_batch, iterate_headers, read_header
from headrace.records.arrow import decode
from headrace.records.matching import Criteria
from tests.log.batches import (
    DIRECTORY,
    NOW,
    append,
    append_idempotent,
    new_disk,
    open_log,
    read_bytes,
)
from tests.log.rewrites import rewrite, swap
from tests.log.simulated_disk import Died, SimulatedDisk
from tests.records.oracles import rows
from tests.records.shapes import Shape, batch_of, is_meant, raw_records, shapes

SMALL = LogSettings(segment_bytes=600, index_interval_bytes=100)


def ignore(_: object) -> None:
    """What is not of interest."""


def file_of(segment: Segment) -> SegmentFile:
    return SegmentFile(str(segment.path), segment.base_offset, segment.size, segment.index_interval)


def excise(log: PartitionLog, disk: Disk, criteria: Criteria) -> list[FileChange]:
    """Do what a broker and its worker do, all in one thread."""
    changes = []
    for segment in log.sealed_segments():
        if not find_records(disk, file_of(segment), criteria, ignore, ignore).records:
            continue
        change = rewrite_segment(disk, file_of(segment), criteria, "tag", ignore, ignore)
        rewritten = RewrittenSegment(
            [segment], change.size, change.max_timestamp, change.log_file, change.index_file
        )
        assert swap(log, [rewritten])
        changes.append(change)
    return changes


def seal(log: PartitionLog) -> None:
    log.roll()
    log.advance(log.flush())


def token(number: int) -> bytes:
    """A value that is found nowhere by chance."""
    return b"<secret-%06d>" % number


def keyed(count: int, *, first: int = 0, codec: Codec = Codec.NONE) -> bytearray:
    """A batch of records that belong to seven customers in turn."""
    return build_batch(
        [
            Record(b"customer-%d" % (number % 7), token(number), NOW + number)
            for number in range(first, first + count)
        ],
        timestamp=NOW,
        codec=codec,
    )


@given(
    st.lists(shapes, min_size=1, max_size=8),
    st.sets(st.sampled_from([b"", b"a", b"customer-7", b"customer-8" * 30])),
    st.sets(st.tuples(st.just("tenant"), st.sampled_from([b"x", b"yy"])), max_size=1),
    st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=60)
def test_any_log_loses_exactly_the_records_that_are_meant(
    given_shapes: list[Shape],
    keys: set[bytes],
    headers: set[tuple[str, bytes]],
    random: Random,
):
    disk = new_disk()
    log = open_log(disk, SMALL)
    for number, shape in enumerate(given_shapes):
        producer_id = number if shape.producer_id >= 0 else -1
        append(log, batch_of(shape._replace(producer_id=producer_id), 0))
    seal(log)
    # As compaction does, take whole batches out before.
    doomed = set(random.sample(range(log.end_offset), log.end_offset // 4))
    compacted = [
        rewrite(disk, [segment], lambda header: header.base_offset not in doomed, tag=str(number))
        for number, segment in enumerate(log.sealed_segments())
    ]
    assert swap(log, compacted)

    stored = read_bytes(log, 0)
    before = rows(decode(stored))
    raw = list(raw_records(stored))
    criteria = Criteria.of(keys, [(name.encode(), value) for name, value in headers])
    changes = excise(log, disk, criteria)

    meant = {row.offset for row in before if is_meant(row.record, keys, headers)}
    removed = {
        offset
        for change in changes
        for each in change.findings.offsets
        for offset in range(each.first, each.last + 1)
    }
    assert removed == meant
    assert sum(change.findings.records for change in changes) == len(meant)

    def look(found: PartitionLog) -> None:
        after = read_bytes(found, 0)
        assert rows(decode(after, verify_crc=True)) == [
            row for row in before if row.offset not in meant
        ]
        assert list(raw_records(after)) == [
            record for record, row in zip(raw, before, strict=True) if row.offset not in meant
        ]

    look(log)
    end_offset = log.end_offset
    log.close()
    again = open_log(disk, SMALL)
    assert again.recovery.problems == ()
    assert again.end_offset == end_offset
    look(again)


@pytest.mark.parametrize("codec", Codec)
def test_the_bytes_are_nowhere_left(codec: Codec):
    disk = new_disk()
    log = open_log(disk, LogSettings(segment_bytes=3000, index_interval_bytes=100))
    for number in range(20):
        append(log, keyed(20, first=20 * number, codec=codec))
    seal(log)
    excise(log, disk, Criteria.of([b"customer-3"]))
    for path, file in disk.files().items():
        data = bytes(file.data)
        assert b"customer-3" not in data
        assert not any(token(number) in data for number in range(3, 400, 7))
        if path.suffix == ".log" and data:
            assert b"customer-3" not in decode(data)["key"].to_pylist()


def test_readers_of_the_old_file_finish():
    disk = new_disk()
    log = open_log(disk, SMALL)
    for number in range(10):
        append(log, keyed(10, first=10 * number))
    seal(log)
    slice_of_old = log.read(0, 300)
    data = slice_of_old.read()
    excise(log, disk, Criteria.of([b"customer-0"]))
    assert slice_of_old.read() == data
    assert log.read(0, 300).read() != data


def test_producers_are_remembered_as_before():
    disk = new_disk()
    log = open_log(disk, SMALL)
    for sequence in range(3):
        append_idempotent(log, sequence)
    seal(log)
    excise(log, disk, Criteria.of([b"key"]))
    assert append_idempotent(log, 2).duplicate
    log.close()
    disk.unlink(DIRECTORY / "checkpoint")
    again = open_log(disk, SMALL)
    assert again.recovery.truncated_bytes == 0
    assert append_idempotent(again, 2).duplicate
    assert append_idempotent(again, 3).base_offset == 3


def test_records_before_the_logs_start_go_too():
    disk = new_disk()
    log = open_log(disk, LogSettings(segment_bytes=10_000))
    append(log, keyed(10))
    seal(log)
    log.delete_records(5)
    (change,) = excise(log, disk, Criteria.of([b"customer-1"]))
    assert [tuple(each) for each in change.findings.offsets] == [(1, 1), (8, 8)]


def leftovers(disk: SimulatedDisk) -> list[str]:
    names = [path.name for path in disk.files()]
    return [name for name in names if name == MANIFEST or name.endswith(REWRITTEN)]


def offsets_with(log: PartitionLog, key: bytes) -> Sequence[int]:
    table = decode(read_bytes(log, 0), verify_crc=True)
    found = zip(table["offset"].to_pylist(), table["key"].to_pylist(), strict=True)
    return [offset for offset, each in found if each == key]


def test_a_crash_at_any_step_leaves_each_segment_old_or_new_and_the_next_run_finishes():
    criteria = Criteria.of([b"customer-3"])
    outcomes = set()
    for steps in range(400):
        disk = new_disk()
        log = open_log(disk, SMALL)
        for number in range(3):
            append(log, keyed(14, first=14 * number))
        append_idempotent(log, 0)
        seal(log)
        everything = rows(decode(read_bytes(log, 0)))
        meant = offsets_with(log, b"customer-3")
        by_segment = [
            {offset for offset in meant if segment.base_offset <= offset < segment.end_offset}
            for segment in log.sealed_segments()
        ]
        disk.die_after(steps)
        try:
            excise(log, disk, criteria)
            died = False
        except Died:
            died = True
        survivors = [disk.after_kill()]
        survivors += [disk.after_power_loss(Random(100 * steps + seed)) for seed in range(2)]
        for survivor in survivors:
            again = open_log(survivor, SMALL)
            left = set(offsets_with(again, b"customer-3"))
            assert all(each <= left or not each & left for each in by_segment)
            assert leftovers(survivor) == []
            assert append_idempotent(again, 0).duplicate
            outcomes.add(len(left))
            excise(again, survivor, criteria)
            assert offsets_with(again, b"customer-3") == []
            others = [row for row in everything if row.offset not in meant]
            assert rows(decode(read_bytes(again, 0))) == others
        if not died:
            break
    else:
        pytest.fail("the excision never came to its end")
    assert {0, len(meant)} < outcomes


def test_a_full_disk_leaves_nothing_behind():
    disk = new_disk()
    log = open_log(disk, SMALL)
    append(log, keyed(14))
    seal(log)
    before = read_bytes(log, 0)
    with disk.full(room=100), pytest.raises(StorageFull):
        excise(log, disk, Criteria.of([b"customer-3"]))
    assert leftovers(disk) == []
    assert read_bytes(log, 0) == before


def test_a_damaged_batch_is_refused_with_its_place():
    disk = new_disk()
    log = open_log(disk, SMALL)
    append(log, keyed(14))
    seal(log)
    (segment,) = log.sealed_segments()
    disk.file(segment.path).data[-3] ^= 1
    criteria = Criteria.of([b"a"])
    with pytest.raises(ExcisionRefused, match=r"00000\.log cannot be read.*offset 0"):
        find_records(disk, file_of(segment), criteria, ignore, ignore)
    with pytest.raises(ExcisionRefused):
        rewrite_segment(disk, file_of(segment), criteria, "tag", ignore, ignore)
    assert leftovers(disk) == []


def test_a_batch_larger_than_a_piece_is_read_as_a_whole(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headrace.log.excision_rewrite.PIECE_BYTES", 200)
    disk = new_disk()
    log = open_log(disk, LogSettings(segment_bytes=100_000))
    for number in range(5):
        append(log, keyed(30, first=30 * number))
        append(log, keyed(1))
    seal(log)
    (change,) = excise(log, disk, Criteria.of([b"customer-3"]))
    assert change.findings.looked_at == 155
    assert offsets_with(log, b"customer-3") == []
    after = read_bytes(log, 0)
    assert read_header(after).base_offset == 0
    assert sum(header.record_count for _, header in iterate_headers(after)) == 155 - (
        change.findings.records
    )


def test_names_of_new_files_are_those_that_recovery_removes():
    disk = new_disk()
    log = open_log(disk, SMALL)
    append(log, keyed(14))
    seal(log)
    (segment,) = log.sealed_segments()
    criteria = Criteria.of([b"customer-3"])
    rewrite_segment(disk, file_of(segment), criteria, "tag", ignore, ignore)
    assert len(leftovers(disk)) == 2
    open_log(disk.after_kill(), SMALL)
    assert leftovers(disk) == []
