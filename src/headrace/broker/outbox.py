"""The bytes on their way to one client, in order, and no faster than it reads.

Log files go from the page cache to the socket with `sendfile`, past the transport, for as long as
the socket takes them. Once it is full the transport gets one piece, which it buffers, and says
when that has left. So a client that does not read costs one piece of memory.
"""

import socket
from collections import deque
from contextlib import suppress
from typing import Protocol

from headrace.broker.reply import FileRange, Reply
from headrace.errors import HeadraceError

PIECE = 64 * 1024
"""How much of a file the transport is given at a time."""

_MORE = getattr(socket, "MSG_MORE", 0)
"""Tells the kernel that more follows at once, so that it sends both together."""


class FileEnded(HeadraceError):
    """A log file has become shorter than it was: somebody else has changed it."""


class Transport(Protocol):
    """What an outbox needs of asyncio's transports."""

    def write(self, data: bytes) -> None:
        """Send bytes, or keep those that the socket does not take."""
        ...

    def get_write_buffer_size(self) -> int:
        """How many bytes are kept."""
        ...


class Outbox:
    """Writes replies to a transport, and files of theirs to its socket.

    The transport has to report that it is full (`block`) whenever it keeps a byte back, and that
    it has drained (`unblock`) when it keeps none.
    """

    __slots__ = ("_blocked", "_parts", "_position", "_socket", "_transport")

    def __init__(self, transport: Transport, direct: socket.socket | None = None) -> None:
        self._transport = transport
        self._socket = direct
        self._parts: deque[bytes | FileRange] = deque()
        self._position = 0
        self._blocked = False

    @property
    def blocked(self) -> bool:
        """Whether the client has more to read before anything else can be written."""
        return self._blocked

    def send(self, reply: Reply) -> None:
        """Write a reply after everything that was sent before it."""
        if type(reply) is bytes:
            if not self._parts:
                self._transport.write(reply)
                return
            self._parts.append(reply)
        else:
            self._parts.extend(reply)  # type: ignore[arg-type]
        self._pump()

    def block(self) -> None:
        """The transport keeps bytes that the client has not taken."""
        self._blocked = True

    def unblock(self) -> None:
        """The transport has sent everything."""
        self._blocked = False
        self._pump()

    def clear(self) -> None:
        """The client is gone: let go of the files and of its socket."""
        self._parts.clear()
        self._position = 0
        if self._socket is not None:
            # The transport closes it.
            self._socket.detach()
            self._socket = None

    def _pump(self) -> None:
        parts = self._parts
        while parts and not self._blocked:
            part = parts[0]
            if isinstance(part, bytes):
                parts.popleft()
                self._write(part, more=bool(parts))
                continue
            if self._socket is not None and not self._transport.get_write_buffer_size():
                self._position += self._send_file(self._socket, part)
            if self._position < part.length:
                self._position += self._write_piece(part)
            if self._position >= part.length:
                parts.popleft()
                self._position = 0

    def _write(self, data: bytes, *, more: bool) -> None:
        if more and self._socket is not None and not self._transport.get_write_buffer_size():
            with suppress(BlockingIOError):
                data = data[self._socket.send(data, _MORE) :]
        if data:
            self._transport.write(data)

    def _send_file(self, direct: socket.socket, part: FileRange) -> int:
        """Send as much of the file as the socket takes at once."""
        sent = 0
        wanted = part.length - self._position
        while sent < wanted:
            try:
                count = part.send(direct.fileno(), self._position + sent, wanted - sent)
            except BlockingIOError:
                break
            if not count:
                raise _ended(wanted - sent)
            sent += count
        return sent

    def _write_piece(self, part: FileRange) -> int:
        """Have the transport send one piece of the file and report when it has."""
        remaining = part.length - self._position
        piece = part.read(self._position, min(PIECE, remaining))
        if not piece:
            raise _ended(remaining)
        self._transport.write(piece)
        return len(piece)


def _ended(missing: int) -> FileEnded:
    return FileEnded(f"a log file ends {missing} bytes too early")
