"""Query subscriptions: the result of a query, told again whenever it is another one."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.views.feeds.channel import Rows
from headrace.views.feeds.encoding import encoded_rows
from headrace.views.feeds.tokens import Token
from headrace.views.filters import matches
from headrace.views.materialized import lookup
from headrace.views.materialized.lookup import Query
from headrace.views.materialized.store import Change, Snapshot

if TYPE_CHECKING:
    from headrace.views.feeds.hub import Hub

_PAUSE_SECONDS: Final = 0.05
"""Between two times that the same query is asked."""


@dataclass(frozen=True, slots=True)
class Result:
    """Which result: rows, or only how many there are."""

    query: Query
    count: bool = False

    def found(self, snapshot: Snapshot) -> tuple[bytes, Token]:
        """The result at a moment, as JSON, and that moment."""
        token = Token(snapshot.state.handle, snapshot.state.sequence)
        if self.count:
            return b'"count":%d' % lookup.count(snapshot, self.query.where), token
        return b'"rows":%b' % encoded_rows(lookup.select(snapshot, self.query)), token


class ResultChannel:
    """The latest result, and those who wait for the next one."""

    def __init__(self, result: Result, hub: "Hub") -> None:
        self.result = result
        self.subscribers = 0
        self.latest: tuple[bytes, Token] | None = None
        """The result and the first state that was found to have it."""
        self.failure: Exception | None = None
        self._hub = hub
        self._waiting: list[asyncio.Future[None]] = []
        self._stale = True
        self._asking: asyncio.Task[None] | None = None

    def changed(self, changes: Iterable[Change], rows: Rows) -> None:
        """Ask again if one of the changes is of a row that the query wants or wanted."""
        where = self.result.query.where
        if where is None or any(
            matches(where, rows.of(each.before)) or matches(where, rows.of(each.after))
            for each in changes
        ):
            self.ask()

    def forget(self, _: int) -> None:
        """Ask again: nobody knows what has changed."""
        self.ask()

    def ask(self) -> None:
        """Find out the result, once more if that is happening already."""
        self._stale = True
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())

    async def wait(self) -> None:
        """Return when there is another result, or something else to look at."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def wake(self) -> None:
        """Let all who wait look again."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._stale:
                self._stale = False
                found = await loop.run_in_executor(None, self._hub.store.read, self.result.found)
                if self.latest is None or self.latest[0] != found[0]:
                    self.latest = found
                    self.wake()
                await asyncio.sleep(_PAUSE_SECONDS)
        except Exception as error:
            self.failure = error
            self.wake()
        finally:
            self._asking = None
