"""Many subscribers of one feed, in one thread: every change that each of them hears is counted."""

import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import orjson

from headrace.errors import HeadraceError

_DATA = b"data: "


class NotComplete(HeadraceError):
    """A subscriber did not hear every change, or not in order."""


@dataclass
class Frame:
    """One event with changes; the same bytes are parsed once."""

    first: int
    last: int
    sent: "np.ndarray[tuple[int], np.dtype[np.float64]]"


@dataclass
class _Listener:
    connection: socket.socket
    buffer: bytearray = field(default_factory=bytearray)
    expected: int = 0
    squashed: bool = False


class Listeners:
    """Connections to a feed whose rows have a number `n`, counted up, and when they were `sent`."""

    def __init__(self, host: str, port: int, path: str, count: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._listeners: list[_Listener] = []
        self._frames: dict[bytes, Frame] = {}
        self._heard: list[tuple[float, Frame]] = []
        request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        for _ in range(count):
            connection = socket.create_connection((host, port), 30)
            connection.sendall(request)
            connection.setblocking(False)
            listener = _Listener(connection)
            self._listeners.append(listener)
            self._selector.register(connection, selectors.EVENT_READ, listener)

    def close(self) -> None:
        """Hang up."""
        for each in self._listeners:
            each.connection.close()
        self._selector.close()

    def listen(self, until: int, seconds: float) -> None:
        """Read until every subscriber has heard of number `until`, or NotComplete."""
        deadline = time.monotonic() + seconds
        waiting = sum(each.expected <= until for each in self._listeners)
        while waiting:
            if time.monotonic() > deadline:
                behind = min(each.expected for each in self._listeners)
                raise NotComplete(
                    f"{waiting} of {len(self._listeners)} subscribers have not heard of {until} in "
                    f"{seconds:g} s; the last of them is at {behind}"
                )
            for key, _ in self._selector.select(0.5):
                listener: _Listener = key.data
                before = listener.expected
                self._read(listener)
                if before <= until < listener.expected:
                    waiting -= 1

    def latencies(self, first: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        """Milliseconds from sending to hearing, of every change from a number on, to everybody."""
        parts = [
            (heard - frame.sent[frame.sent > 0]) * 1000
            for heard, frame in self._heard
            if frame.first >= first
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _read(self, listener: _Listener) -> None:
        piece = listener.connection.recv(1 << 18)
        if not piece:
            raise NotComplete("the server hung up")
        now = time.monotonic()
        listener.buffer += piece
        for data in _complete(listener.buffer):
            frame = self._frame(data)
            if frame is None or frame.last < listener.expected:
                continue
            if frame.first > listener.expected:
                raise NotComplete(f"{frame.first} came instead of {listener.expected}")
            listener.expected = frame.last + 1
            self._heard.append((now, frame))

    def _frame(self, data: bytes) -> Frame | None:
        if data not in self._frames:
            told = orjson.loads(data)
            rows = [each["row"] for each in told.get("changes", told.get("rows", ()))]
            numbers = sorted(each["n"] for each in rows)
            if not numbers:
                return None
            if "changes" in told and numbers != list(range(numbers[0], numbers[-1] + 1)):
                raise NotComplete("changes are missing inside of an event")
            first = numbers[0] if "changes" in told else 0
            sent = np.array([each["sent"] for each in rows])
            self._frames[data] = Frame(first, numbers[-1], sent)
        return self._frames[data]


def _complete(buffer: bytearray) -> Iterator[bytes]:
    """The data of events that have arrived as a whole; lengths of chunks stand between them."""
    end = buffer.rfind(b"\n\n")
    if end < 0:
        return
    whole = bytes(buffer[:end])
    del buffer[: end + 2]
    for event in whole.split(b"\n\n"):
        start = event.find(_DATA)
        if start >= 0:
            yield event[start + len(_DATA) :]
