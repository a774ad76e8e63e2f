"""Looking, before the first reader does, whether stored segments are still what was written.

What this process has appended was checked when it arrived. What it found on the disk when it
started is verified when somebody first wants to read it, segment by segment, in a thread of its
own; until then there is nothing to read, as at the end of a log.
"""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

from headrace.broker.metrics import Metrics
from headrace.log import Segment
from headrace.log.errors import LogError
from headrace.log.pace import Pace, Throttle
from headrace.log.verification import Verdict

if TYPE_CHECKING:
    from headrace.broker.partition import Partition

log = logging.getLogger("headrace.broker")


class Stopping(LogError):
    """The broker stops, and does not wait until a segment was read to its end."""


class Verification:
    """Verifies segments on demand, one at a time; belongs to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, metrics: Metrics) -> None:
        self._loop = loop
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, "headrace-verify")
        self._under_way: dict[Segment, asyncio.Future[None]] = {}
        self._stopping = Event()

    def request(self, partition: "Partition", segment: Segment) -> "asyncio.Future[None]":
        """Have a segment verified; readers of the partition are woken when it is."""
        found = self._under_way.get(segment)
        if found is None:
            task = self._loop.create_task(self._verify(partition, segment))
            found = self._under_way[segment] = task
        return found

    def close(self) -> None:
        """Verify nothing more, and let go of the thread; may be called from any."""
        self._stopping.set()
        self._thread.shutdown()

    async def _verify(self, partition: "Partition", segment: Segment) -> None:
        try:
            verdict = await self._loop.run_in_executor(
                self._thread, partition.log.verify, segment, self._pace
            )
        except LogError:
            # The topic was deleted, or the broker stops.
            return
        finally:
            del self._under_way[segment]
        settle(partition, segment, verdict, self._metrics)
        partition.look_again()

    def _pace(self, count: int) -> None:
        if self._stopping.is_set():
            raise Stopping("the broker is stopping")


def settle(partition: "Partition", segment: Segment, verdict: Verdict, metrics: Metrics) -> int:
    """Let a partition's log know a verdict, report what is new of it, and count that."""
    metrics.verified_bytes += verdict.extent.size
    found = partition.log.settle(segment, verdict)
    for damage in found:
        log.error("%s-%d: %s", partition.topic, partition.index, damage)
    return len(found)


def throttle(bytes_per_second: int, stopping: Event) -> Pace:
    """A pace that stays below a rate, and ends when the broker does."""

    def nap(seconds: float) -> None:
        if stopping.wait(seconds):
            raise Stopping("the broker is stopping")

    return Throttle(bytes_per_second, nap)
