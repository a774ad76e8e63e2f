"""A log of small segments, and what happens to its files behind its back."""

from pathlib import Path

from headrace.log import LogSettings, PartitionLog
from tests.log.batches import (
    DIRECTORY,
    NOW,
    make_batch,
    open_log,
    read_headers,
)
from tests.log.simulated_disk import SimulatedDisk

FIRST = DIRECTORY / "00000000000000000000.log"
FIRST_INDEX = DIRECTORY / "00000000000000000000.index"
SIZE = len(make_batch([NOW] * 3))
SEGMENTED = LogSettings(segment_bytes=4 * SIZE, index_interval_bytes=SIZE)
"""Four batches of three records to a segment."""


def kill(disk: SimulatedDisk, settings: LogSettings = SEGMENTED) -> PartitionLog:
    """Open the log again after its process was killed."""
    return open_log(disk.after_kill(), settings)


def offsets(log: PartitionLog, start: int = 0) -> list[int]:
    return [header.base_offset for header in read_headers(log, start)]


def corrupt(disk: SimulatedDisk, path: Path, position: int) -> None:
    disk.file(path).data[position] ^= 0x10
