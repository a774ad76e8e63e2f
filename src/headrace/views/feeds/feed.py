"""One subscriber: a snapshot, then every change, and what it is told when that cannot be.

    snapshot (one or several)   the view at one sequence, by key
    up-to-date                  everything that the server has is with you
    changes                     what happened since, to a later sequence
    must-refetch                what you have cannot be continued; a snapshot follows

After any event but the first parts of a snapshot a subscriber that applied them all has exactly the
rows that the view had at the sequence of the event's token.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import orjson

from headrace.views.feeds.channel import Channel, Frame, Scope
from headrace.views.feeds.encoding import encoded_rows, event
from headrace.views.feeds.squashing import squashed
from headrace.views.feeds.tokens import Token
from headrace.views.materialized import lookup
from headrace.views.materialized.lookup import HistoryGone
from headrace.views.materialized.store import KeyedRow, Snapshot

if TYPE_CHECKING:
    from headrace.views.feeds.hub import Hub

T = TypeVar("T")

_PAGE_ROWS: Final = 1_000
"""Rows of a snapshot that are told at a time."""

_EVENT_BYTES: Final = 1 << 16
"""How much of frames is told at a time: what a subscriber that does not read keeps in memory."""

_SQUASHED_CHANGES: Final = 5_000
"""Changes of the history that become one event, for those who are behind."""


class Event(NamedTuple):
    """Something that a subscriber is told."""

    name: str
    data: tuple[bytes, ...]
    """JSON; of changes there may be several, one behind the other."""

    token: Token
    sent: bytes = b""
    """As it goes over an event stream, if it is made already."""

    @property
    def stream(self) -> bytes:
        """As it goes over an event stream."""
        return self.sent or event(self.name, self.data[0], self.token)


class Feed:
    """Tells one subscriber what happens in its scope; `next` until it has enough, then `close`."""

    def __init__(self, hub_of: "Callable[[], Hub]", scope: Scope, since: Token | None) -> None:
        self._hub_of = hub_of
        self._scope = scope
        self._hub = hub_of()
        self._channel: Channel = self._hub.channel(scope)
        self._reason = ""
        self._since = since
        self._snapshot: Token | None = None
        self._told_up_to_date = False
        self._sequence = 0
        self._handle = ""

    def close(self) -> None:
        """Take leave."""
        self._hub.leave(self._channel)

    async def next(self) -> Event:
        """What to tell next; waits until there is something."""
        while True:
            if self._hub_of() is not self._hub:
                self._move()
            if not self._hub.state.complete:
                await self._channel.wait()
                continue
            if not self._handle and (told := self._begin()) is not None:
                return told
            if self._handle != self._hub.state.handle:
                return self._refetch("the view was built anew, or another one is served")
            if self._snapshot is not None:
                return await self._page(self._snapshot)
            frames = self._channel.after(self._sequence)
            if frames is None:
                if (told := await self._catch_up()) is not None:
                    return told
                continue
            if frames:
                return self._frames(frames)
            # A token from a read may be ahead of the channels, by a tick.
            self._sequence = max(self._sequence, self._hub.state.sequence)
            if not self._told_up_to_date:
                return self.up_to_date()
            await self._channel.wait()

    def up_to_date(self) -> Event:
        """That the subscriber has everything, and where that is."""
        self._told_up_to_date = True
        return Event("up-to-date", (b"{}",), self._at(self._sequence))

    @property
    def is_up_to_date(self) -> bool:
        """Whether the subscriber was told that it has everything."""
        return self._told_up_to_date and self._snapshot is None

    def _frames(self, frames: list[Frame]) -> Event:
        """The first frames, as one event unless they are large."""
        told = frames[:1]
        size = len(told[0].sent)
        for each in frames[1:]:
            size += len(each.sent)
            if size > _EVENT_BYTES:
                break
            told.append(each)
        self._sequence = told[-1].end
        return Event(
            "changes",
            tuple(each.data for each in told),
            self._at(self._sequence),
            told[0].sent if len(told) == 1 else b"".join(each.sent for each in told),
        )

    def _begin(self) -> Event | None:
        since, self._since = self._since, None
        state = self._hub.state
        if since is None:
            self._handle = state.handle
            self._snapshot = self._at(state.sequence)
            return None
        self._handle = since.handle
        known = state.oldest <= since.sequence <= self._hub.newest
        if since.handle != state.handle or not known:
            return self._refetch("the view has no history that reaches back to that token")
        if since.key is not None:
            self._snapshot = since
        self._sequence = since.sequence
        return None

    def _move(self) -> None:
        """Go over to the view that is served under the name now."""
        self._hub.leave(self._channel)
        self._hub = self._hub_of()
        self._channel = self._hub.channel(self._scope)

    def _refetch(self, reason: str) -> Event:
        state = self._hub.state
        self._handle = state.handle
        self._sequence = state.sequence
        self._snapshot = self._at(state.sequence)
        self._told_up_to_date = False
        return Event("must-refetch", (b'{"reason":"%b"}' % reason.encode(),), self._snapshot)

    async def _page(self, snapshot: Token) -> Event:
        def look(store: Snapshot) -> tuple[list[KeyedRow], str | None]:
            before = lookup.past(store, snapshot.sequence)
            if self._scope.key is not None:
                rows = lookup.get(store, [self._scope.key], before)
                return [each for each in rows if self._wants(each)], None
            return lookup.page(
                store, self._scope.where, before, after_key=snapshot.key, limit=_PAGE_ROWS
            )

        try:
            rows, more = await self._read(look)
        except HistoryGone:
            return self._refetch("the view changed faster than its snapshot was read")
        first = b"true" if snapshot.key is None else b"false"
        last = b"true" if more is None else b"false"
        data = b'{"rows":%b,"first":%b,"last":%b}' % (encoded_rows(rows), first, last)
        told = snapshot._replace(key=more)
        self._snapshot = None if more is None else told
        self._sequence = snapshot.sequence
        return Event("snapshot", (data,), told)

    def _wants(self, row: KeyedRow) -> bool:
        return self._scope.has(row.key, orjson.loads(row.row))

    async def _catch_up(self) -> Event | None:
        """The latest row of each key that changed, for a good part of what is missing."""
        published = self._hub.state.sequence

        def look(store: Snapshot) -> tuple[list[bytes], int]:
            if not store.state.oldest <= self._sequence or store.state.handle != self._handle:
                raise HistoryGone(self._sequence, store.state.oldest)
            end = min(store.boundary(self._sequence, _SQUASHED_CHANGES), published)
            return squashed(store.changes(self._sequence, end), self._scope), end

        try:
            told, end = await self._read(look)
        except HistoryGone:
            return self._refetch("the view has no history that reaches back that far")
        self._sequence = end
        self._told_up_to_date = False
        if not told:
            return None
        data = b'{"changes":[%b],"squashed":true}' % b",".join(told)
        return Event("changes", (data,), self._at(end))

    async def _read(self, look: Callable[[Snapshot], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self._hub.store.read, look)

    def _at(self, sequence: int) -> Token:
        return Token(self._handle, sequence)
