"""From the batches that a view applies to the frames of its channels, tick by tick.

Batches come from the view's thread, everything else happens in the event loop. A tick is longer,
the more there are to be told: with a thousand subscribers a frame for every batch would be a
thousand writes for every batch.
"""

import asyncio
import threading
from typing import Final

import orjson

from headrace.views.feeds.channel import Channel, Rows, Scope
from headrace.views.feeds.results import Result, ResultChannel
from headrace.views.feeds.tokens import Token
from headrace.views.materialized.store import AppliedBatch, Store, StoreState
from headrace.views.positions import format_positions

_LEAST_SECONDS: Final = 0.005
_SECONDS_EACH: Final = 0.000_1
_MOST_SECONDS: Final = 0.25
"""The length of a tick: at least, more for each subscriber, and at most."""

_MOST_PENDING: Final = 20_000
"""Changes that wait for a tick; with more, subscribers are sent to the store."""


class Hub:
    """The channels of one view."""

    def __init__(self, store: Store, topic: str, loop: asyncio.AbstractEventLoop) -> None:
        self.store = store
        self._topic = topic
        self._loop = loop
        self._lock = threading.Lock()
        self._pending: list[AppliedBatch] = []
        self._pending_changes = 0
        self._overflow = False
        self._scheduled = False
        self._flushed = 0.0
        self._channels: dict[Scope, Channel] = {}
        self._by_key: dict[str, list[Channel]] = {}
        self._results: dict[Result, ResultChannel] = {}
        self.state = StoreState("")
        """How far channels have got."""
        self.newest = 0
        """How far the store has got."""

    @property
    def token(self) -> Token:
        """The state that everybody can be at."""
        return Token(self.state.handle, self.state.sequence)

    @property
    def subscribers(self) -> int:
        """How many there are."""
        return sum(each.subscribers for each in self._all)

    def offer(self, applied: AppliedBatch) -> None:
        """Take a batch for the next tick; from the view's thread."""
        with self._lock:
            self.newest = applied.state.sequence
            self._pending_changes += len(applied.changes)
            if not applied.history or self._pending_changes > _MOST_PENDING:
                self._pending.clear()
                self._overflow = True
            self._pending.append(applied)
            if self._scheduled:
                return
            self._scheduled = True
        self._loop.call_soon_threadsafe(self._schedule)

    def channel(self, scope: Scope) -> Channel:
        """The channel of a scope; `leave` it again."""
        found = self._channels.get(scope)
        if found is None:
            found = self._channels[scope] = Channel(scope, self.state.sequence)
            if scope.key is not None:
                self._by_key.setdefault(scope.key, []).append(found)
        found.subscribers += 1
        return found

    def leave(self, channel: Channel) -> None:
        """Let go of a channel; the last one takes it away."""
        channel.subscribers -= 1
        if not channel.subscribers:
            self._channels.pop(channel.scope, None)
            if channel.scope.key is not None:
                others = self._by_key[channel.scope.key]
                others.remove(channel)
                if not others:
                    del self._by_key[channel.scope.key]

    def result(self, result: Result) -> ResultChannel:
        """The channel of the result of a query; `leave_result` it again."""
        found = self._results.get(result)
        if found is None:
            found = self._results[result] = ResultChannel(result, self)
        found.subscribers += 1
        return found

    def leave_result(self, channel: ResultChannel) -> None:
        """Let go of it."""
        channel.subscribers -= 1
        if not channel.subscribers:
            self._results.pop(channel.result, None)
            channel.close()

    def wake(self) -> None:
        """Let every subscriber look whether all is as it was."""
        for channel in self._all:
            channel.wake()

    @property
    def _all(self) -> list[Channel | ResultChannel]:
        return [*self._channels.values(), *self._results.values()]

    def _schedule(self) -> None:
        tick = min(_LEAST_SECONDS + _SECONDS_EACH * self.subscribers, _MOST_SECONDS)
        self._loop.call_at(max(self._flushed + tick, self._loop.time()), self._flush)

    def _flush(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, []
            overflow, self._overflow = self._overflow, False
            self._pending_changes = 0
            self._scheduled = False
        self._flushed = self._loop.time()
        before, self.state = self.state, pending[-1].state
        if overflow or before.handle != self.state.handle:
            for channel in self._all:
                channel.forget(self.state.sequence)
            return
        if self.state.complete and not before.complete:
            self.wake()
        changes = [change for batch in pending for change in batch.changes]
        if not changes:
            return
        rows = Rows()
        position = orjson.dumps(format_positions(self.state.position(self._topic)))
        for scope, each in self._channels.items():
            if scope.key is None:
                each.publish(changes, rows, before.sequence, self.token, position)
        for key in {change.key for change in changes} & self._by_key.keys():
            own = [change for change in changes if change.key == key]
            for one in self._by_key[key]:
                one.publish(own, rows, before.sequence, self.token, position)
        for result in self._results.values():
            result.changed(changes, rows)
