"""One client's connection: bytes in, requests started in order, replies out in the same order.

Requests are started as they arrive and may finish in any order (a produce waits for the disk, a
fetch waits for data), but a client sees its replies in the order it asked. What limits a client is
always the same: it is not read from while it has too many requests unanswered, while it does not
take in its replies, or while there is no memory for its next request.
"""

import asyncio
import logging
import socket
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, cast

from headrace.broker.guard import ProtocolError
from headrace.broker.memory import RequestMemory
from headrace.broker.outbox import Outbox
from headrace.broker.reply import Pending, Reply
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.broker.handlers.produce_route import Route
    from headrace.broker.server import Server

log = logging.getLogger("headrace.broker")

SCRATCH_BYTES = 64 * 1024
"""Room for bytes that arrive while a connection has no large request under way. All connections of
a server share it, because its event loop fills it and hands it over in one step."""

MAX_UNANSWERED = 256
"""Requests of one connection that may be waiting for their replies."""

LONGEST_REASON = 300
"""Letters of a refusal that are logged; it may quote names that a hostile client made up."""

_LENGTH = struct.Struct(">i")


class Connection(asyncio.BufferedProtocol):
    """Frames, order and backpressure for one client."""

    def __init__(self, server: "Server", memory: RequestMemory) -> None:
        self._server = server
        self._memory = memory
        self._transport: asyncio.Transport
        self._outbox: Outbox
        self._unanswered: deque[Pending] = deque()
        self._partial = b""
        self._buffer: bytearray | None = None
        self._scratch = server.scratch
        self._view = self._scratch
        self._filled = 0
        self._wanted = 0
        self._reading = True
        self._ending = False
        self._waits_for_memory = False
        self._closed = False
        self.client_host = ""
        self.address = ("", 0)
        self.route: Route | None = None
        """How the client's produce requests begin, for the broker to recognise the next."""
        self.active_at = time.monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        # uvloop's transports have all the methods but not the type.
        transport = cast(asyncio.Transport, transport)
        # It says so whenever a socket does not take all it is given.
        transport.set_write_buffer_limits(high=0)
        self._transport = transport
        self._outbox = Outbox(transport, _plain_socket(transport))
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if isinstance(peer, tuple) else "local"
        self.address = self._server.advertised(transport.get_extra_info("sockname"))
        self._server.connected(self)

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone: nothing may wait for it or be held for it."""
        self._closed = True
        self._outbox.clear()
        for pending in self._unanswered:
            pending.abandon()
        self._unanswered.clear()
        self._memory.stop_waiting(self._granted)
        self._release_buffer()
        self._server.disconnected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: the shared scratch, or the rest of a large request."""
        if self._buffer is None:
            return self._scratch
        return self._view[self._filled : self._wanted]

    def buffer_updated(self, count: int) -> None:
        """Bytes have arrived."""
        self.active_at = time.monotonic()
        if self._buffer is None:
            try:
                self._accept(self._scratch[:count])
            except Exception as error:
                self._fail(error)
            return
        self._filled += count
        if self._filled == self._wanted:
            try:
                self._handle(self._view[: self._wanted])
            except Exception as error:
                self._fail(error)
            self._release_buffer()

    def eof_received(self) -> bool:
        """The client has sent its last byte; nothing it is still owed can be of use to it."""
        return False

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self._outbox.block()
        self._regulate()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.active_at = time.monotonic()
        try:
            self._outbox.unblock()
        except (HeadraceError, OSError) as error:
            self._give_up(error)
        self._regulate()

    def end(self) -> None:
        """Take no more requests; those under way are answered."""
        self._ending = True
        self._regulate()

    def close(self) -> None:
        """Close the connection once what was written to it has been sent."""
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once, sent or not."""
        self._transport.abort()

    def refuse(self, reason: str) -> None:
        """Close the connection of a client that does not speak the protocol, with one log line."""
        shown = "".join(
            letter if letter.isprintable() else "?" for letter in reason[:LONGEST_REASON]
        )
        log.warning("closing the connection from %s: %s", self.client_host, shown)
        self._server.metrics.refused_connections += 1
        self._transport.abort()

    @property
    def receiving(self) -> bool:
        """Whether the rest of a request, which holds memory, is for the client to send."""
        return self._buffer is not None and self._reading

    @property
    def waiting(self) -> bool:
        """Whether the client waits for the broker, so that silence is not idleness."""
        return bool(self._unanswered) or self._waits_for_memory

    def _fail(self, error: Exception) -> None:
        """Close the connection: of a client that does not speak the protocol, or after a bug."""
        if isinstance(error, ProtocolError):
            self.refuse(str(error))
            return
        log.error("closing the connection from %s after an error", self.client_host, exc_info=error)
        self.close()

    def _accept(self, data: memoryview) -> None:
        """Handle the whole requests in freshly received bytes and keep the beginning of a next."""
        if self._partial:
            data = memoryview(bytearray(self._partial + data))
            self._partial = b""
        position, end = 0, len(data)
        while end - position >= 4 and self._reading:
            (size,) = _LENGTH.unpack_from(data, position)
            if not 0 < size <= self._server.max_request_bytes:
                raise ProtocolError(
                    f"a request of {size} bytes; the largest allowed is "
                    f"{self._server.max_request_bytes} (max_request_bytes)"
                )
            following = position + 4 + size
            if following > end:
                self._begin_large(data[position + 4 : end], size)
                return
            self._handle(data[position + 4 : following])
            position = following
        if position < end:
            self._partial = bytes(data[position:])

    def _begin_large(self, received: memoryview, size: int) -> None:
        self._wanted = size
        buffer = self._memory.take(size)
        if buffer is not None:
            self._fill(buffer, received)
            return
        self._partial = bytes(received)
        self._waits_for_memory = True
        self._memory.wait(size, self._granted)
        self._regulate()

    def _granted(self, buffer: bytearray) -> None:
        self._fill(buffer, self._partial)
        self._partial = b""
        self._waits_for_memory = False
        self._regulate()

    def _fill(self, buffer: bytearray, received: memoryview | bytes) -> None:
        self._buffer = buffer
        self._view = memoryview(buffer)
        self._view[: len(received)] = received
        self._filled = len(received)

    def _release_buffer(self) -> None:
        if self._buffer is not None:
            buffer, self._buffer, self._view = self._buffer, None, self._scratch
            self._memory.give_back(buffer)

    def _handle(self, frame: memoryview) -> None:
        answer = self._server.dispatch(frame, self)
        if answer is None:
            return
        if isinstance(answer, Pending):
            answer.then(self._flush_answered)
            self._unanswered.append(answer)
        elif not self._unanswered:
            self._send(answer)
            return
        else:
            known = Pending()
            known.resolve(answer)
            self._unanswered.append(known)
        self._regulate()

    def _flush_answered(self) -> None:
        unanswered = self._unanswered
        while unanswered and (reply := unanswered[0].reply) is not None:
            unanswered.popleft()
            self._send(reply)
        self._regulate()

    def _send(self, reply: Reply) -> None:
        try:
            self._outbox.send(reply)
        except (HeadraceError, OSError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Close a connection whose reply cannot be read from the disk; it may have begun."""
        if not isinstance(error, ConnectionError):
            log.error("closing the connection from %s: %s", self.client_host, error)
        self._outbox.clear()
        self._reading = False
        self._transport.abort()

    def _regulate(self) -> None:
        """Read from the client exactly while there is room for what it sends."""
        room = not (
            self._ending
            or self._waits_for_memory
            or self._outbox.blocked
            or len(self._unanswered) >= MAX_UNANSWERED
        )
        if room == self._reading or self._transport.is_closing():
            return
        self._reading = room
        if not room:
            self._transport.pause_reading()
        elif self._partial:
            # Not from here: whoever made room has more to do than to start further requests.
            self._server.core.loop.call_soon(self._take_up)
        else:
            self._read_on()

    def _take_up(self) -> None:
        """Start the requests that had arrived when the client was paused, then read on."""
        if not self._reading or self._closed:
            return
        try:
            self._accept(memoryview(b""))
        except Exception as error:
            self._fail(error)
        else:
            if self._reading:
                self._read_on()

    def _read_on(self) -> None:
        self.active_at = time.monotonic()
        self._transport.resume_reading()


def _plain_socket(transport: asyncio.Transport) -> socket.socket | None:
    """The socket to which bytes may go past the transport, which remains the one to close it."""
    same = transport.get_extra_info("socket")
    if same is None or transport.get_extra_info("sslcontext") is not None:
        return None
    return socket.socket(same.family, same.type, same.proto, same.fileno())
