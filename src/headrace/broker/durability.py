"""Group commit: one fsync serves everybody who waits for it.

For each file there is at most one fsync at a time. Whoever asks while it runs is served by the next
one, which begins as soon as the first is done: the busier the disk, the more appends share a sync.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from headrace.log.errors import StorageFailed

log = logging.getLogger("headrace.broker")

SYNC_THREADS = 4
"""How many files may be synced at the same time."""

Waiter = Callable[[StorageFailed | None], None]
"""Called once the data is on the disk, or with the reason why it never will be."""


class Durable(Protocol):
    """Something that can be written and then synced; compared by identity."""

    def flush(self) -> int:
        """Block until everything written before the call is on the disk."""
        ...

    def advance(self, flushed: int) -> object:
        """Take note, in the owner's thread, that a flush has ended with this result."""
        ...


class GroupCommit:
    """Syncs files in a few threads and tells those who wait, in the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="headrace-sync")
        self._waiting: dict[Durable, list[Waiter]] = {}
        self._syncing: set[Durable] = set()
        self._idle: list[asyncio.Future[None]] = []
        self.syncs = 0

    def request(self, target: Durable, waiter: Waiter | None = None) -> None:
        """Sync what has been written to a file so far, and tell the waiter."""
        waiting = self._waiting.setdefault(target, [])
        if waiter is not None:
            waiting.append(waiter)
        if target not in self._syncing:
            # Begun in the next turn of the loop: what else arrives in this one shares the sync.
            self._syncing.add(target)
            self._loop.call_soon(self._begin, target)

    async def durable(self, target: Durable) -> None:
        """Wait until what has been written to a file so far is on the disk."""
        done: asyncio.Future[None] = self._loop.create_future()

        def told(error: StorageFailed | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self.request(target, told)
        await done

    async def drain(self) -> None:
        """Wait until no sync is under way or wanted."""
        while self._syncing:
            idle: asyncio.Future[None] = self._loop.create_future()
            self._idle.append(idle)
            await idle

    def close(self) -> None:
        """Let go of the threads; nothing may be under way."""
        self._threads.shutdown()

    def _begin(self, target: Durable) -> None:
        waiters = self._waiting.pop(target)
        self.syncs += 1
        future = self._loop.run_in_executor(self._threads, target.flush)
        future.add_done_callback(lambda done: self._finish(target, waiters, done))

    def _finish(self, target: Durable, waiters: list[Waiter], done: asyncio.Future[int]) -> None:
        error = done.exception()
        failure: StorageFailed | None = None
        if error is None:
            target.advance(done.result())
        elif isinstance(error, StorageFailed):
            failure = error
        else:
            log.error("sync failed", exc_info=error)
            failure = StorageFailed(f"sync failed: {error}")
        for waiter in waiters:
            waiter(failure)
        if target in self._waiting:
            self._begin(target)
            return
        self._syncing.discard(target)
        if not self._syncing:
            idle, self._idle = self._idle, []
            for future in idle:
                if not future.done():
                    future.set_result(None)
