"""Batches for the log to store, and ways to look at what it gives back."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.clock import Clock, ManualClock
from headrace.log import Append, Disk, LogSettings, PartitionLog
from headrace.records import BatchHeader, Record, build_batch, iterate_headers, read_header
from tests.log.simulated_disk import SimulatedDisk

DIRECTORY = Path("/data/events-0")
"""Where tests keep their log on a simulated disk."""

NOW = 1_700_000_000_000
"""What the clock of tests says at first."""


def make_batch(
    timestamps: Sequence[int] = (NOW,),
    *,
    value: bytes = b"value",
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
) -> bytearray:
    """A batch with a record for every timestamp."""
    records = [Record(b"key", value, timestamp) for timestamp in timestamps]
    return build_batch(
        records,
        timestamp=timestamps[0],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def append(log: PartitionLog, batch: bytearray, *, append_time: int | None = None) -> Append:
    """Append a batch as the broker does."""
    return log.append(batch, read_header(batch), append_time=append_time)


def append_idempotent(
    log: PartitionLog, sequence: int, *, count: int = 1, producer_id: int = 7, epoch: int = 0
) -> Append:
    """Append a batch of an idempotent producer."""
    batch = make_batch([NOW] * count, producer_id=producer_id, epoch=epoch, sequence=sequence)
    return append(log, batch)


def fill(log: PartitionLog, count: int, *, records: int = 3, value: bytes = b"value") -> None:
    """Append batches, and let readers see them."""
    for number in range(count):
        append(log, make_batch([NOW + number] * records, value=value))
    log.advance(log.flush())


def new_disk() -> SimulatedDisk:
    """A simulated disk on which the directory for logs is already safe, as a broker's is."""
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY.parent)
    disk.sync_directory(DIRECTORY.parent.parent)
    return disk


def open_log(
    disk: Disk,
    settings: LogSettings | None = None,
    *,
    clock: Clock | None = None,
    directory: Path = DIRECTORY,
) -> PartitionLog:
    """Open the tests' log."""
    return PartitionLog.open(
        directory,
        settings or LogSettings(segment_bytes=1000, index_interval_bytes=200),
        clock=clock or ManualClock(NOW),
        disk=disk,
    )


def read_headers(log: PartitionLog, offset: int, max_bytes: int = 500) -> Iterator[BatchHeader]:
    """Read from an offset to the end as a consumer does."""
    while True:
        data = log.read(offset, max_bytes).read()
        if not data:
            return
        for _, header in iterate_headers(data):
            yield header
            offset = header.next_offset


def read_bytes(log: PartitionLog, offset: int, max_bytes: int = 500) -> bytes:
    """Everything from an offset to the end."""
    parts = []
    while data := log.read(offset, max_bytes).read():
        parts.append(data)
        *_, (_, last) = iterate_headers(data)
        offset = last.next_offset
    return b"".join(parts)
