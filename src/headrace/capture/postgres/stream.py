"""PostgreSQL's log as a stream of events, over the replication protocol."""

import select
from typing import Any, Final

from headrace.capture.changes import Event, Events, Position, Reached
from headrace.capture.postgres.connection import driver, meaning_of
from headrace.capture.postgres.lsn import lsn_number, lsn_text
from headrace.capture.postgres.pgoutput import Decoder

_BATCH: Final = 2000
_BATCH_BYTES: Final = 4 << 20
"""Messages that are decoded at a time, at most."""

_NEVER: Final = 1_000_000.0
"""Seconds between reports that the driver would send by itself: we report what is stored."""


class PostgresStream:
    """What a slot tells from a position on.

    Args:
        connection: For replication; closed with the stream.
        url: The database, for messages.
        slot: The replication slot.
        publication: What it is to tell.
        start: Where to begin; not before what the slot has confirmed.
        decoder: What makes events of messages.
    """

    def __init__(
        self,
        connection: Any,
        *,
        url: str,
        slot: str,
        publication: str,
        start: Position,
        decoder: Decoder,
    ) -> None:
        self._connection = connection
        self._url = url
        self._decoder = decoder
        self._start = start
        self._reached = self._confirmed = lsn_number(start)
        self._failures = driver().Error
        # Not select(), which knows no descriptors beyond 1023.
        self._arrival = select.poll()
        self._arrival.register(connection, select.POLLIN)
        self._cursor = connection.cursor()
        try:
            self._cursor.start_replication(
                slot_name=slot,
                decode=False,
                start_lsn=self._reached,
                status_interval=_NEVER,
                options={
                    "proto_version": "1",
                    "publication_names": f'"{publication}"',
                    "messages": "true",
                },
            )
        except self._failures as error:
            connection.close()
            raise meaning_of(error, url) from None

    @property
    def start(self) -> Position:
        """Where it began."""
        return self._start

    def read(self, seconds: float) -> Events:
        """What has come, waiting up to `seconds` for the first of it."""
        try:
            events = self._received()
            if not events:
                self._arrival.poll(seconds * 1000)
                events = self._received()
        except self._failures as error:
            raise meaning_of(error, self._url) from None
        if not events and not self._decoder.in_transaction:
            # What the server says in passing counts only if nothing is on its way to us.
            passed = self._cursor.wal_end
            if passed > self._reached:
                self._reached = passed
                events.append(Reached(lsn_text(passed)))
        return events

    def confirm(self, position: Position) -> None:
        """Let the server forget what is before the position."""
        # One byte less than that is as good to the server: no commit lies between. But the driver,
        # once told of all that came, would go on to confirm by itself what we have not stored.
        self._confirmed = max(self._confirmed, lsn_number(position) - 1)
        try:
            self._cursor.send_feedback(flush_lsn=self._confirmed, force=True)
        except self._failures as error:
            raise meaning_of(error, self._url) from None

    def close(self) -> None:
        """Leave; the slot stays where it was confirmed."""
        self._connection.close()

    def _received(self) -> list[Event]:
        events: list[Event] = []
        read, decode = self._cursor.read_message, self._decoder.decode
        size, last = 0, None
        for _ in range(_BATCH):
            if (message := read()) is None:
                break
            last, data = message, message.payload
            decode(data, message.data_start, events)
            if (size := size + len(data)) > _BATCH_BYTES:
                break
        if last is not None:
            self._reached = last.wal_end
        return events
