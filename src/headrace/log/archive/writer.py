"""Changing what an archive has of one partition, so that a crash at any point does no harm.

The order of steps is the whole of it; see `manifest` for the rule and `archived_log` for
what the broker may conclude when.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Self

from headrace.log.archive.archived_log import ArchivedLog
from headrace.log.archive.manifest import (
    MANIFEST_FORMAT,
    ArchivedSegment,
    Manifest,
)
from headrace.log.archive.store import CHUNK_BYTES, ArchiveStore, StoredObject
from headrace.log.archive.twins import TwinObject, Version
from headrace.log.disk import Disk
from headrace.log.epochs import EpochStart
from headrace.log.errors import ArchiveDamaged, ArchiveUnavailable, storage_error
from headrace.log.handles import FileHandle
from headrace.log.pace import Pace, at_once
from headrace.log.segment import Segment
from headrace.log.transactions import AbortedTransaction
from headrace.records.checksum import crc32c


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A whole segment in a local file, on its way to an archive."""

    path: Path
    disk: Disk
    base_offset: int
    end_offset: int
    size: int
    max_timestamp: int
    created_ms: int
    aborted: tuple[AbortedTransaction, ...] = ()

    @classmethod
    def of(cls, segment: Segment, aborted: tuple[AbortedTransaction, ...] = ()) -> Self:
        """Describe a sealed segment, whose file no longer changes."""
        return cls(
            segment.path,
            segment.disk,
            segment.base_offset,
            segment.end_offset,
            segment.size,
            segment.max_timestamp,
            segment.created_ms,
            aborted,
        )


