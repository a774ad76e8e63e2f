"""What an archive says about one partition: which segments it has, and how to tell them whole.

Objects of a partition are named by its topic's id, so that a topic that was deleted and made again
under its old name is another one here, too:

    partitions/<topic id>/<partition>/manifest-0 and -1          see `twins`
    partitions/<topic id>/<partition>/<base offset>-<revision>-<checksum>.log

Data objects are never overwritten. First an object is put, then the manifest that names it; first a
manifest that no longer names an object, then the object is deleted. Whatever a crash leaves beyond
the manifest is garbage, and nothing that the manifest names is missing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from headrace.log.epochs import EpochStart
from headrace.log.errors import ArchiveDamaged
from headrace.log.framing import FileFormat
from headrace.log.transactions import AbortedTransaction

MANIFEST_FORMAT: Final = FileFormat(b"HRAM", 1)
"""How a manifest begins."""

PARTITIONS: Final = "partitions"
"""The path below which all partitions are."""


class ArchivedSegment(NamedTuple):
    """A segment that the archive has."""

    base_offset: int
    end_offset: int
    """The offset after its last record."""
    size: int
    checksum: int
    """CRC-32C of all its bytes."""
    max_timestamp: int
    created_ms: int
    revision: int = 0
    """How often the segment was rewritten since it came to the archive."""
    aborted: tuple[AbortedTransaction, ...] = ()
    """The aborted transactions with anything in it, wherever they ended."""

    @property
    def name(self) -> str:
        """What its object is called, within the partition."""
        return f"{self.base_offset:020d}-{self.revision}-{self.checksum:08x}.log"


@dataclass(frozen=True, slots=True)
class ArchivedPartition:
    """Which partition of which topic something in an archive belongs to."""

    topic: str
    topic_id: str
    """In hexadecimal digits."""
    index: int

    @property
    def path(self) -> str:
        """The path below which all of its objects are."""
        return f"{PARTITIONS}/{self.topic_id}/{self.index}"

    def key(self, segment: ArchivedSegment) -> str:
        """The key of a segment's object."""
        return f"{self.path}/{segment.name}"

    def __str__(self) -> str:
        """Name it as people do."""
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of a partition's archive."""

    partition: ArchivedPartition
    generation: int = 0
    """Counts the changes; zero means that the archive knows nothing of the partition."""
    start_offset: int = 0
    """The first offset that may be read, from here or from the broker's disk."""
    segments: tuple[ArchivedSegment, ...] = ()
    """In the order of their offsets; the first may begin before the start."""
    epochs: Sequence[EpochStart] = ()
    """The history of leader epochs up to the end."""

    @property
    def end_offset(self) -> int:
        """The offset after the last record in the archive; the start if there is none."""
        return self.segments[-1].end_offset if self.segments else self.start_offset

    @property
    def live_segments(self) -> tuple[ArchivedSegment, ...]:
        """The segments with anything that may still be read."""
        start = self.start_offset
        return tuple(segment for segment in self.segments if segment.end_offset > start)

    def encode(self) -> bytes:
        """Write it down."""
        facts = {
            "topic": self.partition.topic,
            "topic_id": self.partition.topic_id,
            "partition": self.partition.index,
            "generation": self.generation,
            "start_offset": self.start_offset,
            "segments": self.segments,
            "epochs": self.epochs,
        }
        return json.dumps(facts, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read what `encode` wrote; `ArchiveDamaged` if it did not."""
        try:
            facts = json.loads(data)
            return cls(
                ArchivedPartition(facts["topic"], facts["topic_id"], int(facts["partition"])),
                generation=int(facts["generation"]),
                start_offset=int(facts["start_offset"]),
                segments=tuple(_segment(row) for row in facts["segments"]),
                epochs=tuple(EpochStart(*map(int, row)) for row in facts["epochs"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ArchiveDamaged(f"a manifest cannot be understood: {error!r}") from error


def _segment(row: list[Any]) -> ArchivedSegment:
    *numbers, aborted = row
    base_offset, end_offset, size, checksum, max_timestamp, created_ms, revision = numbers
    return ArchivedSegment(
        int(base_offset),
        int(end_offset),
        int(size),
        int(checksum),
        int(max_timestamp),
        int(created_ms),
        int(revision),
        tuple(AbortedTransaction(*map(int, each)) for each in aborted),
    )
