"""What a compaction worker is told and what it tells: values that fit on a line of JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

from headrace.log.compaction import ActiveProducer
from headrace.log.transactions import AbortedTransaction


class SourceSegment(NamedTuple):
    """A sealed segment that is to be compacted."""

    base_offset: int
    end_offset: int
    size: int
    index_interval: int


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """One round of compaction of one log."""

    directory: str
    tag: str
    """Goes into the names of the files that are written, so that no two rounds share any."""
    segments: Sequence[SourceSegment]
    first_dirty: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    memory: int
    bytes_per_second: int
    """How fast files are read and written at most; 0 for no limit."""
    floor: int
    """How slow it may become, in bytes a second, before it stops giving way to others."""
    aborted: Sequence[AbortedTransaction] = ()
    producers: Sequence[ActiveProducer] = ()

    @property
    def path(self) -> Path:
        """The log's directory."""
        return Path(self.directory)

    def encode(self) -> str:
        """One line of text."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, line: str) -> Self:
        """Read what `encode` wrote."""
        job = cls(**json.loads(line))
        return replace(
            job,
            segments=tuple(SourceSegment(*each) for each in job.segments),
            aborted=tuple(AbortedTransaction(*each) for each in job.aborted),
            producers=tuple(ActiveProducer(*each) for each in job.producers),
        )


@dataclass(frozen=True, slots=True)
class RewrittenFiles:
    """A pair of synced files that can take the place of segments."""

    bases: Sequence[int]
    """The first offsets of the segments."""
    size: int
    max_timestamp: int
    log_file: str
    index_file: str


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """How a round went."""

    first_dirty: int
    """The log is clean up to here."""
    keys: int
    records_read: int
    records_kept: int
    keyless: int
    """Records that went because they have no key."""
    bytes_read: int
    """Bytes of the segments that were looked at."""
    bytes_kept: int
    """Bytes that are left of them."""
    bytes_pressed: int
    """Bytes learned from, or filtered, without giving way to others."""


@dataclass(frozen=True, slots=True)
class RoundFailed:
    """Why a round came to nothing."""

    reason: str
    corrupt: bool
    """Whether a batch is damaged, so that trying again is of no use."""


Report = RewrittenFiles | RoundEnd | RoundFailed
"""What a worker has to say."""

_KINDS: dict[str, type[Report]] = {
    "rewritten": RewrittenFiles,
    "end": RoundEnd,
    "failed": RoundFailed,
}


def encode_report(report: Report) -> str:
    """One line of text."""
    kind = next(name for name, each in _KINDS.items() if isinstance(report, each))
    return json.dumps({"kind": kind, **asdict(report)})


def decode_report(line: str) -> Report:
    """Read what `encode_report` wrote."""
    facts = json.loads(line)
    return _KINDS[facts.pop("kind")](**facts)
