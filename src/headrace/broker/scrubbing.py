"""Reading what is stored from time to time, since a disk may forget what nobody asks it for."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

from headrace.broker.verification import settle, throttle
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

log = logging.getLogger("headrace.broker")


class Scrubbing:
    """Verifies all sealed segments in rounds, slowly, from the disk rather than from memory."""

    def __init__(self, core: "BrokerCore") -> None:
        self._core = core
        self._thread = ThreadPoolExecutor(1, "headrace-scrub")
        self._stopping = Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin the first round when the interval has passed; never if it has no end."""
        if self._core.settings.scrub_interval_ms >= 0:
            self._task = asyncio.ensure_future(self._repeat())

    async def stop(self) -> None:
        """End in the middle of a segment."""
        self._stopping.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()

    async def scrub(self) -> int:
        """One round; return how many damages were found that were not known."""
        segments = size = found = 0
        pace = throttle(self._core.settings.scrub_rate, self._stopping)
        for partition in list(self._core.partitions()):
            for segment in partition.log.sealed_segments():
                try:
                    verdict = await self._core.loop.run_in_executor(
                        self._thread, partition.log.scrub, segment, pace
                    )
                except LogError:
                    # The topic was deleted, or the broker stops.
                    break
                found += settle(partition, segment, verdict, self._core.metrics)
                segments += 1
                size += verdict.extent.size
        log.info(
            "scrubbed %d segments with %d bytes; %s",
            *(segments, size, f"{found} new damages" if found else "nothing new is damaged"),
        )
        self._core.metrics.scrubs += 1
        return found

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self._core.settings.scrub_interval_ms / 1000)
            await self.scrub()
