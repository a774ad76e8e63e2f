"""What compaction keeps, what it removes, and when."""

import itertools

import pytest

from headrace.log import CompactionPolicy, LogSettings, PartitionLog
from headrace.log.compaction import assess, read_progress, write_progress
from headrace.log.errors import CorruptFile, StorageFull
from headrace.log.giving_way import GivingWay
from headrace.records import Codec, Marker, Record, build_batch, iterate_headers, read_header
from tests.log.batches import DIRECTORY, NOW, new_disk, open_log, read_bytes
from tests.log.compacting import compact, read_records
from tests.log.simulated_disk import SimulatedDisk

SETTINGS = LogSettings(segment_bytes=400, index_interval_bytes=100)
SOON = CompactionPolicy(delete_retention_ms=1000)


@pytest.fixture
def disk() -> SimulatedDisk:
    return new_disk()


@pytest.fixture
def log(disk: SimulatedDisk) -> PartitionLog:
    return open_log(disk, SETTINGS)


def put(
    log: PartitionLog,
    *records: tuple[bytes | None, bytes | None],
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> int:
    """Append a batch, show it to readers, and return its first offset."""
    batch = build_batch(
        [Record(key, value, NOW + log.end_offset + n) for n, (key, value) in enumerate(records)],
        timestamp=NOW,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
        transactional=transactional,
    )
    appended = log.append(batch, read_header(batch))
    log.advance(log.flush())
    return appended.base_offset


def end_transaction(log: PartitionLog, producer_id: int, *, commit: bool) -> None:
    """End a transaction as a broker does."""
    marker = log.append_marker(Marker(producer_id, 0, 0, commit))
    log.advance(log.flush())
    log.reveal(marker.base_offset)


def seal(log: PartitionLog) -> None:
    """Let everything so far be in sealed segments."""
    before = len(log.sealed_segments())
    while len(log.sealed_segments()) == before:
        put(log, (b"filler", b"x" * 100))


def kept(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """What is left, fillers aside."""
    return [each[:3] for each in read_records(log) if each.key != b"filler"]


def test_the_latest_value_of_each_key_stays(disk: SimulatedDisk, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(log, (b"c", b"1"), (b"b", b"2"))
    seal(log)
    before = {each.offset: each for each in read_records(log)}
    report = compact(disk, log, NOW)
    assert report is not None
    assert kept(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]
    assert all(before[each.offset] == each for each in read_records(log))
    assert report.records_kept < report.records_read


def test_a_round_that_may_not_give_way_keeps_the_same(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    for number in range(40):
        put(log, (b"key-%d" % (number % 3), b"%d" % number))
    seal(log)
    # Whatever is done takes a second, which is far too long for so few bytes.
    with GivingWay(1 << 20, clock=itertools.count(0.0).__next__) as effort:
        end = compact(disk, log, NOW, effort=effort)
    assert end is not None
    assert 0 < end.bytes_pressed <= 2 * end.bytes_read
    assert end.records_kept < 10


def test_keys_of_the_clean_part_are_superseded_too(disk: SimulatedDisk, log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    seal(log)
    compact(disk, log, NOW)
    put(log, (b"a", b"2"))
    seal(log)
    first = read_progress(disk, DIRECTORY)
    compact(disk, log, NOW)
    assert read_progress(disk, DIRECTORY) > first > 0
    assert [record[1:] for record in kept(log)] == [(b"b", b"1"), (b"a", b"2")]


@pytest.mark.parametrize("codec", Codec)
def test_batches_are_compressed_as_they_were(
    disk: SimulatedDisk, log: PartitionLog, codec: Codec
) -> None:
    put(log, *[(b"key-%d" % (n % 3), b"value-%d" % n * 20) for n in range(30)], codec=codec)
    put(log, (b"other", b"1"), codec=codec)
    seal(log)
    compact(disk, log, NOW)
    assert [record[0] for record in kept(log)] == [27, 28, 29, 30]
    headers = [header for _, header in iterate_headers(read_bytes(log, 0))]
    assert [header.codec for header in headers if header.record_count][:2] == [codec, codec]


def test_headers_and_empty_strings_stay(disk: SimulatedDisk, log: PartitionLog) -> None:
    batch = build_batch(
        [
            Record(b"", b"", NOW, [("h", b"v"), ("h", None)]),
            Record(b"", b"later", NOW + 5, [("", b"")]),
            Record(b"k", b"", NOW - 5, [("x", b"y" * 300)]),
        ],
        timestamp=NOW,
    )
    log.append(batch, read_header(batch))
    seal(log)
    before = {each.offset: each for each in read_records(log)}
    compact(disk, log, NOW)
    after = [each for each in read_records(log) if each.key != b"filler"]
    assert [each.offset for each in after] == [1, 2]
    assert all(before[each.offset] == each for each in after)


def test_a_tombstone_stays_until_its_horizon_and_then_goes(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"c", b"1"))
    seal(log)
    timestamps = {each.offset: each.timestamp for each in read_records(log)}
    compact(disk, log, NOW, policy=SOON)
    assert kept(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    horizons = [h for _, h in iterate_headers(read_bytes(log, 0)) if h.has_delete_horizon]
    assert [each.base_timestamp for each in horizons] == [NOW + 1000]
    assert all(timestamps[each.offset] == each.timestamp for each in read_records(log))
    seal(log)
    compact(disk, log, NOW + 999, policy=SOON)
    assert (2, b"a", None) in kept(log)
    seal(log)
    compact(disk, log, NOW + 1000, policy=SOON)
    assert kept(log) == [(1, b"b", b"1"), (3, b"c", b"1")]


def test_records_by_time_are_found_behind_a_horizon(disk: SimulatedDisk, log: PartitionLog) -> None:
    put(log, (b"a", None), (b"b", b"1"))
    seal(log)
    compact(disk, log, NOW, policy=SOON)
    found = log.offset_for_time(NOW + 1)
    assert found is not None
    assert found == (1, NOW + 1)


def test_records_without_key_go_and_are_counted(disk: SimulatedDisk, log: PartitionLog) -> None:
    put(log, (None, b"1"), (b"a", b"1"), (None, None))
    seal(log)
    report = compact(disk, log, NOW)
    assert report is not None
    assert report.keyless == 2
    assert kept(log) == [(1, b"a", b"1")]


def test_aborted_records_go_and_do_not_supersede(disk: SimulatedDisk, log: PartitionLog) -> None:
    put(log, (b"a", b"good"), (b"b", b"good"))
    put(log, (b"a", b"bad"), producer_id=7, sequence=0, transactional=True)
    end_transaction(log, 7, commit=False)
    put(log, (b"b", b"better"), producer_id=7, sequence=1, transactional=True)
    end_transaction(log, 7, commit=True)
    seal(log)
    compact(disk, log, NOW)
    assert [record[1:] for record in kept(log)] == [(b"a", b"good"), (b"b", b"better")]


def test_a_marker_goes_once_its_records_are_gone_and_its_horizon_has_passed(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    def markers() -> list[bool]:
        headers = (header for _, header in iterate_headers(read_bytes(log, 0)))
        return [header.has_delete_horizon for header in headers if header.is_control]

    put(log, (b"a", b"bad"), producer_id=7, sequence=0, transactional=True)
    end_transaction(log, 7, commit=False)
    put(log, (b"a", b"1"), producer_id=7, sequence=1, transactional=True)
    end_transaction(log, 7, commit=True)
    for now, superseding, expected in (
        (NOW, False, [False, False]),
        (NOW + 1, True, [True, False]),
        (NOW + 1001, False, [True]),
        (NOW + 1002, False, [True]),
        (NOW + 2001, False, []),
    ):
        if superseding:
            put(log, (b"a", b"2"))
            # From now on, the producer's last sequence stands elsewhere.
            put(log, (b"other", b"1"), producer_id=7, sequence=2)
        seal(log)
        compact(disk, log, now, policy=SOON)
        assert markers() == expected
    assert [record[1:] for record in kept(log)] == [(b"a", b"2"), (b"other", b"1")]


def test_an_active_producers_last_batch_stays_as_a_header(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    put(log, (b"a", b"1"), producer_id=7, sequence=0)
    put(log, (b"a", b"2"), producer_id=7, sequence=1)
    put(log, (b"a", b"3"))
    seal(log)
    compact(disk, log, NOW)
    headers = [h for _, h in iterate_headers(read_bytes(log, 0)) if h.producer_id == 7]
    assert [(h.base_offset, h.base_sequence, h.record_count) for h in headers] == [(1, 1, 0)]
    log.checkpoint()
    disk.file(DIRECTORY / "checkpoint").data[20] ^= 1
    again = open_log(disk.after_kill(), SETTINGS)
    assert again.producers.active()[7].last_sequence == 1


def test_more_keys_than_fit_take_several_rounds(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings(segment_bytes=1 << 20, index_interval_bytes=4096))
    value = b"x" * 10
    for start in range(0, 80_000, 1000):
        put(log, *[(b"key-%06d" % number, value) for number in range(start, start + 1000)])
    put(log, *[(b"key-%06d" % number, b"new") for number in range(0, 80_000, 10)])
    for _ in range(2):
        put(log, (b"filler", b"x" * (600 << 10)))
    ends = []
    while report := compact(disk, log, NOW, memory=1 << 20):
        ends.append(report.first_dirty)
    assert len(ends) > 1
    assert ends == sorted(set(ends))
    found = [record for record in kept(log) if record[2] != value]
    assert len(found) == 8000
    assert len(kept(log)) == 80_000


def test_a_batch_that_fits_no_memory_is_compacted_all_the_same(disk: SimulatedDisk) -> None:
    log = open_log(disk, LogSettings(segment_bytes=4 << 20))
    put(log, *[(b"key-%06d" % (number % 50_000), b"") for number in range(100_000)])
    for _ in range(3):
        put(log, (b"filler", b"x" * (2 << 20)))
    while compact(disk, log, NOW, memory=1):
        pass
    assert len(kept(log)) == 50_000


def test_small_segments_are_merged_and_large_ones_are_not(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    for number in range(40):
        put(log, (b"key-%d" % (number % 2), b"x" * 100))
    assert len(log.sealed_segments()) > 10
    compact(disk, log, NOW)
    assert len(log.sealed_segments()) == 1
    for number in range(40):
        put(log, (b"unique-%d" % number, b"x" * 100))
    before = len(log.sealed_segments())
    compact(disk, log, NOW)
    assert len(log.sealed_segments()) >= before - 1


def test_a_segment_that_stays_as_it_is_is_not_swapped(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    for number in range(10):
        put(log, (b"unique-%d" % number, b"x" * 200))
    segments = log.sealed_segments()
    compact(disk, log, NOW)
    assert log.sealed_segments() == segments
    assert not [path for path in disk.files() if path.name.endswith(".rewritten")]


def test_nothing_is_compacted_that_is_unstable_or_young(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    for _ in range(10):
        put(log, (b"a", b"x" * 200))
    sealed = log.sealed_segments()
    stable = assess(sealed, CompactionPolicy(), first_dirty=0, stable_end=5, now_ms=NOW)
    assert stable.segments[-1].end_offset <= 5
    policy = CompactionPolicy(min_lag_ms=100)
    young = assess(sealed, policy, first_dirty=0, stable_end=99, now_ms=NOW + 104)
    assert [each.max_timestamp for each in young.segments][-1] <= NOW + 4


def test_when_a_log_is_due(log: PartitionLog) -> None:
    for _ in range(10):
        put(log, (b"a", b"x" * 200))
    sealed = log.sealed_segments()
    half = sealed[len(sealed) // 2].base_offset
    later = NOW + 10_000

    def due(policy: CompactionPolicy, first_dirty: int) -> bool:
        return assess(sealed, policy, first_dirty=first_dirty, stable_end=99, now_ms=later).is_due(
            policy
        )

    assert due(CompactionPolicy(min_dirty_ratio=0.5), 0)
    assert not due(CompactionPolicy(min_dirty_ratio=0.9), half)
    assert due(CompactionPolicy(min_dirty_ratio=0.9, max_lag_ms=1000), half)
    assert not due(CompactionPolicy(min_dirty_ratio=0.9, max_lag_ms=20_000), half)
    assert not due(CompactionPolicy(min_dirty_ratio=0.0), sealed[-1].end_offset)


@pytest.mark.parametrize("damage", [0, 65], ids=["offset", "record"])
def test_a_damaged_batch_is_named(disk: SimulatedDisk, log: PartitionLog, damage: int) -> None:
    put(log, (b"a", b"1"))
    place = log.size
    put(log, (b"b", b"2"))
    seal(log)
    disk.file(DIRECTORY / "00000000000000000000.log").data[place + damage] ^= 1
    with pytest.raises(CorruptFile, match=rf"000.log is damaged at byte {place}, in the batch of"):
        compact(disk, log, NOW)
    assert not [path for path in disk.files() if path.name.endswith(".rewritten")]
    assert read_progress(disk, DIRECTORY) == 0


def test_a_full_disk_leaves_nothing_behind(disk: SimulatedDisk, log: PartitionLog) -> None:
    for number in range(20):
        put(log, (b"key-%d" % (number % 9), b"x" * 100))
    log.checkpoint()
    before = read_records(log)
    for room in (0, 50, 300):
        with disk.full(room), pytest.raises((OSError, StorageFull)):
            compact(disk, log, NOW)
        assert read_records(log) == before
        assert not [path for path in disk.files() if path.name.endswith(".rewritten")]
    compact(disk, log, NOW)
    assert len(read_records(log)) < len(before)


def test_progress_that_cannot_be_read_is_none(disk: SimulatedDisk, log: PartitionLog) -> None:
    write_progress(disk, DIRECTORY, 17)
    assert read_progress(disk, DIRECTORY) == 17
    disk.file(DIRECTORY / "compacted").data[-1] ^= 1
    assert read_progress(disk, DIRECTORY) == 0