class ArchiveWriter:
    """Changes one partition's archive and, after it, what the broker knows of it.

    Every method blocks on the store. They may be called from any thread, but only one at a time.
    All raise `ArchiveUnavailable` if the store fails, and can then be called again.
    """

    def __init__(
        self,
        store: ArchiveStore,
        archived: ArchivedLog,
        stopping: Event,
        pace: Pace = at_once,
    ) -> None:
        self._store = store
        self._pace = pace
        self._archived = archived
        self._stopping = stopping
        self._twin = TwinObject(store, f"{archived.partition.path}/manifest", MANIFEST_FORMAT)
        # Put and verified, but in no manifest yet: not worth a second upload.
        self._unrecorded: ArchivedSegment | None = None
        self._published_start = -1

    @property
    def trim_due(self) -> bool:
        """Whether the archive has, or would give back, what nobody may read any more."""
        archived = self._archived
        return archived.manifest.generation > 0 and (
            archived.start_offset > self._published_start
            or len(archived.segments) < len(archived.manifest.segments)
        )

    def reconcile(self) -> list[StoredObject]:
        """Learn what a crash kept this broker from noting, and remove what it left behind.

        Must come before any other change. Returns the objects that were removed.
        """
        manifest = read_manifest(self._twin)
        known = self._archived.manifest
        if manifest is None:
            manifest = Manifest(known.partition)
        if known.generation > manifest.generation:
            raise ArchiveDamaged(
                f"the archive of {known.partition} in {self._store} is older than this broker "
                f"knows it to be (state {manifest.generation} instead of {known.generation}): it "
                "was replaced or lost records; restore it before anything is archived again"
            )
        if manifest.generation != known.generation:
            self._archived.adopt(manifest)
        self._published_start = manifest.start_offset
        return self._sweep()

    def upload(self, source: SegmentFile, *, revision: int = 0) -> ArchivedSegment:
        """Put a segment's object and read it back; it counts once it is in a manifest.

        The local file is synced first: else a power loss could leave the log behind its archive.
        Raises `StorageError` if the local file cannot be read, and `ArchiveDamaged` if the store
        returns something else than was put.
        """
        handle = FileHandle.open(source.disk, source.path)
        _sync(source, handle)
        segment = ArchivedSegment(
            source.base_offset,
            source.end_offset,
            source.size,
            checksum_of(self._chunks(handle, source.size)),
            source.max_timestamp,
            source.created_ms,
            revision,
            source.aborted,
        )
        if segment != self._unrecorded:
            key = self._archived.partition.key(segment)
            self._store.put(key, self._paced(self._chunks(handle, source.size)))
            verify(self._store, key, segment)
            self._unrecorded = segment
        return segment

    def record(
        self, segment: ArchivedSegment, epochs: Sequence[EpochStart], log_start: int
    ) -> None:
        """Let an uploaded segment follow the others; from then on its local copy may go.

        The first one of an archive makes the log's start the archive's.
        """
        live = self._archived.segments
        if live and segment.base_offset < live[-1].end_offset:
            raise ArchiveDamaged(
                f"a segment of {self._archived.partition} from offset {segment.base_offset} cannot "
                f"follow the archive's end at {live[-1].end_offset}; nothing was changed"
            )
        start_offset = max(self._archived.start_offset, 0 if live else log_start)
        ended = tuple(start for start in epochs if start.offset < segment.end_offset)
        self._publish((*live, segment), ended, start_offset)
        self._unrecorded = None

    def trim(self) -> None:
        """Delete the segments that nobody may read any more."""
        self._publish(self._archived.segments, self._archived.manifest.epochs)

    def replace(self, old: ArchivedSegment, source: SegmentFile) -> ArchivedSegment:
        """Put a rewritten segment in the place of an archived one, whose bytes then go.

        The offsets must be the same. A crash leaves either of them in force; the other is removed
        by `reconcile` at the latest. Readers that hold the old one are not disturbed.
        """
        new = self.upload(source, revision=old.revision + 1)
        if (new.base_offset, new.end_offset) != (old.base_offset, old.end_offset):
            raise ArchiveDamaged(
                f"offsets {new.base_offset} to {new.end_offset} cannot take the place of "
                f"{old.base_offset} to {old.end_offset} in {self._archived.partition}"
            )
        segments = [new if each == old else each for each in self._archived.segments]
        self._publish(tuple(segments), self._archived.manifest.epochs)
        self._unrecorded = None
        return new

    def objects(self) -> list[StoredObject]:
        """Every object that the archive has of the partition, in force or not."""
        return list(self._store.list(self._archived.partition.path))

    def _publish(
        self,
        segments: tuple[ArchivedSegment, ...],
        epochs: Sequence[EpochStart],
        start_offset: int | None = None,
    ) -> None:
        before = self._archived.manifest
        manifest = replace(
            before,
            generation=before.generation + 1,
            start_offset=before.start_offset if start_offset is None else start_offset,
            segments=segments,
            epochs=epochs,
        )
        self._twin.write(Version(manifest.generation, [manifest.encode()]))
        self._published_start = manifest.start_offset
        self._archived.adopt(manifest)
        for gone in set(before.segments).difference(segments):
            self._store.delete(before.partition.key(gone))

    def _sweep(self) -> list[StoredObject]:
        partition = self._archived.partition
        kept = {partition.key(segment) for segment in self._archived.manifest.segments}
        kept.update(self._twin.keys())
        garbage = [found for found in self.objects() if found.key not in kept]
        for found in garbage:
            self._store.delete(found.key)
        return garbage

    def _chunks(self, handle: FileHandle, size: int) -> Iterator[bytes]:
        for position in range(0, size, CHUNK_BYTES):
            if self._stopping.is_set():
                raise ArchiveUnavailable("the broker stops; the upload is begun again after that")
            yield handle.read(min(CHUNK_BYTES, size - position), position)

    def _paced(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk
            self._pace(len(chunk))


def _sync(source: SegmentFile, handle: FileHandle) -> None:
    try:
        source.disk.sync(handle.descriptor)
        source.disk.sync_directory(source.path.parent)
    except OSError as error:
        raise storage_error(error, source.path, "fsync") from error


def read_manifest(twin: TwinObject) -> Manifest | None:
    """The manifest in force; None if there is none yet."""
    version = twin.read()
    return Manifest.decode(version.payloads[0]) if version.number else None


def verify(store: ArchiveStore, key: str, segment: ArchivedSegment) -> None:
    """Read a whole object; raises `ArchiveDamaged` if it is not what it should be."""
    checksum = size = 0
    try:
        for chunk in store.get(key):
            checksum = crc32c(chunk, checksum)
            size += len(chunk)
    except FileNotFoundError:
        raise ArchiveDamaged(f"{key} is missing in {store}") from None
    if (size, checksum) != (segment.size, segment.checksum):
        raise ArchiveDamaged(
            f"{key} in {store} has {size} bytes with checksum {checksum:08x} instead of "
            f"{segment.size} with {segment.checksum:08x}"
        )


def checksum_of(chunks: Iterable[bytes]) -> int:
    """The CRC-32C of a file or an object."""
    checksum = 0
    for chunk in chunks:
        checksum = crc32c(chunk, checksum)
    return checksum


def delete_topic(store: ArchiveStore, topic_path: str) -> None:
    """Delete everything that an archive has below a topic's path.

    Manifests go last, so that an interrupted deletion shows what it was about.
    """
    found = sorted(store.list(topic_path), key=lambda each: "/manifest-" in each.key)
    for each in found:
        store.delete(each.key)
