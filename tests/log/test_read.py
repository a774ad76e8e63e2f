"""Reading: whole batches, exact beginnings, cheap ends."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log import Flush, LogSettings, LogSlice, PartitionLog
from headrace.log.errors import OffsetOutOfRange, StorageFailed
from headrace.log.index import RecentBatches
from headrace.log.segment import OPEN_SEGMENTS
from headrace.records import iterate_headers, read_header
from tests.log.batches import NOW, append, fill, make_batch, new_disk, open_log, read_headers
from tests.log.simulated_disk import SimulatedDisk

SIZE = len(make_batch([NOW] * 3))
"""Bytes of a batch that `fill` writes."""


@pytest.fixture
def disk() -> SimulatedDisk:
    return new_disk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Iterator[PartitionLog]:
    """A log with 1,000 batches of three records in one segment."""
    log = open_log(disk, LogSettings())
    fill(log, 1000)
    yield log
    log.close()


def offsets(data: LogSlice) -> list[int]:
    return [header.base_offset for _, header in iterate_headers(data.read())]


def test_a_read_begins_with_the_batch_that_holds_the_offset(log: PartitionLog) -> None:
    for offset in (0, 1, 2, 3, 1500, 1501, 2998, 2999):
        assert offsets(log.read(offset, 1))[0] == offset - offset % 3


def test_a_read_is_whole_batches_within_its_limit(log: PartitionLog) -> None:
    for max_bytes in (SIZE, SIZE + 1, 5 * SIZE - 1, 5000, 50_000):
        for offset in (0, 4, 1500, 2900):
            found = log.read(offset, max_bytes)
            assert 0 < found.length <= max_bytes
            first = offset - offset % 3
            end = first + found.length // SIZE * 3
            assert offsets(found) == list(range(first, end, 3))
            assert end <= found.end_offset <= end + LogSettings().index_interval_bytes // SIZE * 3


def test_the_first_batch_is_returned_even_if_it_is_too_large(log: PartitionLog) -> None:
    assert offsets(log.read(1500, 1)) == [1500]
    assert offsets(log.read(2999, 0)) == [2997]


def test_or_not_if_so_wished(log: PartitionLog) -> None:
    assert log.read(1500, SIZE - 1, at_least_one=False).length == 0
    assert log.read(2999, SIZE - 1, at_least_one=False).length == 0
    assert log.read(2999, SIZE, at_least_one=False).length == SIZE


def test_a_large_read_is_cut_close_to_its_limit(log: PartitionLog) -> None:
    interval = log.settings.index_interval_bytes
    assert log.read(0, 100_000).length > 100_000 - interval - SIZE


def test_there_is_nothing_at_the_end_yet(log: PartitionLog) -> None:
    empty = log.read(3000, 1000)
    assert (empty.length, empty.read(), len(empty)) == (0, b"", 0)


def test_an_offset_that_is_not_there_is_refused_with_the_range(log: PartitionLog) -> None:
    with pytest.raises(
        OffsetOutOfRange, match=r"offset 3001 is outside 0 to 3000: .* the log's end"
    ):
        log.read(3001, 1000)
    log.delete_records(100)
    with pytest.raises(
        OffsetOutOfRange, match=r"99 is outside 100 to 3000: .* the log's start"
    ) as error:
        log.read(99, 1000)
    assert (error.value.offset, error.value.start, error.value.end) == (99, 100, 3000)
    assert offsets(log.read(100, 1)) == [99]


def test_readers_see_only_what_is_durable(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append(log, make_batch())
    append(log, make_batch())
    assert log.high_watermark == 0
    assert log.read(0, 1000).length == 0
    assert log.read(1, 1000).length == 0, "an offset beyond the high watermark is no error"
    flushed = log.flush()
    append(log, make_batch())
    assert log.advance(flushed)
    assert not log.advance(flushed)
    assert log.high_watermark == 2
    assert offsets(log.read(0, 1000)) == [0, 1]


def test_without_waiting_for_the_disk_readers_see_everything(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings(flush=Flush.OS))
    append(log, make_batch())
    assert log.high_watermark == 1
    assert offsets(log.read(0, 1000)) == [0]


@pytest.mark.parametrize("up_to", [1, 3, 4, 6, 300, 1500, 2996, 2997, 3000, 9999])
def test_a_read_never_goes_beyond_what_it_is_allowed(log: PartitionLog, up_to: int) -> None:
    expected = list(range(0, min(up_to, 3000) // 3 * 3, 3))
    found: list[int] = []
    while more := offsets(log.read(len(found) * 3, 1 << 20, up_to=up_to)):
        found += more
    assert found == expected


def test_reading_to_the_end_of_the_log_is_possible_for_those_who_may(disk: SimulatedDisk) -> None:
    log = open_log(disk)
    append(log, make_batch())
    assert offsets(log.read(0, 100, up_to=log.end_offset)) == [0]


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 700), min_size=1, max_size=60),
    interval=st.sampled_from([0, 100, 500, 4096]),
    segment_bytes=st.sampled_from([200, 3000, 1 << 20]),
    max_bytes=st.integers(0, 3000),
    kept=st.sampled_from([2, 10, RecentBatches.KEPT]),
)
def test_a_reader_that_follows_reads_everything_once(
    sizes: list[int], interval: int, segment_bytes: int, max_bytes: int, kept: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecentBatches, "KEPT", kept)
        log = open_log(
            new_disk(), LogSettings(segment_bytes=segment_bytes, index_interval_bytes=interval)
        )
        for size in sizes:
            append(log, make_batch([NOW, NOW], value=b"x" * size))
        log.advance(log.flush())
        found = [header.base_offset for header in read_headers(log, 0, max_bytes)]
        assert found == [2 * number for number in range(len(sizes))]
        log.close()


def test_a_reader_at_the_end_does_not_touch_the_disk(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings())
    position = 0
    reads = disk.calls["pread"]
    for number in range(500):
        fill(log, 1)
        found = log.read(position, 1 << 20)
        assert found.length == SIZE
        position = 3 * (number + 1)
    assert disk.calls["pread"] == reads


def test_a_reader_that_catches_up_does_not_touch_the_disk_to_find_its_way(
    log: PartitionLog, disk: SimulatedDisk
) -> None:
    offset = 0
    while True:
        reads = disk.calls["pread"]
        found = log.read(offset, 20_000)
        assert disk.calls["pread"] == reads
        if not found.length:
            break
        *_, offset = (header.next_offset for _, header in iterate_headers(found.read()))
    assert offset == 3000


def test_a_slice_outlives_its_segment_and_its_log(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings(segment_bytes=300))
    fill(log, 20)
    found = log.read(0, 1000)
    expected = found.read()
    log.delete_records(60)
    retired = log.enforce_retention()
    retired.remove()
    OPEN_SEGMENTS.discard(found)
    log.close()
    assert found.read() == expected
    assert disk.open_descriptors == 1
    del found
    assert disk.open_descriptors == 0


def test_a_slice_can_be_read_in_pieces(log: PartitionLog) -> None:
    found = log.read(0, 1000)
    whole = found.read()
    assert found.read(0, 10) + found.read(10, 50) + found.read(60) == whole
    assert found.read(len(whole), 10) == b""
    assert found.read(len(whole) - 5, 10) == whole[-5:]
    assert repr(found) == f"LogSlice(position=0, length={len(whole)})"


def test_one_segment_is_read_at_a_time(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings(segment_bytes=3 * SIZE))
    fill(log, 10)
    assert offsets(log.read(0, 1 << 20)) == [0, 3, 6]
    assert offsets(log.read(6, 1 << 20)) == [6]
    assert offsets(log.read(9, 1 << 20)) == [9, 12, 15]


def test_a_disk_that_cannot_be_read_is_reported(log: PartitionLog, disk: SimulatedDisk) -> None:
    found = log.read(0, 100)
    with disk.failing("pread"):
        with pytest.raises(StorageFailed, match="cannot read"):
            log.read(1501, 100)
        with pytest.raises(StorageFailed, match="cannot read"):
            found.read()
    assert read_header(found.read()).base_offset == 0
