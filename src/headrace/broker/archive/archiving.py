"""The chore that moves sealed segments to the archive, round after round.

A round copies the journals, uploads what is pending, several partitions at a time, and deletes what
has expired. Nothing is queued: what is pending is read off the logs. While the store fails, rounds
become rarer; nothing local is given up meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headrace.broker.archive.archive import BrokerArchive
from headrace.broker.archive.partition import PartitionArchive
from headrace.broker.partition import Partition
from headrace.broker.traffic import Traffic, beside_producers
from headrace.log import SYSTEM_DISK, Segment
from headrace.log.archive.journals import JournalArchive, copy_journals
from headrace.log.archive.manifest import PARTITIONS
from headrace.log.archive.owner import take_possession
from headrace.log.archive.writer import SegmentFile, delete_topic
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

log = logging.getLogger("headrace.broker")

COPY_SECONDS = 60.0
"""How often journals are copied while no segment is pending."""

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
"""How much longer the time between rounds becomes while the store fails."""

MOST_AT_ONCE = 100
"""How many segments of a partition are archived in one round, so that others get their turn."""

T = TypeVar("T")


class Archiving:
    """Archives in the background until it is stopped."""

    def __init__(self, core: "BrokerCore", archive: BrokerArchive) -> None:
        self._core = core
        self._archive = archive
        self._journals = JournalArchive(archive.store)
        self._copied_at = float("-inf")
        self._pause = 0.0
        self._task: asyncio.Task[None] | None = None
        self._slots = asyncio.Semaphore(core.settings.archive_parallel)
        self.uploaded_bytes = 0
        self.uploaded_segments = 0
        self.failures = 0
        self.failure: str | None = None
        """Why the last round came to nothing; None if it did not."""
        self.rounds = 0

    def start(self) -> None:
        """Begin with the first round."""
        self._task = asyncio.ensure_future(self._repeat())

    async def stop(self) -> None:
        """Begin nothing more, and interrupt what is under way."""
        self._archive.stopping.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def archived_bytes(self) -> int:
        """What the archive has, as far as it may still be read."""
        return sum(archive.archived.size for _, archive in self._partitions())

    @property
    def pending_bytes(self) -> int:
        """Sealed segments that the archive does not have yet."""
        return sum(
            segment.size for _, archive in self._partitions() for segment in archive.pending()
        )

    async def round(self) -> bool:
        """Do what there is to do; return whether there is more. Raises what kept it from it."""
        core, archive = self._core, self._archive
        self.rounds += 1
        uploaded_before = self.uploaded_segments
        work = [
            (partition, archived, archived.pending())
            for partition, archived in self._partitions()
            if not core.topics.copying_disabled(partition.topic)
            # Is being excised, which may take longer than the others should wait.
            and not partition.rewriting.locked()
        ]
        await self._blocking(
            lambda: take_possession(
                archive.store, core.cluster_id, core.settings.data.absolute(), SYSTEM_DISK
            )
        )
        # First, so that a broker that is rebuilt knows of no topic whose objects are gone, and of
        # every topic that has any.
        doomed = tuple(archive.doomed)
        await self._copy_journals(due=bool(doomed) or any(pending for *_, pending in work))
        await self._delete(doomed)
        results = await asyncio.gather(
            *(
                self._attempt(partition, archived, pending)
                for partition, archived, pending in work
                if pending or archived.writer.trim_due or not archived.reconciled
            ),
            return_exceptions=True,
        )
        failed = [result for result in results if result is not None]
        if failed:
            raise failed[0]
        more = any(len(pending) > MOST_AT_ONCE for *_, pending in work)
        return more and self.uploaded_segments > uploaded_before

    def _partitions(self) -> list[tuple[Partition, PartitionArchive]]:
        return [
            (partition, partition.archive)
            for partition in self._core.partitions()
            if partition.archive is not None
        ]

    async def _repeat(self) -> None:
        traffic = Traffic(self._core.settings.archive_floor)
        while True:
            more = False
            try:
                async with beside_producers(
                    self._core, traffic, self._archive.hold_back, concerns=_is_archived
                ):
                    more = await self.round()
                self._pause = 0.0
                self.failure = None
            except (LogError, OSError) as error:
                self._note_failure(error)
                self._pause = min(max(2 * self._pause, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
                log.error("archiving is tried again in %g s: %s", self._pause, error)
            except Exception as error:
                self._note_failure(error)
                self._pause = LONGEST_PAUSE_SECONDS
                log.exception("archiving failed; it is tried again in %g s", self._pause)
            if not more:
                await asyncio.sleep(self._core.settings.archive_interval_ms / 1000 + self._pause)

    def _note_failure(self, error: Exception) -> None:
        self.failures += 1
        self.failure = str(error) or repr(error)

    async def _delete(self, topic_ids: Sequence[str]) -> None:
        for topic_id in topic_ids:
            path = f"{PARTITIONS}/{topic_id}"
            await self._blocking(partial(delete_topic, self._archive.store, path))
            self._archive.note_gone(topic_id)

    async def _copy_journals(self, *, due: bool) -> None:
        now = self._core.loop.time()
        if not due and now - self._copied_at < COPY_SECONDS:
            return
        data, now_ms = self._core.settings.data.absolute(), self._core.clock.now_ms()
        await self._blocking(lambda: self._journals.write(copy_journals(data, SYSTEM_DISK, now_ms)))
        self._copied_at = now

    async def _attempt(
        self, partition: Partition, archive: PartitionArchive, pending: list[Segment]
    ) -> None:
        try:
            await self._archive_partition(partition, archive, pending)
        except (LogError, OSError):
            # What goes wrong with a topic that was deleted meanwhile is of no interest.
            if not partition.retired and partition.archive is archive:
                raise

    async def _archive_partition(
        self, partition: Partition, archive: PartitionArchive, pending: list[Segment]
    ) -> None:
        async with self._slots, partition.rewriting:
            writer = archive.writer
            if partition.retired:
                return
            # Whoever held the partition may have rewritten what was pending.
            pending = archive.pending() if pending else []
            if not archive.reconciled:
                removed = await self._blocking(writer.reconcile)
                for found in removed:
                    log.info("removed %s, which was left behind in the archive", found.key)
                archive.check_end()
                archive.reconciled = True
                pending = archive.pending() if pending else []
            for segment in pending[:MOST_AT_ONCE]:
                if not await partition.is_intact(segment):
                    # It stays here, where it is reported, until somebody has restored it.
                    break
                if not await self._archive_segment(partition, archive, segment):
                    break
            if writer.trim_due and not partition.retired:
                before = archive.archived.manifest.segments
                await self._blocking(writer.trim)
                for gone in set(before).difference(archive.archived.segments):
                    archive.forget(gone)

    async def _archive_segment(
        self, partition: Partition, archive: PartitionArchive, segment: Segment
    ) -> bool:
        writer = archive.writer
        aborted = partition.log.aborted_transactions(segment.base_offset, segment.end_offset)
        source = SegmentFile.of(segment, tuple(aborted))
        uploaded = await self._blocking(lambda: writer.upload(source))
        if partition.retired or segment not in archive.pending():
            # It expired, or was rewritten, on its way; what was uploaded is garbage.
            return False
        epochs, start_offset = partition.log.epoch_starts, partition.log.start_offset
        await self._blocking(lambda: writer.record(uploaded, epochs, start_offset))
        self.uploaded_segments += 1
        self.uploaded_bytes += uploaded.size
        return True

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await self._core.loop.run_in_executor(self._archive.uploads, work)


def _is_archived(partition: Partition) -> bool:
    return partition.archive is not None
