"""Group commit: one fsync serves everybody who waits for it.

For each file there is at most one fsync at a time. Whoever asks while it runs is served by the next
one, which begins as soon as the first is done: the busier the disk, the more appends share a sync.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from headrace.log.errors import LogError, StorageFailed

log = logging.getLogger("headrace.broker")

SYNC_THREADS = 4
"""How many files may be synced at the same time."""

Waiter = Callable[[LogError | None], None]
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
    """Syncs files in a few threads and tells those who wait, in the event loop.

    The threads take files from a queue and report with one call back into the loop. An executor
    and its futures would cost more than a good disk's sync.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: SimpleQueue[Durable | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._sync_files, name=f"headrace-sync-{number}", daemon=True)
            for number in range(SYNC_THREADS)
        ]
        for thread in self._threads:
            thread.start()
        self._served: dict[Durable, list[Waiter]] = {}
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

        def told(error: LogError | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self.request(target, told)
        await done

    def is_busy_with(self, target: Durable | None) -> bool:
        """Whether a sync of a file is under way or wanted."""
        return target in self._syncing

    async def drain(self) -> None:
        """Wait until no sync is under way or wanted."""
        while self._syncing:
            idle: asyncio.Future[None] = self._loop.create_future()
            self._idle.append(idle)
            await idle

    def close(self) -> None:
        """Let go of the threads; nothing may be under way."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _begin(self, target: Durable) -> None:
        self._served[target] = self._waiting.pop(target)
        self.syncs += 1
        self._queue.put(target)

    def _sync_files(self) -> None:
        while (target := self._queue.get()) is not None:
            flushed, failure = 0, None
            try:
                flushed = target.flush()
            except LogError as error:
                failure = error
            except Exception as error:
                log.exception("sync failed")
                failure = StorageFailed(f"sync failed: {error}")
            self._loop.call_soon_threadsafe(self._finish, target, flushed, failure)

    def _finish(self, target: Durable, flushed: int, failure: LogError | None) -> None:
        if failure is None:
            target.advance(flushed)
        for waiter in self._served.pop(target):
            try:
                waiter(failure)
            except Exception:
                # The others are still to be told, and the next sync is still to begin.
                log.exception("somebody could not be told about a sync")
        if target in self._waiting:
            self._begin(target)
            return
        self._syncing.discard(target)
        if not self._syncing:
            idle, self._idle = self._idle, []
            for future in idle:
                if not future.done():
                    future.set_result(None)
