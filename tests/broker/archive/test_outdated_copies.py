"""A copy of an archived segment that arrives after its original was replaced does not stay."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from crc32c import crc32c

from headrace.broker.archive.reading import ArchiveReader
from headrace.clock import ManualClock
from headrace.log import SYSTEM_DISK
from headrace.log.archive.cache import SegmentCache
from headrace.log.archive.directory_store import DirectoryStore
from headrace.log.archive.manifest import ArchivedPartition, ArchivedSegment
from headrace.records import Record, build_batch

PARTITION = ArchivedPartition("people", "1f", 0)
BATCH = bytes(build_batch([Record(b"key", b"value")], timestamp=0))
SEGMENT = ArchivedSegment(0, 1, len(BATCH), crc32c(BATCH), 0, 0)


class SlowStore(DirectoryStore):
    """A store that gives nothing back until it may."""

    may_answer = Event()

    def get(self, key: str) -> Iterator[bytes]:
        assert self.may_answer.wait(10)
        return super().get(key)


async def test_a_late_copy_is_removed_and_whoever_forgot_it_is_told(tmp_path: Path) -> None:
    store = SlowStore(tmp_path / "archive")
    store.put(PARTITION.key(SEGMENT), [BATCH])
    cache = tmp_path / "cache"
    woken = asyncio.Event()
    with ThreadPoolExecutor(1) as threads:
        reader = ArchiveReader(
            store,
            SegmentCache(cache, 1 << 20, SYSTEM_DISK),
            asyncio.get_running_loop(),
            ManualClock(),
            threads,
            Event(),
        )
        assert reader.segment(PARTITION, SEGMENT, 4096, woken.set) is None
        gone = reader.forget(PARTITION, SEGMENT)
        assert not gone.done()
        store.may_answer.set()
        await asyncio.wait_for(gone, 10)
        await asyncio.wait_for(woken.wait(), 10)
        assert [path for path in cache.rglob("*") if path.is_file()] == []
        assert reader.cached_bytes == 0

        # One that is here goes at once, and one that never was is no reason to wait.
        woken.clear()
        assert reader.segment(PARTITION, SEGMENT, 4096, woken.set) is None
        await asyncio.wait_for(woken.wait(), 10)
        assert reader.segment(PARTITION, SEGMENT, 4096, woken.set) is not None
        await asyncio.wait_for(reader.forget(PARTITION, SEGMENT), 10)
        assert [path for path in cache.rglob("*") if path.is_file()] == []
        assert reader.forget(PARTITION, SEGMENT).done()
