"""Memory for requests in flight: a bounded total, handed out as reusable receive buffers.

A small request is received in a scratch buffer that all connections share. A larger one needs a
buffer of its own until its last byte is in; those come from here. When the total is used up, a
connection waits its turn and is not read from meanwhile, so that TCP slows its client down.
"""

from collections.abc import Callable

SMALLEST_BUFFER = 4 * 1024
"""Buffers are powers of two from this size on, so that one serves many requests."""

KEPT_BYTES = 16 * 1024 * 1024
"""Returned buffers are kept for reuse up to this many bytes together."""

Granted = Callable[[bytearray], None]
"""Given the buffer that was waited for."""


class RequestMemory:
    """Hands out receive buffers and never more than `limit` bytes of them at a time.

    First come, first served: while somebody waits, nobody is served before, so that large requests
    are not kept waiting by small ones. A buffer larger than the limit is handed out when nothing
    else is: a request is bounded by the largest request size, so the total is at most the larger
    of the two.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_use = 0
        self._kept: dict[int, list[bytearray]] = {}
        self._kept_bytes = 0
        self._waiting: dict[Granted, int] = {}

    def take(self, size: int) -> bytearray | None:
        """A buffer of at least `size` bytes, or None when there is no room for it now."""
        return None if self._waiting else self._allot(size)

    def give_back(self, buffer: bytearray) -> None:
        """Return a buffer; those who wait get theirs, as far as there is room."""
        size = len(buffer)
        self.in_use -= size
        if self._kept_bytes + size <= KEPT_BYTES:
            self._kept.setdefault(size, []).append(buffer)
            self._kept_bytes += size
        self._serve()

    def wait(self, size: int, granted: Granted) -> None:
        """Call `granted` with a buffer of at least `size` bytes when its turn has come."""
        self._waiting[granted] = size

    def stop_waiting(self, granted: Granted) -> None:
        """Forget somebody who has gone away while waiting; the next may need less."""
        if self._waiting.pop(granted, None) is not None:
            self._serve()

    def _allot(self, size: int) -> bytearray | None:
        rounded = max(SMALLEST_BUFFER, 1 << (size - 1).bit_length())
        if self.in_use and self.in_use + rounded > self.limit:
            return None
        self.in_use += rounded
        if kept := self._kept.get(rounded):
            self._kept_bytes -= rounded
            return kept.pop()
        return bytearray(rounded)

    def _serve(self) -> None:
        while self._waiting:
            granted, size = next(iter(self._waiting.items()))
            buffer = self._allot(size)
            if buffer is None:
                return
            del self._waiting[granted]
            granted(buffer)
