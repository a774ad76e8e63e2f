"""Where decoded state lies: in the worker's memory, or in files that are mapped into it.

State that has no room in memory is written to a file without a name and mapped. Reading it is the
same as reading memory; the operating system keeps the pages that are used and drops the others
when it needs room. A worker that dies leaves nothing behind.
"""

import mmap
import os
import tempfile
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(slots=True)
class Room:
    """The memory that decoded state may take in one worker, and what it takes."""

    limit: int
    used: int = 0
    spilled: int = 0

    def place(self, blob: bytes) -> "Placed":
        """Keep a blob in memory while there is room, in a mapped file from then on."""
        if self.used + len(blob) <= self.limit:
            self.used += len(blob)
            return Placed(self, blob, len(blob), in_memory=True)
        self.spilled += len(blob)
        return Placed(self, _mapped(blob), len(blob), in_memory=False)


class Placed:
    """A blob in its place; when nothing refers to it any more, the room is free again."""

    __slots__ = ("_bytes", "_in_memory", "_room", "buffer")

    def __init__(self, room: Room, blob: Any, size: int, *, in_memory: bool) -> None:
        self._room = room
        self._bytes = size
        self._in_memory = in_memory
        self.buffer = pa.py_buffer(blob)

    def __del__(self) -> None:
        if self._in_memory:
            self._room.used -= self._bytes
        else:
            self._room.spilled -= self._bytes


def _mapped(blob: bytes) -> mmap.mmap:
    # Spark's own directories for what does not fit are on disks that are meant for it.
    directory = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or None
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(blob)
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
