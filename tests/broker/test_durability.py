"""One fsync serves all who wait, and a failed one is told to every one of them."""

import asyncio
import threading

import pytest

from headrace.broker.durability import GroupCommit
from headrace.log.errors import StorageFailed
from tests.broker.raw_client import until


class File:
    """A file whose sync can be held up or made to fail."""

    def __init__(self) -> None:
        self.written = 0
        self.flushed = 0
        self.syncs = 0
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None

    def flush(self) -> int:
        written = self.written
        self.gate.wait(10)
        self.syncs += 1
        if self.failure is not None:
            raise self.failure
        return written

    def advance(self, flushed: int) -> None:
        self.flushed = flushed


async def test_what_is_written_in_one_turn_of_the_loop_shares_a_sync() -> None:
    commits = GroupCommit(asyncio.get_running_loop())
    file = File()
    waits = []
    for _ in range(10):
        file.written += 1
        waits.append(asyncio.ensure_future(commits.durable(file)))
    await asyncio.gather(*waits)
    assert file.syncs == 1
    assert file.flushed == 10
    commits.close()


async def test_who_comes_while_a_sync_runs_is_served_by_the_next() -> None:
    commits = GroupCommit(asyncio.get_running_loop())
    file = File()
    file.gate.clear()
    file.written = 1
    first = asyncio.ensure_future(commits.durable(file))
    await until(lambda: commits.syncs)
    later = []
    for _ in range(5):
        file.written += 1
        later.append(asyncio.ensure_future(commits.durable(file)))
    await asyncio.sleep(0)
    file.gate.set()
    await first
    await asyncio.gather(*later)
    assert file.syncs == 2
    assert file.flushed == 6
    await commits.drain()
    commits.close()


async def test_a_failed_sync_is_told_to_everybody_who_waits() -> None:
    commits = GroupCommit(asyncio.get_running_loop())
    file = File()
    file.failure = StorageFailed("the disk is gone")
    results = await asyncio.gather(
        commits.durable(file), commits.durable(file), return_exceptions=True
    )
    assert [type(result) for result in results] == [StorageFailed, StorageFailed]
    file.failure = OSError("something else")
    with pytest.raises(StorageFailed, match="something else"):
        await commits.durable(file)
    commits.close()
