"""What a log knows about itself on the disk, so that opening it need not look at every byte."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

from headrace.log.disk import Disk
from headrace.log.epochs import EpochStart
from headrace.log.errors import CorruptFile
from headrace.log.framing import FileFormat, read_framed, write_framed

CHECKPOINT_FORMAT: Final = FileFormat(b"HRCP", 2, older=(1,))
"""How a checkpoint begins; version 1 knew nothing of transactions."""

CHECKPOINT: Final = "checkpoint"
"""The name of the file in a partition's directory."""

_FRAMES: Final = {1: 2, 2: 3}


class KnownSegment(NamedTuple):
    """A segment of which the first `size` bytes are intact and on the disk."""

    base_offset: int
    end_offset: int
    size: int
    max_timestamp: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A moment in a log's life at which everything before its end was on the disk.

    There is no marker for a clean shutdown: a log whose files are exactly as a checkpoint says
    needs no recovery, whatever happened. `closed` only adds that readers saw nothing beyond it.
    """

    start_offset: int
    """The first offset that may be read."""

    segments: Sequence[KnownSegment]
    """All segments, oldest first."""

    epochs: Sequence[EpochStart]
    """The history of leader epochs."""

    closed: bool
    """Whether the log was closed with this checkpoint."""

    producers: bytes
    """The state of idempotent producers, as `ProducerStates` encodes it."""

    transactions: bytes = b""
    """Open and aborted transactions, as `Transactions` encodes them."""

    @property
    def end_offset(self) -> int:
        """Everything before this offset was on the disk."""
        return self.segments[-1].end_offset

    def write(self, disk: Disk, directory: Path) -> None:
        """Replace a partition's checkpoint; blocks until it is on the disk."""
        facts = {
            "start_offset": self.start_offset,
            "segments": [list(segment) for segment in self.segments],
            "epochs": [list(start) for start in self.epochs],
            "closed": self.closed,
        }
        payloads = [json.dumps(facts).encode(), self.producers, self.transactions]
        write_framed(disk, directory / CHECKPOINT, CHECKPOINT_FORMAT, payloads)

    @classmethod
    def read(cls, disk: Disk, directory: Path) -> Self:
        """Read a partition's checkpoint.

        Raises `FileNotFoundError` if there is none, `CorruptFile` if it is damaged and
        `UnsupportedFormat` if another version wrote it.
        """
        path = directory / CHECKPOINT
        encoded, *states = read_framed(disk, path, CHECKPOINT_FORMAT, _FRAMES)
        try:
            facts = json.loads(encoded)
            return cls(
                start_offset=int(facts["start_offset"]),
                segments=tuple(KnownSegment(*map(int, row)) for row in facts["segments"]),
                epochs=tuple(EpochStart(*map(int, row)) for row in facts["epochs"]),
                closed=bool(facts["closed"]),
                producers=states[0],
                transactions=b"".join(states[1:]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFile(f"{path} cannot be understood: {error!r}") from error
