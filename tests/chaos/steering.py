"""A clock and a disk of a real broker process that a test can put out of order while it runs."""

import json
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.clock import SystemClock
from headrace.log import SystemDisk
from headrace.records import Readable


class SteeredClock(SystemClock):
    """The machine's clock, with its wall-clock time moved."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, as somebody set the clock."""
        return super().now_ms() + self.ahead_ms


class SteeredDisk(SystemDisk):
    """The machine's disk, which can be made slow, or to end the process in the middle of a write.

    Of a torn write a part of the bytes reaches the file; then the process is gone at once.
    """

    def __init__(self) -> None:
        self.write_seconds = 0.0
        self.sync_seconds = 0.0
        self._writes_left: int | None = None
        self._kept = 0.0

    def tear(self, *, after: int, kept: float) -> None:
        """Let a later write be the last thing that this process does."""
        self._kept = kept
        self._writes_left = after

    def pwrite(self, descriptor: int, data: Readable, position: int, /) -> int:  # type: ignore[override]
        """Write some of `data`."""
        _linger(self.write_seconds)
        if self._writes_left is not None:
            self._writes_left -= 1
            if self._writes_left < 0:
                os.pwrite(descriptor, memoryview(data)[: int(len(data) * self._kept)], position)
                os.kill(os.getpid(), signal.SIGKILL)
        return os.pwrite(descriptor, data, position)

    def sync(self, descriptor: int, /) -> None:  # type: ignore[override]
        """Sync a file, in the time that the disk takes."""
        _linger(self.sync_seconds)
        SystemDisk.sync(descriptor)


def _linger(seconds: float) -> None:
    if seconds:
        time.sleep(random.uniform(0, 2 * seconds))


class Steering:
    """What can be done to a running broker, by messages through a socket in the file system."""

    def __init__(self, clock: SteeredClock, disk: SteeredDisk) -> None:
        self._clock = clock
        self._disk = disk
        self._actions: dict[str, Callable[..., None]] = {
            "set_clock": self.set_clock,
            "slow_disk": self.slow_disk,
            "tear_write": disk.tear,
        }

    def set_clock(self, *, ahead_ms: int) -> None:
        """Move the wall clock, both ways."""
        self._clock.ahead_ms = ahead_ms

    def slow_disk(self, *, write_seconds: float, sync_seconds: float) -> None:
        """Let writes and syncs take this long on average."""
        self._disk.write_seconds = write_seconds
        self._disk.sync_seconds = sync_seconds

    def obey(self, message: dict[str, Any]) -> None:
        """Do what a message says."""
        self._actions[message.pop("action")](**message)

    def listen(self, path: Path) -> None:
        """Obey everybody who connects to a socket of that name, in a thread of its own."""
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("r") as lines:
                self.obey(json.loads(lines.readline()))
                connection.sendall(b"done\n")


def steer(path: Path, action: str, **details: Any) -> None:
    """Tell the process that listens there to do something; returns once it has."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        connection.sendall(json.dumps({"action": action, **details}).encode() + b"\n")
        connection.recv(16)
