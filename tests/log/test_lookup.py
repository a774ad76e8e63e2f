"""Finding records by time, against a search through everything."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log import LogSettings
from headrace.log.errors import LogClosed
from headrace.records import HEADER_SIZE, Codec, Record, build_batch, read_header
from headrace.records.validate import write_checksum
from tests.log.batches import NOW, append, fill, make_batch, new_disk, open_log

batches = st.lists(st.lists(st.integers(-1, 60), min_size=1, max_size=4), max_size=40)


@settings(max_examples=60, deadline=None)
@given(
    batches=batches,
    segment_bytes=st.sampled_from([200, 1000, 1 << 20]),
    interval=st.sampled_from([0, 200, 1000]),
    unseen=st.integers(0, 3),
)
def test_every_time_is_found(
    batches: list[list[int]], segment_bytes: int, interval: int, unseen: int
) -> None:
    log = open_log(
        new_disk(), LogSettings(segment_bytes=segment_bytes, index_interval_bytes=interval)
    )
    records: list[tuple[int, int]] = []
    for number, times in enumerate(batches):
        base_offset = append(log, make_batch(times)).base_offset
        if number < len(batches) - unseen:
            records += [(base_offset + index, time) for index, time in enumerate(times)]
            log.advance(log.flush())
    for time in range(62):
        expected = next((record for record in records if record[1] >= time), None)
        assert log.offset_for_time(time) == expected
    newest = max(records, key=lambda record: (record[1], -record[0]), default=None)
    assert log.max_timestamp() == (newest if newest is None or newest[1] >= 0 else None)
    log.close()


@pytest.mark.parametrize("codec", list(Codec))
def test_the_exact_record_is_found_in_a_compressed_batch(codec: Codec) -> None:
    log = open_log(new_disk())
    records = [Record(b"key", b"value" * 10, NOW + number) for number in range(20)]
    append(log, build_batch(records, timestamp=NOW, codec=codec))
    log.advance(log.flush())
    assert log.offset_for_time(NOW + 7) == (7, NOW + 7)
    assert log.max_timestamp() == (19, NOW + 19)


def test_an_unreadable_batch_is_found_as_a_whole() -> None:
    log = open_log(new_disk())
    fill(log, 1)
    batch = make_batch([NOW + 5, NOW + 6])
    batch[HEADER_SIZE:] = b"\xff" * (len(batch) - HEADER_SIZE)
    write_checksum(batch)
    log.append(batch, read_header(batch))
    log.advance(log.flush())
    assert log.offset_for_time(NOW + 6) == (3, NOW + 6)


def test_deleted_records_are_not_found() -> None:
    log = open_log(new_disk(), LogSettings())
    for time in (100, 300, 200, 250):
        append(log, make_batch([time]))
    log.advance(log.flush())
    assert log.max_timestamp() == (1, 300)
    log.delete_records(2)
    assert log.max_timestamp() == (3, 250)
    assert log.offset_for_time(100) == (2, 200)
    assert log.offset_for_time(260) is None
    log.delete_records(4)
    assert log.max_timestamp() is None
    assert log.offset_for_time(0) is None


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_log_that_begins_inside_a_batch_finds_what_is_left_of_it(codec: Codec) -> None:
    log = open_log(new_disk())
    records = [Record(b"key", b"value", NOW + number) for number in (5, 1, 9, 3)]
    append(log, build_batch(records, timestamp=NOW, codec=codec))
    log.advance(log.flush())
    log.delete_records(1)
    assert log.offset_for_time(NOW) == (1, NOW + 1)
    assert log.offset_for_time(NOW + 4) == (2, NOW + 9)
    log.delete_records(3)
    assert log.offset_for_time(NOW + 4) is None
    assert log.max_timestamp() == (3, NOW + 9)


def test_a_closed_log_finds_nothing() -> None:
    log = open_log(new_disk())
    log.close()
    with pytest.raises(LogClosed):
        log.offset_for_time(0)
    with pytest.raises(LogClosed):
        log.max_timestamp()
