"""A transaction coordinator with real logs and journals on a disk that can lose power.

Time passes only when told to. Syncs happen at once, or wait until the test lets them happen, one by
one, so that a crash can come between any two.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path
from random import Random
from typing import TypeVar

from headrace.broker.groups.entries import Committed, TopicPartition
from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.transactions.coordinator import TransactionCoordinator
from headrace.broker.transactions.participants import OpenTransaction, Told
from headrace.broker.transactions.settings import TransactionSettings
from headrace.broker.transactions.state import Identity
from headrace.broker.transactions.store import TransactionStore
from headrace.clock import ManualClock
from headrace.log import Flush, Journal, LogSettings, PartitionLog
from headrace.records import (
    BatchHeader,
    Marker,
    Record,
    build_batch,
    iterate_headers,
    read_header,
)
from tests.broker.groups.simulation import ManualTimers
from tests.log.batches import NOW
from tests.log.simulated_disk import SimulatedDisk

DATA = Path("/data")
GROUP = "billing"
PARTITIONS = tuple(TopicPartition("orders", index) for index in range(3))
TIMEOUT_MS = 10_000
TXN = "payments"

T = TypeVar("T")


def new_disk() -> SimulatedDisk:
    """A disk with an empty data directory that is safe."""
    disk = SimulatedDisk()
    for where in PARTITIONS:
        disk.make_directory(_directory(where))
        disk.sync_directory(_directory(where))
    disk.sync_directory(DATA)
    disk.sync_directory(DATA.parent)
    return disk


def _directory(where: TopicPartition) -> Path:
    return DATA / f"{where.topic}-{where.partition}"


class TransactionSimulation:
    """One life of a broker's transactional half, from its start to its crash."""

    def __init__(
        self, disk: SimulatedDisk, *, flush: Flush = Flush.ACK, deferred: bool = False
    ) -> None:
        self.disk = disk
        self.flush = flush
        self.deferred = deferred
        self.clock = ManualClock(NOW)
        self.timers = ManualTimers(self.clock)
        self.waiting: list[Callable[[], None]] = []
        """Syncs that were asked for and have not happened."""
        settings = LogSettings(segment_bytes=2_000, index_interval_bytes=200, flush=flush)
        self.logs = {
            where: PartitionLog.open(_directory(where), settings, clock=self.clock, disk=disk)
            for where in PARTITIONS
        }
        self.store = TransactionStore.open(Journal.open(DATA / "transactions", disk=disk))
        self.offsets = OffsetStore.open(Journal.open(DATA / "groups", disk=disk))
        self._producer_ids = iter(range(1_000_000))
        self.coordinator = TransactionCoordinator(
            clock=self.clock,
            timers=self.timers,
            store=self.store,
            participants=self,
            new_producer_id=self.new_producer_id,
            settings=TransactionSettings(max_timeout_ms=60_000),
        )

    def new_producer_id(self) -> int:
        """An id that no earlier life has given out."""
        taken = max((record.producer_id for record in self.store), default=-1)
        return max(taken + 1, next(self._producer_ids))

    def run(self, awaitable: Awaitable[T]) -> T:
        """Run something that is to end without time passing; syncs happen as they are needed."""
        return asyncio.run(self._run(awaitable))

    async def _run(self, awaitable: Awaitable[T]) -> T:
        task = asyncio.ensure_future(awaitable)
        while not task.done():
            await asyncio.sleep(0)
            if not task.done():
                self.sync_one()
        return task.result()

    # What producers do, as the handlers let them

    async def initialize(self, name: str = TXN, claimed: Identity | None = None) -> Identity:
        identity = await self.coordinator.initialize(name, TIMEOUT_MS, claimed)
        self._settle(self.store.journal)
        return identity

    def add(self, name: str, identity: Identity, *partitions: TopicPartition) -> None:
        if self.coordinator.add_partitions(name, identity, partitions):
            self._settle(self.store.journal)

    def produce(
        self, name: str, identity: Identity, where: TopicPartition, sequence: int, value: bytes
    ) -> None:
        self.coordinator.check_partition(name, identity, where)
        batch = build_batch(
            [Record(b"key", value)],
            timestamp=NOW,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        log = self.logs[where]
        log.append(batch, read_header(batch))
        if self.flush is Flush.ACK:
            log.advance(log.flush())

    def add_and_produce(
        self, name: str, identity: Identity, where: TopicPartition, sequence: int, value: bytes
    ) -> None:
        """Write to a partition as older clients do: after it was added to the transaction."""
        self.add(name, identity, where)
        self.produce(name, identity, where, sequence, value)

    def produce_and_add(
        self, name: str, identity: Identity, where: TopicPartition, sequence: int, value: bytes
    ) -> None:
        """Write to a partition as newer clients do: the batch is safe before the entry is."""
        added = self.coordinator.add_partitions(name, identity, [where])
        self.produce(name, identity, where, sequence, value)
        if added:
            self._settle(self.store.journal)

    def send_offset(
        self, name: str, identity: Identity, where: TopicPartition, offset: int
    ) -> None:
        self.coordinator.add_group(name, identity, GROUP)
        self._settle(self.store.journal)
        committed = Committed(offset, -1, "", NOW)
        self.offsets.send(GROUP, identity.producer_id, {where: committed})
        self._settle(self.offsets.journal)

    async def end(self, name: str, identity: Identity, *, commit: bool, raises: bool) -> Identity:
        return await self.coordinator.end(name, identity, commit=commit, raises_epoch=raises)

    # What readers see

    def committed(self, where: TopicPartition) -> list[bytes]:
        """The values that a reader of committed records gets, by the consumer's own rules."""
        log = self.logs[where]
        aborted = sorted(
            log.aborted_transactions(0, log.last_stable_offset), key=lambda each: each.first_offset
        )
        skipping: set[int] = set()
        values = []
        for header, batch in self._batches(where, log.last_stable_offset):
            while aborted and aborted[0].first_offset <= header.last_offset:
                skipping.add(aborted.pop(0).producer_id)
            if header.is_control:
                skipping.discard(header.producer_id)
            elif header.producer_id not in skipping or not header.is_transactional:
                values.append(_value(batch))
        return values

    def _batches(self, where: TopicPartition, end: int) -> Iterator[tuple[BatchHeader, bytes]]:
        log = self.logs[where]
        offset = log.start_offset
        while data := log.read(offset, 1 << 20, up_to=end).read():
            for position, header in iterate_headers(data):
                yield header, data[position : position + header.size]
                offset = header.next_offset

    # Syncs

    def sync_one(self, random: Random | None = None) -> bool:
        """Let one sync happen; False if none is waited for."""
        if not self.waiting:
            return False
        self.waiting.pop(random.randrange(len(self.waiting)) if random else 0)()
        return True

    def _settle(self, journal: Journal) -> None:
        if self.flush is Flush.ACK:
            journal.flush()

    def _later(self, sync: Callable[[], object], told: Told) -> None:
        def happen() -> None:
            if self.flush is Flush.ACK:
                sync()
            told(None)

        if self.deferred:
            self.waiting.append(happen)
        else:
            happen()

    # What the coordinator does with the rest of a broker

    def secure_decision(self, told: Told) -> None:
        self._later(self.store.journal.flush, told)

    def mark(self, where: TopicPartition, marker: Marker, told: Told) -> int | None:
        log = self.logs[where]
        offset = log.append_marker(marker).base_offset
        self._later(lambda: log.advance(log.flush()), told)
        return offset

    def reveal(self, where: TopicPartition, marker_offset: int) -> None:
        self.logs[where].reveal(marker_offset)

    def end_offsets(self, producer_id: int, commit: bool, told: Told) -> None:
        self.offsets.end_pending(producer_id, commit=commit)
        self._later(self.offsets.journal.flush, told)

    def reveal_offsets(self, producer_id: int, commit: bool) -> None:
        self.offsets.reveal_pending(producer_id, commit=commit)

    def producers_with_offsets(self) -> Collection[int]:
        return self.offsets.pending_producers()

    def open_transactions(self) -> Iterator[OpenTransaction]:
        for where, log in self.logs.items():
            for producer_id in log.transactions.open:
                yield OpenTransaction(where, producer_id, log.producers.epoch(producer_id))


def _value(batch: bytes) -> bytes:
    """The value of a batch's only record: it stands between its length and the header count."""
    return batch.rsplit(b"key", 1)[1][1:-1]
