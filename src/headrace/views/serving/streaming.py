"""Feeds over HTTP: event streams, and long polls for those who cannot have them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headrace.views.errors import ViewsError
from headrace.views.feeds.channel import Scope as FeedScope
from headrace.views.feeds.encoding import KEEP_ALIVE, event
from headrace.views.feeds.feed import Event, Feed
from headrace.views.feeds.results import Result
from headrace.views.feeds.tokens import Token
from headrace.views.filters import parse_filter
from headrace.views.serving.access import Access
from headrace.views.serving.answers import InvalidRequest, answer, refusal
from headrace.views.serving.catalog import Catalog
from headrace.views.serving.parameters import query_from, seconds

_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_POLL_SECONDS: Final = 20.0
_POLL_BYTES: Final = 4 << 20
"""What an answer to a poll may have before the reader has to ask again."""


class Streaming:
    """The routes of feeds, and a heartbeat for all of them."""

    def __init__(self, catalog: Catalog, access: Access, heartbeat: float) -> None:
        self._catalog = catalog
        self._access = access
        self._heartbeat = heartbeat
        self._sessions: set[_Session] = set()
        self._beating: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to send heartbeats."""
        self._beating = asyncio.get_running_loop().create_task(self._beat())

    async def stop(self) -> None:
        """End all feeds."""
        if self._beating is not None:
            self._beating.cancel()
        for each in list(self._sessions):
            each.cancel()

    async def feed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`/feeds/NAME`: an event stream of a view, a filter or a key."""
        request = Request(scope, receive)
        try:
            feed = self._feed_of(request, request.headers.get("last-event-id"))
        except ViewsError as error:
            await refusal(error)(scope, receive, send)
            return

        async def tell(session: "_Session") -> None:
            try:
                while True:
                    await session.write((await feed.next()).stream)
            finally:
                feed.close()

        def beat() -> bytes:
            return feed.up_to_date().stream if feed.is_up_to_date else KEEP_ALIVE

        await self._serve(_Session(send, beat), tell, receive)

    async def result(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`/results/NAME`: an event stream of the result of a query, whenever it changes."""
        request = Request(scope, receive)
        try:
            name = request.path_params["name"]
            self._access.require(request, name)
            given = request.query_params
            count = given.get("count", "").lower() in ("true", "1", "yes")
            view = self._catalog.named(name)
            wanted = Result(query_from(given, view), count)
        except ViewsError as error:
            await refusal(error)(scope, receive, send)
            return
        hub = view.hub
        channel = hub.result(wanted)

        async def tell(session: "_Session") -> None:
            nonlocal hub, channel
            known: Token | None = None
            try:
                channel.ask()
                while True:
                    if (now := self._catalog.named(name).hub) is not hub:
                        hub.leave_result(channel)
                        hub, channel = now, now.result(wanted)
                        channel.ask()
                    if channel.latest is not None and channel.latest[1] != known:
                        body, known = channel.latest
                        await session.write(event("result", b"{%b}" % body, known))
                    else:
                        await channel.wait()
            finally:
                hub.leave_result(channel)

        await self._serve(_Session(send, lambda: KEEP_ALIVE), tell, receive)

    async def poll(self, request: Request) -> Response:
        """`/feeds/NAME/poll`: what came since a token, as soon as there is something."""
        given = request.query_params
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds(given, "wait", _POLL_SECONDS)
        feed = self._feed_of(request, given.get("since"))
        events: list[bytes] = []
        size, token, up_to_date = 0, given.get("since"), False
        try:
            while size < _POLL_BYTES and not (events and up_to_date):
                left = deadline - loop.time()
                if up_to_date and left <= 0:
                    break
                told = await _within(feed.next(), left if up_to_date else max(left, 1.0))
                if told is None:
                    break
                token, up_to_date = str(told.token), feed.is_up_to_date
                if told.name != "up-to-date":
                    encoded = _poll_event(told)
                    events += encoded
                    size += sum(map(len, encoded))
        finally:
            feed.close()
        body = b'{"events":[%b],"token":%b,"up_to_date":%b}' % (
            b",".join(events),
            orjson.dumps(token),
            orjson.dumps(up_to_date),
        )
        return answer(body)

    def _feed_of(self, request: Request, since: str | None) -> Feed:
        name = request.path_params["name"]
        self._access.require(request, name)
        given = request.query_params
        view = self._catalog.named(name)
        where, key = given.get("where"), given.get("key")
        if where and key is not None:
            raise InvalidRequest("A feed is of a key or of a filter; leave one of them out.")
        scope = FeedScope(key, parse_filter(where, view.columns) if where else None)
        token = Token.parse(since) if since else None
        return Feed(lambda: self._catalog.named(name).hub, scope, token)

    async def _serve(
        self,
        session: "_Session",
        tell: "Callable[[_Session], Awaitable[None]]",
        receive: Receive,
    ) -> None:
        self._sessions.add(session)
        try:
            await session.run(tell, receive)
        finally:
            self._sessions.discard(session)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._heartbeat / 4)
            silent_since = loop.time() - self._heartbeat
            beats = [loop.create_task(each.beat(silent_since)) for each in self._sessions]
            if beats:
                await asyncio.wait(beats, timeout=self._heartbeat)


class _Session:
    """One event stream while it is open."""

    def __init__(self, send: Send, heartbeat: Callable[[], bytes]) -> None:
        self._send = send
        self._heartbeat = heartbeat
        self._writing = False
        self._written = asyncio.get_running_loop().time()
        self._task: asyncio.Task[None] | None = None

    async def run(self, tell: "Callable[[_Session], Awaitable[None]]", receive: Receive) -> None:
        """Tell everything until the reader goes away."""
        await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self.write(b": welcome\n\n")
        self._task = asyncio.ensure_future(tell(self))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((self._task, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            self._task.cancel()
            with suppress(asyncio.CancelledError, ViewsError):
                await self._task
        with suppress(OSError, RuntimeError):
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def write(self, body: bytes) -> None:
        """Send something, and wait while the reader is slow."""
        self._writing = True
        try:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            self._writing = False
        self._written = asyncio.get_running_loop().time()

    async def beat(self, silent_since: float) -> None:
        """Say that the server is there, if nothing was said for long."""
        if not self._writing and self._written <= silent_since:
            with suppress(OSError, RuntimeError):
                await self.write(self._heartbeat())

    def cancel(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _within(told: Awaitable[Event], limit: float) -> Event | None:
    try:
        return await asyncio.wait_for(told, limit)
    except TimeoutError:
        return None


def _poll_event(told: Event) -> list[bytes]:
    name = orjson.dumps(told.name)
    return [b'{"event":%b,"data":%b}' % (name, each) for each in told.data]
