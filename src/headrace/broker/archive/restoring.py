"""A data directory made from an archive alone.

Topics with their ids and configurations, the positions of groups and the ids of producers come from
the copied journals. Of each archived partition a log is made that continues where the archive ends:
its records stay in the archive, where the broker finds them, or are brought back as well. What
was not archived is gone, and whoever had read it is set back to where the log goes on.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import NamedTuple

from headrace.broker.groups.entries import TopicPartition
from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.topics import TopicRecord, replay_topics
from headrace.clock import Clock
from headrace.log import Journal
from headrace.log.archive.archived_log import ArchivedLog
from headrace.log.archive.cache import copy_object, remove_tree
from headrace.log.archive.inspection import Survey, survey
from headrace.log.archive.journals import JournalArchive, JournalsCopy
from headrace.log.archive.manifest import ArchivedSegment, Manifest
from headrace.log.archive.owner import hand_over
from headrace.log.archive.store import ArchiveStore
from headrace.log.checkpoint import Checkpoint, KnownSegment
from headrace.log.directory import JOURNAL_SUFFIX, LOCK, META, META_FORMAT
from headrace.log.disk import Disk
from headrace.log.epochs import FIRST_EPOCH
from headrace.log.errors import ArchiveRefused, storage_error
from headrace.log.framing import write_framed
from headrace.log.handles import FileHandle
from headrace.log.index_file import rebuild_index
from headrace.log.segment import Segment
from headrace.log.transactions import AbortedTransaction, TransactionsMoment, encode
from headrace.records import NO_TIMESTAMP

RESTORING = ".restoring"
"""Marks a directory that is not finished; it may be begun again."""

INDEX_INTERVAL = 4096
"""How far apart the entries of a restored index are."""


class SetBack(NamedTuple):
    """A group's position that lay beyond what was archived."""

    group: str
    where: TopicPartition
    before: int
    now: int


@dataclass(slots=True)
class Restoration:
    """What became of an archive."""

    topics: list[TopicRecord]
    partitions: int = 0
    """How many have records in the archive."""
    archived_bytes: int = 0
    """What the archive has of them."""
    unarchived: list[str] = field(default_factory=list)
    """Topics that did not use the archive, and begin without records."""
    set_back: list[SetBack] = field(default_factory=list)
    """Positions of groups that had to be changed."""


Progress = Callable[[int, int], None]
"""Told how many bytes have been brought back, and of how many."""


def restore(
    store: ArchiveStore,
    data: Path,
    *,
    clock: Clock,
    disk: Disk,
    download: bool = False,
    progress: Progress = lambda done, total: None,
) -> Restoration:
    """Make a data directory from an archive, which belongs to it from then on.

    `download` brings all segments back, instead of leaving them in the archive. The directory must
    be new or empty, or one that an interrupted restoration has left behind. Raises
    `ArchiveRefused` otherwise, and whatever the archive and the disk raise.
    """
    data = data.absolute()
    surveyed = survey(store)
    journals = JournalArchive(store).read()
    if journals is None:
        raise ArchiveRefused(
            f"the archive at {store} has no copy of a broker's journals: nothing was archived yet"
        )
    try:
        lock = _prepare(data, disk)
        try:
            work = _Restorer(store, data, clock, disk, surveyed, journals)
            restored = work.run(download=download, progress=progress)
        finally:
            disk.close(lock)
    except OSError as error:
        raise storage_error(error, data, "restore into") from error
    return restored


