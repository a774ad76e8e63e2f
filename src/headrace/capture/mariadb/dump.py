"""The binary log as the server sends it: asked for like a replica does, and cut into events."""

import select
import struct
import zlib
from typing import Any, Final

from headrace.capture.errors import BrokenStream
from headrace.capture.mariadb.connection import driver, meaning_of
from headrace.capture.mariadb.gtid import MysqlPosition
from headrace.settings.address import shown

_DUMP, _DUMP_GTID = 0x12, 0x1E
_THROUGH_GTID: Final = 0x04
_RECEIVE: Final = 1 << 20
_LONGEST: Final = 0xFFFFFF
"""A packet of this length is continued by the next one."""

_KIND, _FORMAT, _CHECKSUM = 4, 15, 4
"""Where an event has its kind, the kind that describes a file, and the size of checksums."""

_HEARTBEAT_NS: Final = 1_000_000_000
_FIRST_SECONDS: Final = 30.0


class Dump:
    """A connection over which the server sends its log.

    Args:
        connection: Closed with the dump.
        url: The database, for messages.
        server_id: The number by which the server knows this replica.
        start: The transactions that are not to be sent.
        mariadb: Whether it is not MySQL.
    """

    def __init__(
        self, connection: Any, *, url: str, server_id: int, start: str, mariadb: bool
    ) -> None:
        self._connection = connection
        self._url = url
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._failures = (driver().Error, OSError)
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET @master_heartbeat_period = {_HEARTBEAT_NS}")
                cursor.execute("SET @master_binlog_checksum = @@GLOBAL.binlog_checksum")
                cursor.execute("SELECT @@GLOBAL.binlog_checksum")
                self._checked = cursor.fetchone()[0].upper() != "NONE"
                if mariadb:
                    cursor.execute("SET @mariadb_slave_capability = 4")
                    cursor.execute("SET @slave_connect_state = %s", (start,))
                    cursor.execute("SET @slave_gtid_strict_mode = 0")
                    cursor.execute("SET @slave_gtid_ignore_duplicates = 0")
            if mariadb:
                connection._execute_command(_DUMP, struct.pack("<IHI", 4, 0, server_id))
            else:
                told = MysqlPosition(start).encoded()
                head = struct.pack("<HIIQI", _THROUGH_GTID, server_id, 0, 4, len(told))
                connection._execute_command(_DUMP_GTID, head + told)
            self._socket = connection._sock
            # What the server has against the position, it says before anything else.
            self._first = self._receive(_FIRST_SECONDS)
        except self._failures as error:
            connection.close()
            raise meaning_of(error, url) from None
        except BaseException:
            connection.close()
            raise

    def read(self, seconds: float) -> list[bytes]:
        """The events that have come, waiting up to `seconds` for the first of them."""
        if self._first:
            first, self._first = self._first, []
            return first
        return self._cut() or self._receive(seconds)

    def close(self) -> None:
        """Leave."""
        # Not politely: the server would have to read it first.
        self._connection._force_close()

    def _receive(self, seconds: float) -> list[bytes]:
        pending = getattr(self._socket, "pending", None)
        if not (pending is not None and pending()):
            # Not select(), which knows no descriptors beyond 1023.
            arrival = select.poll()
            arrival.register(self._socket, select.POLLIN)
            if not arrival.poll(seconds * 1000):
                return []
        try:
            received = self._socket.recv(_RECEIVE)
            if not received:
                raise ConnectionResetError("the server ended the connection")
        except self._failures as error:
            raise meaning_of(error, self._url) from None
        self._buffer += received
        return self._cut()

    def _cut(self) -> list[bytes]:
        """The whole events at the beginning of what was received."""
        buffer, events, place, size = self._buffer, [], 0, len(self._buffer)
        while size - place >= 4:
            length = buffer[place] | buffer[place + 1] << 8 | buffer[place + 2] << 16
            end = place + 4 + length
            if end > size:
                break
            part = bytes(buffer[place + 4 : end])
            place = end
            if length == _LONGEST:
                self._parts.append(part)
                continue
            if self._parts:
                part = b"".join([*self._parts, part])
                self._parts.clear()
            if part[0] == 0:
                events.append(self._without_checksum(part[1:]))
            else:
                self._refused(part)
        del buffer[:place]
        return events

    def _without_checksum(self, event: bytes) -> bytes:
        if event[_KIND] == _FORMAT:
            # Every file of the log says of itself whether its events have checksums.
            self._checked = event[-_CHECKSUM - 1] == 1
            return event
        if not self._checked:
            return event
        if zlib.crc32(event[:-_CHECKSUM]) != int.from_bytes(event[-_CHECKSUM:], "little"):
            raise BrokenStream(
                f"An event in the log of {shown(self._url)} does not fit its checksum: the log, or "
                "the connection, is damaged."
            )
        return event[:-_CHECKSUM]

    def _refused(self, packet: bytes) -> None:
        if packet[0] == 0xFF:
            code = packet[1] | packet[2] << 8
            text = packet[3:].decode(errors="replace")
            text = text[6:] if text.startswith("#") else text
            raise meaning_of(driver().err.OperationalError(code, text), self._url)
        raise meaning_of(ConnectionResetError("the server ended its log"), self._url)
