"""A broker's archive: where it is, which partitions use it, and what is to be deleted there."""

import asyncio
import logging
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import orjson

from headrace.broker.archive.partition import PartitionArchive
from headrace.broker.archive.reading import ArchiveReader
from headrace.clock import Clock
from headrace.log import SYSTEM_DISK, DataDirectory
from headrace.log.archive.archived_log import LOCAL_MANIFEST, ArchivedLog
from headrace.log.archive.cache import CACHE, SegmentCache
from headrace.log.archive.location import open_store
from headrace.log.archive.manifest import ArchivedPartition
from headrace.log.pace import Throttle
from headrace.settings import BrokerSettings

if TYPE_CHECKING:
    from headrace.broker.partition import Partition

log = logging.getLogger("headrace.broker")

ENTRY_VERSION = 1
"""The form of the journal's entries."""


class BrokerArchive:
    """The archive that a broker was given; made before its topics are opened.

    The store is not contacted here: a broker starts, and serves what it has, without it.
    """

    def __init__(
        self,
        location: str,
        directory: DataDirectory,
        settings: BrokerSettings,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
    ) -> None:
        self.store = open_store(location)
        self.stopping = Event()
        # The writer notices by itself that the broker stops.
        self._pace = Throttle(settings.archive_rate, self.stopping.wait)
        self.uploads = ThreadPoolExecutor(settings.archive_parallel, "headrace-archive")
        self._downloads = ThreadPoolExecutor(settings.archive_parallel, "headrace-unarchive")
        cache = SegmentCache(directory.path / CACHE, settings.archive_cache, SYSTEM_DISK)
        cache.clear()
        self.reader = ArchiveReader(self.store, cache, loop, clock, self._downloads, self.stopping)
        self.journal = directory.journal("archive")
        self.doomed: set[str] = set()
        """Ids of topics whose objects are to be deleted."""
        for entry in self.journal.entries():
            facts = orjson.loads(entry)
            if facts["doomed"]:
                self.doomed.add(facts["topic_id"])
            else:
                self.doomed.discard(facts["topic_id"])

    @property
    def limit(self) -> int:
        """Bytes a second that uploads are held to because producers are busy; 0 if they are not."""
        return self._pace.limit

    def hold_back(self, bytes_per_second: int) -> None:
        """Upload no faster than this from now on, or as `archive_rate` says for 0."""
        self._pace.limit = bytes_per_second

    def attach(self, partition: "Partition", topic_id: uuid.UUID, directory: Path) -> None:
        """Let a partition use the archive."""
        identity = ArchivedPartition(partition.topic, topic_id.hex, partition.index)
        partition.archive = PartitionArchive(
            partition.log,
            ArchivedLog.open(directory, identity, disk=SYSTEM_DISK),
            self.store,
            self.reader,
            self.stopping,
            partition.look_again,
            self._pace,
        )

    @staticmethod
    def keeps_manifest(directory: Path) -> bool:
        """Whether the partition in a directory has, or had, something in an archive."""
        return LOCAL_MANIFEST in SYSTEM_DISK.names(directory)

    def detach(self, partition: "Partition", directory: Path) -> None:
        """Let a partition use the archive no longer; its topic must be doomed."""
        if partition.archive is None:
            SYSTEM_DISK.unlink(directory / LOCAL_MANIFEST)
        else:
            partition.archive.archived.abandon()
            partition.archive = None

    def doom(self, topic_id: uuid.UUID) -> None:
        """Have everything deleted that the archive has of a topic, sooner or later."""
        if topic_id.hex not in self.doomed:
            self._note(topic_id.hex, doomed=True)
            self.doomed.add(topic_id.hex)

    def keep(self, topic_id: uuid.UUID) -> None:
        """Have nothing deleted that the archive has of a topic, although that was noted."""
        if topic_id.hex in self.doomed:
            self.note_gone(topic_id.hex)

    def note_gone(self, topic_id: str) -> None:
        """Remember that nothing of a topic is left to be deleted."""
        self.doomed.discard(topic_id)
        self._note(topic_id, doomed=False)
        if not self.doomed:
            self.journal.rewrite(())

    def close(self) -> None:
        """Interrupt what is under way, wait for its threads and let go of the journal."""
        self.stopping.set()
        self.uploads.shutdown(cancel_futures=True)
        self._downloads.shutdown(cancel_futures=True)
        self.journal.close()

    def _note(self, topic_id: str, *, doomed: bool) -> None:
        facts = {"version": ENTRY_VERSION, "topic_id": topic_id, "doomed": doomed}
        self.journal.append(orjson.dumps(facts))