class _Restorer:
    def __init__(
        self,
        store: ArchiveStore,
        data: Path,
        clock: Clock,
        disk: Disk,
        surveyed: Survey,
        journals: JournalsCopy,
    ) -> None:
        self._store = store
        self._data = data
        self._clock = clock
        self._disk = disk
        self._surveyed = surveyed
        self._journals = journals
        self._manifests = {
            (each.partition.topic_id, each.partition.index): each for each in surveyed.manifests
        }

    def run(self, *, download: bool, progress: Progress) -> Restoration:
        topics = list(replay_topics(self._journals.entries("topics")).values())
        restored = Restoration(topics)
        work = list(self._partitions(topics))
        total = sum(each.size for _, _, manifest in work for each in manifest.live_segments)
        ends: dict[TopicPartition, int] = {}
        done = 0
        for topic, index, manifest in work:
            segments = manifest.live_segments
            end_offset = max(manifest.end_offset, manifest.start_offset)
            ends[TopicPartition(topic.name, index)] = end_offset
            directory = self._data / f"{topic.name}-{index}"
            self._disk.make_directory(directory)
            known = []
            if download:
                for segment in segments:
                    self._bring_back(directory, manifest, segment)
                    known.append(_known(segment))
                    done += segment.size
                    progress(done, total)
            if manifest.generation:
                restored.partitions += bool(segments)
                restored.archived_bytes += sum(segment.size for segment in segments)
                self._begin_log(directory, manifest, known, end_offset)
        restored.unarchived = [
            topic.name
            for topic in topics
            if not any((topic.id, index) in self._manifests for index in range(topic.partitions))
        ]
        self._write_journals()
        restored.set_back = list(self._set_back(ends))
        self._finish()
        return restored

    def _partitions(self, topics: list[TopicRecord]) -> Iterator[tuple[TopicRecord, int, Manifest]]:
        for topic in topics:
            for index in range(topic.partitions):
                manifest = self._manifests.get((topic.id, index))
                if manifest is not None:
                    yield topic, index, manifest

    def _begin_log(
        self, directory: Path, manifest: Manifest, known: list[KnownSegment], end_offset: int
    ) -> None:
        """A log that goes on at an offset, in an epoch of its own."""
        now_ms = self._clock.now_ms()
        active = Segment(directory, self._disk, end_offset, now_ms, INDEX_INTERVAL)
        self._disk.close(self._disk.create(active.path))
        growing = KnownSegment(end_offset, end_offset, 0, NO_TIMESTAMP, now_ms)
        Checkpoint(
            start_offset=manifest.start_offset if known else end_offset,
            segments=(*known, growing),
            epochs=tuple(manifest.epochs) or (FIRST_EPOCH,),
            # Readers had seen more than is left: opening the log raises its epoch.
            closed=False,
            producers=b"",
            transactions=encode(TransactionsMoment({}, _aborted(manifest) if known else (), {})),
        ).write(self._disk, directory)
        ArchivedLog(directory, self._disk, manifest).adopt(manifest)

    def _bring_back(self, directory: Path, manifest: Manifest, archived: ArchivedSegment) -> None:
        segment = Segment(
            directory, self._disk, archived.base_offset, archived.created_ms, INDEX_INTERVAL
        )
        handle = FileHandle(self._disk, segment.path, self._disk.create(segment.path))
        key = manifest.partition.key(archived)
        copy_object(self._store, key, archived, handle, Event())
        self._disk.sync(handle.descriptor)
        index = rebuild_index(handle, archived.base_offset, archived.size, INDEX_INTERVAL)
        segment.index_file.save(index, len(index))

    def _write_journals(self) -> None:
        for name in self._journals.journals:
            path = self._data / f"{name}{JOURNAL_SUFFIX}"
            with Journal.open(path, disk=self._disk) as journal:
                journal.rewrite(self._journals.entries(name))

    def _set_back(self, ends: Mapping[TopicPartition, int]) -> Iterator[SetBack]:
        """Let no group skip records that will get offsets which it has committed already."""
        with Journal.open(self._data / f"groups{JOURNAL_SUFFIX}", disk=self._disk) as journal:
            offsets = OffsetStore.open(journal)
            for group in sorted(offsets.groups()):
                changed = {}
                for where, committed in offsets.fetch(group).items():
                    end_offset = ends.get(where, 0)
                    if committed.offset > end_offset:
                        changed[where] = committed._replace(offset=end_offset)
                        yield SetBack(group, where, committed.offset, end_offset)
                offsets.commit(group, changed)

    def _finish(self) -> None:
        """Take the archive over, and make the directory one that a broker opens."""
        hand_over(self._store, self._data, self._disk)
        identity = json.dumps({"cluster_id": self._surveyed.identity.cluster_id}).encode()
        write_framed(self._disk, self._data / META, META_FORMAT, [identity])
        self._disk.unlink(self._data / RESTORING)
        self._disk.sync_directory(self._data)


def _aborted(manifest: Manifest) -> list[AbortedTransaction]:
    """The aborted transactions of all segments, by their ends; some lie in several segments."""
    found = {each.last_offset: each for segment in manifest.segments for each in segment.aborted}
    return [found[last_offset] for last_offset in sorted(found)]


def _known(segment: ArchivedSegment) -> KnownSegment:
    return KnownSegment(
        segment.base_offset,
        segment.end_offset,
        segment.size,
        segment.max_timestamp,
        segment.created_ms,
    )


def _prepare(data: Path, disk: Disk) -> int:
    """Take a directory that is new, empty or half restored; returns its lock."""
    disk.make_directory(data)
    lock = disk.lock(data / LOCK)
    if lock is None:
        raise ArchiveRefused(f"{data} is in use by another process; stop it, or choose another")
    try:
        names = set(disk.names(data)) - {LOCK, "lost+found"}
        if names and RESTORING not in names:
            raise ArchiveRefused(
                f"{data} is not empty, and nothing in it is overwritten; choose a new directory"
            )
        disk.close(disk.create(data / RESTORING))
        disk.sync_directory(data)
        for name in names - {RESTORING}:
            remove_tree(disk, data / name)
    except BaseException:
        disk.close(lock)
        raise
    return lock
