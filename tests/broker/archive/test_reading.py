"""Archived segments on their way back: shared, bounded, and given up for a while when they fail."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
import pytest_asyncio

from headrace.broker.archive.reading import ArchiveReader
from headrace.clock import ManualClock
from headrace.log import SYSTEM_DISK, Segment
from headrace.log.archive.cache import SegmentCache
from headrace.log.archive.manifest import ArchivedSegment
from headrace.log.archive.store import StoredObject
from headrace.log.archive.writer import checksum_of
from headrace.log.errors import ArchiveUnavailable
from tests.broker.archive.world import IDENTITY
from tests.log.archive.stores import MemoryStore
from tests.log.batches import NOW, make_batch

ROOM = 1000


class Setup:
    """A reader with a small cache, and an archive with segments of one batch each."""

    def __init__(self, directory: Path) -> None:
        self.store = MemoryStore()
        self.gets: list[str] = []
        self.clock = ManualClock(NOW)
        self.directory = directory
        self.threads = ThreadPoolExecutor(2)
        self.reader = ArchiveReader(
            self,
            SegmentCache(directory, ROOM, SYSTEM_DISK),
            asyncio.get_running_loop(),
            self.clock,
            self.threads,
            Event(),
        )
        self.segments = []
        for offset in range(4):
            data = bytes(make_batch([NOW], value=b"x" * 300))
            segment = ArchivedSegment(
                offset, offset + 1, len(data), checksum_of([data]), NOW, NOW, revision=offset
            )
            self.store.objects[IDENTITY.key(segment)] = data
            self.segments.append(segment)

    def put(self, key: str, chunks: object) -> None:
        raise NotImplementedError

    def get(self, key: str):
        self.gets.append(key)
        return self.store.get(key)

    def list(self, prefix: str):
        return iter(list[StoredObject]())

    def delete(self, key: str) -> None:
        raise NotImplementedError

    def ask(self, number: int, wake: Callable[[], None]) -> Segment | None:
        return self.reader.segment(IDENTITY, self.segments[number], 100, wake)

    async def wait_for(self, number: int) -> Segment:
        news = asyncio.Event()
        while (found := self.ask(number, news.set)) is None:
            await asyncio.wait_for(news.wait(), 10)
            news.clear()
        return found

    @property
    def files(self) -> int:
        return sum(path.stat().st_size for path in self.directory.glob("*/*.log"))


@pytest_asyncio.fixture
async def setup(tmp_path: Path) -> AsyncIterator[Setup]:
    made = Setup(tmp_path / "cache")
    yield made
    made.threads.shutdown()


async def test_readers_of_a_segment_share_one_download(setup: Setup) -> None:
    first, second = await asyncio.gather(setup.wait_for(0), setup.wait_for(0))
    assert first is second
    assert len(setup.gets) == 1
    assert setup.reader.downloads == 1
    assert await setup.wait_for(0) is first


async def test_the_cache_stays_within_its_bounds(setup: Setup) -> None:
    for number in range(4):
        await setup.wait_for(number)
        assert setup.reader.cached_bytes <= ROOM
        assert setup.files <= ROOM
    await setup.wait_for(0)
    assert len(setup.gets) == 5


async def test_a_copy_that_has_to_go_leaves_its_successor_alone(tmp_path: Path) -> None:
    setup = Setup(tmp_path / "cache")
    cache = SegmentCache(setup.directory, ROOM, SYSTEM_DISK)

    def bring_back(number: int) -> Segment:
        segment = setup.segments[number]
        return cache.bring_back(setup.store, IDENTITY, segment, 100, Event())

    old = bring_back(0)
    read = old.slice(0, 1, ROOM, at_least_one=True)
    before = read.read()
    # Another thread is about to remove the old copy while this one comes back already.
    new = bring_back(0)
    assert read.read() == before
    cache.remove([old])
    assert new.slice(0, 1, ROOM, at_least_one=True).read() == before
    cache.remove([new])
    assert not list(setup.directory.iterdir())
    setup.threads.shutdown()


async def test_more_readers_than_there_is_room_for_come_one_after_another(setup: Setup) -> None:
    found = await asyncio.gather(*(setup.wait_for(number) for number in range(4)))
    assert [segment.base_offset for segment in found] == [0, 1, 2, 3]
    assert setup.reader.cached_bytes <= ROOM


async def test_a_slice_stays_readable_after_its_segment_has_left_the_cache(setup: Setup) -> None:
    segment = await setup.wait_for(0)
    held = segment.slice(0, 1, 1000, True)
    for number in (1, 2, 3):
        await setup.wait_for(number)
    assert held.read() == setup.store.objects[IDENTITY.key(setup.segments[0])]


async def test_a_store_that_fails_is_asked_again_after_a_pause(setup: Setup) -> None:
    setup.store.down = True
    with pytest.raises(ArchiveUnavailable):
        await setup.wait_for(0)
    setup.store.down = False
    with pytest.raises(ArchiveUnavailable):
        await setup.wait_for(0)
    assert len(setup.gets) == 1
    setup.clock.advance(1.001)
    await setup.wait_for(0)
    assert setup.reader.failures == 1


async def test_a_damaged_object_is_never_served(setup: Setup) -> None:
    key = IDENTITY.key(setup.segments[0])
    setup.store.objects[key] = setup.store.objects[key][:-1] + b"?"
    with pytest.raises(ArchiveUnavailable, match="damaged"):
        await setup.wait_for(0)
    assert setup.files == 0


async def test_what_an_earlier_process_left_behind_is_removed(setup: Setup) -> None:
    await setup.wait_for(0)
    SegmentCache(setup.directory, ROOM, SYSTEM_DISK).clear()
    assert not setup.directory.exists()
