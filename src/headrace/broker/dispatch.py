"""From a request frame to the handler that answers it, and back to a reply."""

import asyncio
import inspect
import logging
import struct
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headrace.broker import private
from headrace.broker.apis import API_VERSIONS, APIS, PRODUCE, Api
from headrace.broker.guard import ProtocolError
from headrace.broker.handlers import produce
from headrace.broker.handlers.versions import supported
from headrace.broker.private import PRIVATE
from headrace.broker.protocol import Call, UnsupportedRequest, message_codec, read_client_id
from headrace.broker.reply import Pending, Reply

if TYPE_CHECKING:
    from headrace.broker.connection import Connection
    from headrace.broker.core import BrokerCore

log = logging.getLogger("headrace.broker")

_PREFIX = struct.Struct(">hhi")


class Dispatcher:
    """Starts the handler for each request of every connection."""

    def __init__(self, core: "BrokerCore") -> None:
        self._core = core
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, frame: memoryview, connection: "Connection") -> Reply | Pending | None:
        """Begin to answer a request: the reply, a promise of it, or None where none is due."""
        try:
            api_key, version, correlation_id = _PREFIX.unpack_from(frame)
        except struct.error:
            raise ProtocolError("the request ends inside its header") from None
        if api_key == PRODUCE and (route := connection.route) is not None:
            reply = produce.answer_on(route, self._core, frame, version, correlation_id)
            if reply is not None:
                self._core.metrics.requests[PRODUCE] += 1
                return reply
        if api_key == PRIVATE:
            self._core.metrics.requests[PRIVATE] += 1
            return self._start_private(frame, version, correlation_id, connection)
        api = APIS.get(api_key)
        if api is None or not api.first <= version <= api.last:
            return self._unsupported(api, api_key, version, correlation_id, connection)
        self._core.metrics.requests[api_key] += 1
        codec = message_codec(api.name, version)
        client_id, body = read_client_id(frame, 8, flexible=codec.flexible_request)
        call = Call(
            version, correlation_id, client_id, connection.client_host, connection.address, codec
        )
        handler = api.handler or api.find_handler()
        if api.reads_frame:
            answered: Reply | Pending | None = handler(self._core, frame, body, call)
            if api_key == PRODUCE:
                connection.route = call.route
            return answered
        answer = handler(self._core, codec.read(frame, body), call)
        if not inspect.iscoroutine(answer):
            return codec.write(correlation_id, answer)
        pending = Pending()
        task = asyncio.ensure_future(self._finish(answer, call, pending, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        pending.on_abandon(task.cancel)
        return pending

    def _start_private(
        self, frame: memoryview, version: int, correlation_id: int, connection: "Connection"
    ) -> Pending:
        _, body = read_client_id(frame, 8, flexible=False)
        # The frame's memory is given to the next request before this one is answered.
        request = bytes(frame[body:])
        pending = Pending()
        task = asyncio.ensure_future(
            self._finish_private(request, version, correlation_id, pending, connection)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        pending.on_abandon(task.cancel)
        return pending

    async def _finish_private(
        self,
        request: bytes,
        version: int,
        correlation_id: int,
        pending: Pending,
        connection: "Connection",
    ) -> None:
        try:
            reply = await private.answer(self._core, request, version)
        except Exception:
            log.exception("closing the connection from %s after an error", connection.client_host)
            connection.close()
        else:
            pending.resolve(private.frame(correlation_id, reply))

    async def _finish(
        self,
        answer: Coroutine[Any, Any, object],
        call: Call,
        pending: Pending,
        connection: "Connection",
    ) -> None:
        try:
            reply = call.codec.write(call.correlation_id, await answer)
        except Exception:
            log.exception("closing the connection from %s after an error", call.client_host)
            connection.close()
        else:
            pending.resolve(reply)

    def _unsupported(
        self,
        api: Api | None,
        api_key: int,
        version: int,
        correlation_id: int,
        connection: "Connection",
    ) -> Reply:
        if api_key == API_VERSIONS:
            # KIP-511: a version we do not know is answered in the form everybody knows.
            codec = message_codec("api_versions", 0)
            call = Call(0, correlation_id, None, connection.client_host, connection.address, codec)
            return codec.write(correlation_id, supported(call, ErrorCode.unsupported_version))
        what = api.name if api else f"API key {api_key}"
        raise UnsupportedRequest(f"{what} version {version} is not supported")
