"""How fast work in the background may go while producers keep the disk and the processors busy."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore
    from headrace.broker.partition import Partition

BUSY_BYTES: Final = 64 << 20
"""Bytes a second from which on producers count as busy: below, both fit beside each other."""

LOOK_SECONDS: Final = 0.2
"""How often producers are looked at."""


class Traffic:
    """Measures what producers write, from one call of `limit` to the next.

    Background work is held to `floor` bytes a second while producers are busy, but never to less
    than it takes to keep up with what they add to its own topics, each byte of which it moves
    `moves` times.
    """

    def __init__(
        self, floor: int, moves: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._floor = floor
        self._moves = moves
        self._clock = clock
        self._seen: tuple[float, int, int] | None = None

    def limit(self, written: int, concerned: int) -> int:
        """Bytes a second that background work may move now, 0 for as many as it can.

        Args:
            written: How many bytes producers have written to all topics, ever.
            concerned: How many of these the work has to do with.
        """
        now = self._clock()
        before, self._seen = self._seen, (now, written, concerned)
        if before is None or now <= before[0]:
            return 0
        seconds = now - before[0]
        if (written - before[1]) / seconds < BUSY_BYTES:
            return 0
        return max(self._floor, round(self._moves * (concerned - before[2]) / seconds))


@asynccontextmanager
async def beside_producers(
    core: "BrokerCore",
    traffic: Traffic,
    tell: Callable[[int], None],
    *,
    concerns: Callable[["Partition"], bool],
) -> AsyncIterator[None]:
    """Tell work how fast it may go, whenever that changes, for as long as the block lasts.

    Args:
        core: The broker whose producers are minded.
        traffic: What they may be disturbed by.
        tell: Called with bytes a second, 0 for no limit, as it is at the end.
        concerns: Whether the work has to do with a partition.
    """
    minding = asyncio.ensure_future(_mind(core, traffic, tell, concerns))
    try:
        yield
    finally:
        minding.cancel()
        tell(0)


async def _mind(
    core: "BrokerCore",
    traffic: Traffic,
    tell: Callable[[int], None],
    concerns: Callable[["Partition"], bool],
) -> None:
    told = 0
    while True:
        written = concerned = 0
        for partition in core.partitions():
            written += partition.bytes_in
            if concerns(partition):
                concerned += partition.bytes_in
        limit = traffic.limit(written, concerned)
        if limit != told:
            tell(limit)
            told = limit
        await asyncio.sleep(LOOK_SECONDS)
