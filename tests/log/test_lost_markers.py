"""Aborted transactions leave the index together with their markers, whenever a crash comes."""

from contextlib import suppress

import pytest

from headrace.log import CompactionPolicy, LogSettings, PartitionLog
from headrace.records import Marker, Record, build_batch, iterate_headers, read_header
from tests.log.batches import NOW, new_disk, open_log, read_bytes
from tests.log.compacting import compact
from tests.log.simulated_disk import Died, SimulatedDisk

SETTINGS = LogSettings(segment_bytes=400, index_interval_bytes=100)
SOON = CompactionPolicy(delete_retention_ms=1000)
PRODUCER = 7


def put(log: PartitionLog, sequence: int, *, transactional: bool = True) -> None:
    batch = build_batch(
        [Record(b"key", b"%d" % sequence, NOW)],
        timestamp=NOW,
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=transactional,
    )
    log.append(batch, read_header(batch))


def end(log: PartitionLog, *, commit: bool) -> None:
    log.reveal(log.append_marker(Marker(PRODUCER, 0, 0, commit)).base_offset)
    log.advance(log.flush())


def before_the_markers_go() -> tuple[SimulatedDisk, PartitionLog]:
    """A log whose aborted records are gone, and whose abort markers have a delete horizon."""
    disk = new_disk()
    log = open_log(disk, SETTINGS)
    for sequence in range(3):
        put(log, sequence)
        end(log, commit=False)
    put(log, 3)
    end(log, commit=True)
    # The first round takes the records, the second gives their markers a horizon.
    for sequence in (4, 5):
        dirty(log, sequence)
        compact(disk, log, NOW + sequence, policy=SOON)
    dirty(log, 6)
    return disk, log


def dirty(log: PartitionLog, sequence: int) -> None:
    """Give compaction a reason to look at the log again."""
    put(log, sequence, transactional=False)
    log.advance(log.flush())
    log.roll()


def index_agrees(log: PartitionLog) -> bool:
    """Whether exactly those transactions are known as aborted whose marker is there."""
    headers = [header for _, header in iterate_headers(read_bytes(log, 0))]
    present = {header.base_offset for header in headers if header.is_control}
    known = {each.last_offset for each in log.aborted_transactions(0, log.end_offset)}
    return known == present & {1, 3, 5}


def test_a_marker_that_compaction_removes_leaves_the_index() -> None:
    disk, log = before_the_markers_go()
    assert len(log.aborted_transactions(0, log.end_offset)) == 3
    compact(disk, log, NOW + 5000, policy=SOON)
    assert len(log.aborted_transactions(0, log.end_offset)) == 1
    assert index_agrees(log)


@pytest.mark.parametrize("closes", [False, True])
def test_a_crash_at_any_step_leaves_index_and_markers_in_agreement(closes: bool) -> None:
    ends = set()
    for steps in range(0, 200, 3):
        disk, log = before_the_markers_go()
        if closes:
            log.close()
            log = open_log(disk, SETTINGS)
        disk.die_after(steps)
        with suppress(Died):
            compact(disk, log, NOW + 5000, policy=SOON)
        again = open_log(disk.after_kill(), SETTINGS)
        assert index_agrees(again), f"after {steps} steps"
        ends.add(len(again.aborted_transactions(0, again.end_offset)))
    assert ends == {1, 3}
