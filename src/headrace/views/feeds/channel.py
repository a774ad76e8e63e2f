"""The frames of one kind of feed, shared by all who subscribe to it."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from headrace.views.feeds.encoding import encoded_change, event
from headrace.views.feeds.tokens import Token
from headrace.views.filters import Filter, matches
from headrace.views.materialized.store import Change

RING_BYTES: Final = 1 << 20
"""How much of the last frames of a channel is at hand; who is further behind reads the store."""


class Frame(NamedTuple):
    """What happened between two sequences."""

    start: int
    end: int
    data: bytes
    """The changes, as JSON."""

    sent: bytes
    """The same as an event of an event stream."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a feed is of: a key, the rows that a filter wants, or everything."""

    key: str | None = None
    where: Filter | None = None

    def has(self, key: str, row: Mapping[str, Any] | None) -> bool:
        """Whether a row is in it."""
        if self.key is not None and self.key != key:
            return False
        return row is not None if self.where is None else matches(self.where, row)


class Rows:
    """Rows of changes as they are needed: parsed once, and only if somebody has a filter."""

    def __init__(self) -> None:
        self._parsed: dict[bytes, Any] = {}

    def of(self, row: bytes | None) -> Any:
        """The row, parsed."""
        if row is None:
            return None
        found = self._parsed.get(row)
        if found is None:
            found = self._parsed[row] = orjson.loads(row)
        return found


class Channel:
    """Recent frames, and those who wait for the next one."""

    def __init__(self, scope: Scope, published: int) -> None:
        self.scope = scope
        self.subscribers = 0
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._floor = published
        self._waiting: list[asyncio.Future[None]] = []

    def publish(
        self, changes: Iterable[Change], rows: Rows, start: int, token: Token, position: bytes
    ) -> None:
        """Make a frame of those changes that are in scope, and wake those who wait."""
        if told := self._told(changes, rows):
            data = b'{"changes":[%b],"position":%b}' % (b",".join(told), position)
            frame = Frame(start, token.sequence, data, event("changes", data, token))
            self._frames.append(frame)
            self._bytes += len(frame.sent)
            while self._bytes > RING_BYTES and len(self._frames) > 1:
                gone = self._frames.popleft()
                self._bytes -= len(gone.sent)
                self._floor = gone.end
            self.wake()

    def forget(self, published: int) -> None:
        """Let everybody go on from the store: frames are missing, or of another one."""
        self._frames.clear()
        self._bytes = 0
        self._floor = published
        self.wake()

    def after(self, sequence: int) -> list[Frame] | None:
        """The frames behind a sequence; None if some are not at hand any more."""
        if sequence < self._floor:
            return None
        found = [each for each in self._frames if each.end > sequence]
        if found and found[0].start < sequence:
            return None
        return found

    async def wait(self) -> None:
        """Return when there is a frame, or something else to look at."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def wake(self) -> None:
        """Let all who wait look again."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def _told(self, changes: Iterable[Change], rows: Rows) -> list[bytes]:
        scope = self.scope
        if scope.where is None:
            return [
                encoded_change(each.key, each.before is not None, each.after)
                for each in changes
                if scope.key is None or scope.key == each.key
            ]
        found = []
        for each in changes:
            if scope.key is not None and scope.key != each.key:
                continue
            had = matches(scope.where, rows.of(each.before))
            has = matches(scope.where, rows.of(each.after))
            if had or has:
                found.append(encoded_change(each.key, had, each.after if has else None))
        return found
