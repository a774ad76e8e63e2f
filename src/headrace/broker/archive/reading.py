"""Bringing archived segments back for readers, without anybody waiting in the event loop.

Several readers of a segment share one download. Whoever asks for a segment that is not here is told
so at once, and woken when there is news: the segment has come, it will not come, or there is room.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import NamedTuple

from headrace.clock import Clock
from headrace.log import Segment
from headrace.log.archive.cache import SegmentCache
from headrace.log.archive.manifest import ArchivedPartition, ArchivedSegment
from headrace.log.archive.store import ArchiveStore
from headrace.log.errors import ArchiveUnavailable, LogError

log = logging.getLogger("headrace.broker")

FIRST_PAUSE_MS = 1000
LONGEST_PAUSE_MS = 60_000
"""How long a segment that did not come is not asked for again: doubled from one to the other."""

Wake = Callable[[], None]
"""Called when it is worth asking again."""


class Failure(NamedTuple):
    """A segment that did not come."""

    reason: str
    pause_ms: int
    until_ms: int


class ArchiveReader:
    """The archived segments that are here, and those on their way; belongs to the event loop."""

    def __init__(
        self,
        store: ArchiveStore,
        cache: SegmentCache,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        threads: ThreadPoolExecutor,
        stopping: Event,
    ) -> None:
        self._store = store
        self._cache = cache
        self._loop = loop
        self._clock = clock
        self._threads = threads
        self._stopping = stopping
        self._waiting: dict[str, set[Wake]] = {}
        self._crowded: set[Wake] = set()
        self._failures: dict[str, Failure] = {}
        # Keys of segments that are on their way although nobody may read them any more.
        self._outdated: dict[str, list[asyncio.Future[None]]] = {}
        self.downloads = 0
        self.downloaded_bytes = 0
        self.failures = 0

    @property
    def cached_bytes(self) -> int:
        """How much room archived segments take up here."""
        return self._cache.size

    def segment(
        self,
        partition: ArchivedPartition,
        archived: ArchivedSegment,
        index_interval: int,
        wake: Wake,
    ) -> Segment | None:
        """A segment that is here; None if it is on its way, and `wake` is called later.

        Raises `ArchiveUnavailable` if it could not be brought back a moment ago.
        """
        key = partition.key(archived)
        found = self._cache.get(key)
        if found is not None:
            return found
        failure = self._failures.get(key)
        if failure is not None and self._clock.now_ms() < failure.until_ms:
            raise ArchiveUnavailable(failure.reason)
        if key not in self._waiting:
            dropped = self._cache.reserve(archived.size)
            if dropped is None:
                self._crowded.add(wake)
                return None
            self._waiting[key] = set()
            download = self._loop.run_in_executor(
                self._threads, self._bring_back, dropped, partition, archived, index_interval
            )
            download.add_done_callback(partial(self._arrived, key, archived))
        self._waiting[key].add(wake)
        return None

    def forget(
        self, partition: ArchivedPartition, archived: ArchivedSegment
    ) -> asyncio.Future[None]:
        """Let go of a segment whose object was replaced or deleted; done when no copy is left."""
        key = partition.key(archived)
        dropped = self._cache.discard(key)
        if dropped is not None:
            return self._loop.run_in_executor(self._threads, self._cache.remove, [dropped])
        gone: asyncio.Future[None] = self._loop.create_future()
        if key in self._waiting:
            self._outdated.setdefault(key, []).append(gone)
        else:
            gone.set_result(None)
        return gone

    def _bring_back(
        self,
        dropped: list[Segment],
        partition: ArchivedPartition,
        archived: ArchivedSegment,
        index_interval: int,
    ) -> Segment:
        self._cache.remove(dropped)
        return self._cache.bring_back(
            self._store, partition, archived, index_interval, self._stopping
        )

    def _arrived(
        self, key: str, archived: ArchivedSegment, download: asyncio.Future[Segment]
    ) -> None:
        segment = None
        try:
            segment = download.result()
        except (LogError, OSError) as error:
            self._note_failure(key, error)
        except asyncio.CancelledError:
            return
        else:
            self._failures.pop(key, None)
            self.downloads += 1
            self.downloaded_bytes += archived.size
        if key in self._outdated:
            self._drop_outdated(key, segment)
            segment = None
        self._cache.settle(key, archived.size, segment)
        crowded, self._crowded = self._crowded, set()
        # Those first who waited for this segment: the others need room, and would take its own.
        for wake in (*self._waiting.pop(key), *crowded):
            wake()

    def _drop_outdated(self, key: str, segment: Segment | None) -> None:
        """Remove a copy that came after its original had gone, and tell those who wait for that."""
        outdated = self._outdated.pop(key)
        removal = self._loop.run_in_executor(
            self._threads, self._cache.remove, [] if segment is None else [segment]
        )

        def tell(_: object) -> None:
            for gone in outdated:
                if not gone.done():
                    gone.set_result(None)

        removal.add_done_callback(tell)

    def _note_failure(self, key: str, error: Exception) -> None:
        before = self._failures.get(key)
        pause = min(2 * before.pause_ms, LONGEST_PAUSE_MS) if before else FIRST_PAUSE_MS
        self._failures[key] = Failure(str(error), pause, self._clock.now_ms() + pause)
        self.failures += 1
        log.error(
            "a reader waits for the archive, which is asked again in %g s: %s", pause / 1000, error
        )
