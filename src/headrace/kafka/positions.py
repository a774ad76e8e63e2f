"""Positions in a partition: as people name them, and as the offsets that a cluster finds."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestRefused
from headrace.settings.units import parse_duration

if TYPE_CHECKING:
    from confluent_kafka.admin import OffsetSpec

_LEADER_MOVES = (
    "NOT_LEADER_FOR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
)
"""Errors that pass by themselves, and that the admin client does not retry."""


class Isolation(StrEnum):
    """What a consumer is shown of transactions; the names are Kafka's."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class OffsetRange(NamedTuple):
    """What a partition holds: from `earliest` up to, but not including, `latest`."""

    earliest: int
    latest: int

    def clamp(self, offset: int) -> int:
        """The offset itself, or the nearest one that can be read from."""
        return min(max(offset, self.earliest), self.latest)


@dataclass(frozen=True, slots=True)
class Earliest:
    """The oldest record that is still there."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Behind the newest record: only what comes from now on."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """The record with this offset, or the nearest end of what is there."""

    offset: int


@dataclass(frozen=True, slots=True)
class BeforeEnd:
    """So many offsets before the end."""

    count: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record that is not older than this, in milliseconds since the epoch."""

    timestamp: int


Position = Earliest | Latest | AtOffset | BeforeEnd | AtTime
"""A place in a partition, found anew in each."""


def parse_position(text: str, *, now_ms: int) -> Position:
    """Read "earliest", "latest", an offset, "-100" (from the end), "-10m" (ago) or an ISO time.

    A time without a zone is local. ValueError says what was expected.

    >>> parse_position("-10m", now_ms=1_000_000)
    AtTime(timestamp=400000)
    >>> parse_position("-100", now_ms=0), parse_position("42", now_ms=0)
    (BeforeEnd(count=100), AtOffset(offset=42))
    """
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Earliest() if word == "earliest" else Latest()
    if word.removeprefix("-").isdecimal():
        return BeforeEnd(-int(word)) if word.startswith("-") else AtOffset(int(word))
    try:
        if word.startswith("-"):
            return AtTime(now_ms - parse_duration(word[1:]))
        return AtTime(round(datetime.fromisoformat(text.strip()).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ValueError(
            f'"{text}" is no position; write earliest, latest, an offset such as 42, -100 for the '
            "last hundred, a time such as 2026-03-01T12:00, or -10m for ten minutes ago"
        ) from None


def offset_ranges(
    cluster: Cluster,
    partitions: Iterable[Partition],
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[Partition, OffsetRange]:
    """What each partition holds now; with READ_COMMITTED, up to its last stable offset."""
    from confluent_kafka.admin import OffsetSpec

    wanted = list(partitions)
    earliest = _list_offsets(cluster, wanted, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    latest = _list_offsets(cluster, wanted, OffsetSpec.latest(), isolation)  # type: ignore[no-untyped-call]
    return {each: OffsetRange(earliest[each], latest[each]) for each in wanted}


def find_offsets(
    cluster: Cluster, partitions: Iterable[Partition], position: Position
) -> dict[Partition, int]:
    """The offset of a position in each partition; always one that can be read from."""
    from confluent_kafka.admin import OffsetSpec

    ranges = offset_ranges(cluster, partitions)
    match position:
        case Earliest():
            return {each: held.earliest for each, held in ranges.items()}
        case Latest():
            return {each: held.latest for each, held in ranges.items()}
        case AtOffset(offset):
            return {each: held.clamp(offset) for each, held in ranges.items()}
        case BeforeEnd(count):
            return {each: held.clamp(held.latest - count) for each, held in ranges.items()}
        case AtTime(timestamp):
            spec = OffsetSpec.for_timestamp(max(timestamp, 0))
            found = _list_offsets(cluster, ranges, spec)
            # A partition without such a record answers -1: whatever comes next is the first.
            return {
                each: held.latest if found[each] < 0 else held.clamp(found[each])
                for each, held in ranges.items()
            }


def _list_offsets(
    cluster: Cluster,
    partitions: Iterable[Partition],
    spec: "OffsetSpec",
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[Partition, int]:
    from confluent_kafka import IsolationLevel, TopicPartition

    found: dict[Partition, int] = {}
    missing = list(partitions)
    deadline = time.monotonic() + cluster.timeout
    while missing:
        request = {TopicPartition(each.topic, each.number): spec for each in missing}
        answers = cluster.admin.list_offsets(
            request,
            isolation_level=IsolationLevel[isolation.name],
            request_timeout=cluster.timeout,
        )
        missing = []
        for each, answer in answers.items():
            partition = Partition(each.topic, each.partition)
            try:
                attempt = f"find offsets in {partition}"
                found[partition] = cluster.wait(answer, attempt, topic=each.topic).offset
            except RequestRefused as refused:
                if refused.reason not in _LEADER_MOVES or time.monotonic() > deadline:
                    raise
                missing.append(partition)
        if missing:
            time.sleep(0.02)
    return found
