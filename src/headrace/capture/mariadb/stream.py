"""The binary log as a stream of events."""

from typing import Final

from headrace.capture.changes import Events, Position
from headrace.capture.mariadb.binlog import Decoder, Place
from headrace.capture.mariadb.dump import Dump

_SOME: Final = 2000
"""Events of the log that are decoded at a time, at most."""


class MariadbStream:
    """What the log tells from a position on.

    Args:
        dump: Closed with the stream.
        start: Where it begins.
        decoder: What makes events of it.
    """

    def __init__(self, dump: Dump, start: Position, decoder: Decoder) -> None:
        self._dump = dump
        self._start = start
        self._decoder = decoder
        self._waiting: list[bytes] = []

    @property
    def start(self) -> Position:
        """Where it began."""
        return self._start

    @property
    def place(self) -> Place:
        """How far it has been read."""
        return self._decoder.read_up_to

    def read(self, seconds: float) -> Events:
        """What has come, waiting up to `seconds` for the first of it."""
        if not self._waiting:
            self._waiting = self._dump.read(seconds)
        some, self._waiting = self._waiting[:_SOME], self._waiting[_SOME:]
        return self._decoder.decode(some)

    def confirm(self, position: Position) -> None:
        """Nothing: the server keeps its log as long as its settings say, whoever reads it."""

    def close(self) -> None:
        """Leave."""
        self._dump.close()
