"""Memory for requests in flight: a bounded total, handed out as reusable receive buffers.

A small request is received in a scratch buffer that all connections share. A larger one needs a
buffer of its own until its last byte is in; those come from here. When the total is used up, a
connection waits its turn and is not read from meanwhile, so that TCP slows its client down.
"""

from collections import deque
from collections.abc import Callable

SMALLEST_BUFFER = 64 * 1024
"""Buffers are powers of two from this size on, so that one serves many requests."""

KEPT_BYTES = 16 * 1024 * 1024
"""Returned buffers are kept for reuse up to this many bytes together."""


class RequestMemory:
    """Hands out receive buffers and never more than `limit` bytes of them at a time.

    A buffer larger than the limit is handed out when nothing else is: a request is bounded by the
    largest request size, so the total is at most the larger of the two.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_use = 0
        self._kept: dict[int, list[bytearray]] = {}
        self._kept_bytes = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, size: int) -> bytearray | None:
        """A buffer of at least `size` bytes, or None when there is no room for it now."""
        rounded = max(SMALLEST_BUFFER, 1 << (size - 1).bit_length())
        if self.in_use and self.in_use + rounded > self.limit:
            return None
        self.in_use += rounded
        if kept := self._kept.get(rounded):
            self._kept_bytes -= rounded
            return kept.pop()
        return bytearray(rounded)

    def give_back(self, buffer: bytearray) -> None:
        """Return a buffer; the connections that wait for room are told in their order."""
        size = len(buffer)
        self.in_use -= size
        if self._kept_bytes + size <= KEPT_BYTES:
            self._kept.setdefault(size, []).append(buffer)
            self._kept_bytes += size
        for _ in range(len(self._waiting)):
            self._waiting.popleft()()

    def wait(self, retry: Callable[[], None]) -> None:
        """Call `retry` when there may be room again; it takes again or waits again."""
        self._waiting.append(retry)

    def stop_waiting(self, retry: Callable[[], None]) -> None:
        """Forget a connection that has gone away while it waited."""
        if retry in self._waiting:
            self._waiting.remove(retry)
