"""What a broker does by the clock: syncs, checkpoints, retention, compaction, idle clients."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.broker.core import BrokerCore
from headrace.broker.partition import Partition
from headrace.errors import HeadraceError
from headrace.log import Flush
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.cleaning import Cleaner
    from headrace.broker.server import Server

log = logging.getLogger("headrace.broker")

CHECKPOINT_SECONDS = 60.0
"""Time between checkpoints, which bound how much a crash makes the next start read again."""

SWEEP_SECONDS = 5.0
"""Time between looks for idle and stalled connections."""


class Housekeeping:
    """Runs the broker's periodic work until it is stopped."""

    def __init__(self, core: BrokerCore, server: "Server") -> None:
        self._core = core
        self._server = server
        self._tasks: list[asyncio.Task[None]] = []

    @cached_property
    def _cleaner(self) -> "Cleaner":
        from headrace.broker.cleaning import Cleaner

        return Cleaner(self._core)

    def start(self) -> None:
        """Begin; every chore has its own rhythm."""
        settings = self._core.settings
        for chore, seconds in (
            (self._sync, settings.flush_interval_ms / 1000),
            (self._checkpoint, CHECKPOINT_SECONDS),
            (self._retain, settings.retention_check_ms / 1000),
            (self._sweep, SWEEP_SECONDS),
            (self._cleaner.check, settings.compaction_check_ms / 1000),
        ):
            self._tasks.append(asyncio.ensure_future(_repeat(chore, seconds)))

    async def stop(self) -> None:
        """Stop all chores and wait until they have."""
        self._cleaner.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _sync(self) -> None:
        if self._core.settings.flush == Flush.INTERVAL:
            self._core.sync_journals()
        for partition in self._core.partitions():
            if partition.dirty and partition.log.settings.flush is Flush.INTERVAL:
                self._core.commits.request(partition)

    async def _checkpoint(self) -> None:
        self._core.sync_journals()
        for partition in list(self._core.partitions()):
            await self._attempt(partition, self._checkpoint_one)

    async def _checkpoint_one(self, partition: Partition) -> None:
        await self._core.loop.run_in_executor(None, partition.log.checkpoint)

    async def _retain(self) -> None:
        for partition in list(self._core.partitions()):
            # Retention first: where the disk is full, it makes the room that a new segment needs.
            await self._attempt(partition, self._retain_one)
            await self._attempt(partition, self._roll_one)
        await self.remove_deleted()
        self._core.topics.compact_if_due()
        self._core.producer_ids.compact_if_due()

    async def _retain_one(self, partition: Partition) -> None:
        retired = partition.enforce_retention(self._core.clock.now_ms())
        self._core.note_log_start(partition)
        if retired:
            self._core.metrics.retired_bytes += retired.bytes
            await self._core.loop.run_in_executor(None, retired.remove)

    async def _roll_one(self, partition: Partition) -> None:
        partition.log.roll_if_due()

    async def _attempt(
        self, partition: Partition, chore: Callable[[Partition], Awaitable[None]]
    ) -> None:
        """Do something for one partition; what goes wrong there is no reason to skip the others."""
        if partition.retired:
            return
        try:
            await chore(partition)
        except (LogError, OSError) as error:
            if not partition.retired:
                log.error(
                    "housekeeping of %s-%d failed and is tried again later: %s",
                    partition.topic,
                    partition.index,
                    error,
                )

    async def remove_deleted(self) -> None:
        """Unlink the files of deleted topics."""
        removals = self._core.topics.removals
        while removals:
            await self._core.loop.run_in_executor(None, removals.pop().remove)

    async def _sweep(self) -> None:
        await self.remove_deleted()
        self._server.sweep()


async def _repeat(chore: Callable[[], Awaitable[None]], seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await chore()
        except (HeadraceError, OSError):
            log.exception("housekeeping failed; it is tried again in %g s", seconds)
