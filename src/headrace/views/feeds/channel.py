"""The frames of one kind of feed, shared by all who subscribe to it."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from headrace.views.feeds.encoding import encoded_change, event
from headrace.views.feeds.tokens import Token
from headrace.views.filters import Filter, matches
from headrace.views.materialized.store import Change

RING_BYTES: Final = 1 << 20
"""How much of the last frames of a channel is at hand; who is further behind reads the store."""


FRAME_BYTES: Final = 1 << 16
"""How large a frame gets, but for a row that is larger: a subscriber that does not read keeps one
of them, however much happens at once."""


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
        """Make frames of those changes that are in scope, and wake those who wait."""
        told: list[bytes] = []
        size, began, reached = 0, start, start
        for sequence, change in self._told(changes, rows):
            if told and size + len(change) > FRAME_BYTES:
                # The position is that of the end, where the view is not yet.
                data = b'{"changes":[%b]}' % b",".join(told)
                self._add(start, token._replace(sequence=reached), data)
                told, size, start = [], 0, reached
            told.append(change)
            size += len(change)
            reached = sequence
        if told:
            data = b'{"changes":[%b],"position":%b}' % (b",".join(told), position)
            self._add(start, token, data)
            self._trim(began)
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

    def _add(self, start: int, token: Token, data: bytes) -> None:
        frame = Frame(start, token.sequence, data, event("changes", data, token))
        self._frames.append(frame)
        self._bytes += len(frame.sent)

    def _trim(self, kept: int) -> None:
        """Forget the oldest frames; not those behind `kept`, which nobody could have taken yet."""
        while self._bytes > RING_BYTES and self._frames[0].end <= kept:
            gone = self._frames.popleft()
            self._bytes -= len(gone.sent)
            self._floor = gone.end

    def _told(self, changes: Iterable[Change], rows: Rows) -> Iterator[tuple[int, bytes]]:
        """The changes in scope as subscribers see them, with their sequences."""
        scope = self.scope
        if scope.where is None:
            for each in changes:
                if scope.key is None or scope.key == each.key:
                    had = each.before is not None
                    yield each.sequence, encoded_change(each.key, had, each.after)
            return
        for each in changes:
            if scope.key is not None and scope.key != each.key:
                continue
            had = matches(scope.where, rows.of(each.before))
            has = matches(scope.where, rows.of(each.after))
            if had or has:
                yield each.sequence, encoded_change(each.key, had, each.after if has else None)
