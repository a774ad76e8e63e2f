"""Where a bucket's bytes are: Spark's state store when a flow runs, a dictionary in tests.

Changes count when the task that made them commits; until then only it sees them.
"""

from dataclasses import dataclass, field
from typing import Protocol


class Storage(Protocol):
    """The record and the chunks of one bucket."""

    def read_record(self) -> bytes | None:
        """The record, or None if the bucket has never been written."""
        ...

    def write_record(self, record: bytes) -> None:
        """Replace the record."""
        ...

    def read_chunk(self, number: int) -> bytes:
        """A chunk that the record names."""
        ...

    def write_chunk(self, number: int, blob: bytes) -> None:
        """Add a chunk."""
        ...

    def remove_chunk(self, number: int) -> None:
        """Remove a chunk."""
        ...


@dataclass(slots=True)
class MemoryStorage:
    """A bucket in a dictionary, for tests and for looking at what was read from a checkpoint."""

    record: bytes | None = None
    chunks: dict[int, bytes] = field(default_factory=dict)

    def read_record(self) -> bytes | None:
        """The record, or None if the bucket has never been written."""
        return self.record

    def write_record(self, record: bytes) -> None:
        """Replace the record."""
        self.record = record

    def read_chunk(self, number: int) -> bytes:
        """A chunk that the record names."""
        return self.chunks[number]

    def write_chunk(self, number: int, blob: bytes) -> None:
        """Add a chunk."""
        self.chunks[number] = blob

    def remove_chunk(self, number: int) -> None:
        """Remove a chunk."""
        del self.chunks[number]
