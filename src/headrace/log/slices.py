"""What a read returns: a run of whole batches, still in their file."""

from typing import Final

from headrace.log.handles import FileHandle


class LogSlice:
    """Consecutive whole batches of one segment, as a range of its file.

    It stays readable for as long as it exists, whatever becomes of the segment. May be used from
    any thread.
    """

    __slots__ = ("end_offset", "handle", "length", "position")

    def __init__(
        self, handle: FileHandle | None, position: int, length: int, end_offset: int = 0
    ) -> None:
        self.handle: Final = handle
        """The file; None for an empty slice."""
        self.position: Final = position
        """Where the first batch begins in the file."""
        self.length: Final = length
        """Bytes of all batches together; zero if there was nothing to read."""
        self.end_offset: Final = end_offset
        """All batches lie before this offset, and hardly any others do."""

    def __len__(self) -> int:
        """Bytes of all batches together."""
        return self.length

    def __repr__(self) -> str:
        """Name the range."""
        return f"LogSlice(position={self.position}, length={self.length})"

    def read(self, start: int = 0, count: int | None = None) -> bytes:
        """Read up to `count` bytes, or all that follow, from `start` on.

        This may block. Raises `StorageFailed` if the disk cannot be read.
        """
        remaining = self.length - start
        if count is None or count > remaining:
            count = remaining
        if self.handle is None or count <= 0:
            return b""
        return self.handle.read(count, self.position + start)

    def send(self, socket: int, start: int, count: int) -> int:
        """Send up to `count` bytes from `start` on to a socket, past this process's memory.

        Returns how many it took; raises what the operating system says of a socket that takes
        none. This may block on the disk, never on a non-blocking socket.
        """
        if self.handle is None:
            return 0
        return self.handle.send(socket, self.position + start, min(count, self.length - start))


EMPTY_SLICE: Final = LogSlice(None, 0, 0)
"""What there is to read at the end of a log."""
