"""One partition with an archive, where anything may fail, and a model of what it holds."""

import os
from pathlib import Path
from random import Random
from threading import Event
from typing import Any, cast

from headrace.broker.archive.partition import PartitionArchive
from headrace.broker.partition import Partition
from headrace.clock import ManualClock
from headrace.log import LogSettings, PartitionLog, Segment
from headrace.log.archive.archived_log import ArchivedLog
from headrace.log.archive.cache import SegmentCache
from headrace.log.archive.manifest import ArchivedPartition, ArchivedSegment
from headrace.log.archive.writer import SegmentFile
from headrace.records import iterate_headers, read_header
from tests.log.archive.stores import MemoryStore
from tests.log.batches import DIRECTORY, NOW, append, make_batch, new_disk, open_log
from tests.log.simulated_disk import SimulatedDisk

SETTINGS = LogSettings(
    segment_bytes=600,
    index_interval_bytes=100,
    retention_bytes=6000,
    retention_ms=-1,
    local_retention_bytes=700,
    local_retention_ms=-1,
)
IDENTITY = ArchivedPartition("events", "00" * 16, 0)


class PatientReader:
    """Brings segments back while the caller waits, in place of the event loop's reader."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.cache = SegmentCache(Path("/cache"), 1 << 20, SimulatedDisk())

    def segment(
        self, partition: ArchivedPartition, archived: ArchivedSegment, interval: int, wake: Any
    ) -> Segment:
        return self.cache.bring_back(self.store, partition, archived, interval, Event())

    def forget(self, partition: ArchivedPartition, archived: ArchivedSegment) -> None:
        pass


class World:
    """A partition, its disk and its archive; and what was acknowledged to producers."""

    def __init__(self, *, settings: LogSettings = SETTINGS) -> None:
        self.settings = settings
        self.clock = ManualClock(NOW)
        self.disk = new_disk()
        self.store = MemoryStore()
        self.acknowledged: list[tuple[int, int, bytes]] = []
        """Base offset, end offset and bytes of every batch that a producer was told is safe."""
        self.deleted_before = 0
        self.asked_to_delete_before = 0
        self.open()

    def open(self) -> None:
        """Start the broker, in the part that matters here."""
        log: PartitionLog = open_log(self.disk, self.settings, clock=self.clock)
        self.log = log
        self.partition = Partition("events", 0, log, cast(Any, None), cast(Any, None))
        log.verifies_at_once = True
        self.archived = ArchivedLog.open(DIRECTORY, IDENTITY, disk=self.disk)
        self.archive = PartitionArchive(
            log,
            self.archived,
            self.store,
            cast(Any, PatientReader(self.store)),
            Event(),
            lambda: None,
        )
        self.partition.archive = self.archive

    def crash(self, random: Random | None) -> None:
        """End the process, with the power if there is a random; open everything again."""
        self.store.steps_left = None
        self.disk = self.disk.after_kill() if random is None else self.disk.after_power_loss(random)
        self.open()
        self._believe_the_tail()

    def _believe_the_tail(self) -> None:
        """What a crash kept although nobody was told is as good as told."""
        end = self.acknowledged[-1][1] if self.acknowledged else 0
        assert self.log.end_offset >= end, "acknowledged records are gone"
        while end < self.log.end_offset:
            data = self.log.read(end, 1).read()
            for start, header in iterate_headers(data):
                batch = data[start : start + header.size]
                self.acknowledged.append((header.base_offset, header.next_offset, batch))
                end = header.next_offset

    def produce(self, size: int, records: int = 2) -> None:
        batch = make_batch([self.clock.now_ms()] * records, value=os.urandom(size))
        result = append(self.log, batch)
        self.log.advance(self.log.flush())
        self.acknowledged.append((result.base_offset, result.last_offset + 1, bytes(batch)))

    def archive_all(self) -> None:
        """What a round of archiving does for a partition."""
        writer = self.archive.writer
        if not self.archive.reconciled:
            writer.reconcile()
            self.archive.check_end()
            self.archive.reconciled = True
        for segment in self.archive.pending():
            uploaded = writer.upload(SegmentFile.of(segment))
            writer.record(uploaded, self.log.epoch_starts, self.log.start_offset)
        if writer.trim_due:
            writer.trim()

    def retain(self) -> None:
        self.partition.enforce_retention(self.clock.now_ms()).remove()

    def delete_before(self, offset: int) -> None:
        self.asked_to_delete_before = max(self.asked_to_delete_before, offset)
        self.partition.delete_records(offset)
        self.deleted_before = self.asked_to_delete_before

    def check(self) -> None:
        """Every acknowledged record that nothing entitles to be gone is there, byte by byte.

        What has outlived the retention may be there or not, but nothing else in its place.
        """
        start = self.partition.start_offset
        assert start >= self.deleted_before, "deleted records are back"
        assert start <= max(self.first_within_retention(), self.asked_to_delete_before)
        retained = self.first_within_retention()
        for base_offset, end_offset, data in self.acknowledged:
            if end_offset > start:
                found = self.partition.read(max(start, base_offset), len(data)).read()
                if base_offset < retained and read_header(found).base_offset >= end_offset:
                    continue
                assert found[: len(data)] == data, f"offset {base_offset} is not what was written"

    def first_within_retention(self) -> int:
        """The first offset of the newest `retention_bytes`, which must be there."""
        size = 0
        first = self.log.end_offset
        for base_offset, _, data in reversed(self.acknowledged):
            size += len(data)
            if size > self.settings.retention_bytes:
                break
            first = base_offset
        return first
