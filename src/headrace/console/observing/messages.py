"""Reading a topic for somebody who looks at it: a page of records, or those that come in."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.console.observing.decoding import Decoder
from headrace.console.observing.filtering import Filter
from headrace.console.observing.records import RecordSeen, record_seen
from headrace.kafka import (
    Cluster,
    ClusterError,
    Latest,
    Partition,
    Position,
    Reader,
    find_offsets,
    partitions_of,
)

if TYPE_CHECKING:
    from confluent_kafka import Message

MOST_SCANNED: Final = 50_000
"""Records that one search looks at, at most."""

_SEARCH_SECONDS: Final = 5.0
"""How long one search may take."""

_TAIL_RECORDS: Final = 500
"""Records that are taken at a time from a topic that is followed; the next ones come later."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a search has found."""

    records: tuple[RecordSeen, ...]
    scanned: int
    complete: bool
    """Whether everything up to the end was looked at."""


def read_page(
    cluster: Cluster,
    topic: str,
    position: Position,
    wanted: Filter,
    decoder: Decoder,
    *,
    partition: int | None = None,
    limit: int = 100,
) -> Page:
    """The first records from a position on that are wanted; newest first."""
    partitions = _chosen(cluster, topic, partition)
    start = find_offsets(cluster, partitions, position)
    end = find_offsets(cluster, partitions, Latest())
    found: list[RecordSeen] = []
    scanned, deadline = 0, time.monotonic() + _SEARCH_SECONDS
    complete = True
    with Reader(cluster, start, end=end) as reader:
        for message in _records(reader.batches()):
            if message is not None:
                scanned += 1
                record = record_seen(message, decoder)
                if wanted(record):
                    found.append(record)
            full = len(found) >= limit or scanned >= MOST_SCANNED
            if full or time.monotonic() > deadline:
                complete = False
                break
    found.sort(key=lambda each: (each.timestamp or 0, each.partition, each.offset), reverse=True)
    return Page(tuple(found), scanned, complete)


def read_record(
    cluster: Cluster, topic: str, partition: int, offset: int, decoder: Decoder
) -> RecordSeen | None:
    """One record; None if there is none at that offset any more."""
    where = Partition(topic, partition)
    end = find_offsets(cluster, [where], Latest())[where]
    if offset >= end:
        return None
    try:
        with Reader(cluster, {where: offset}, end={where: offset + 1}) as reader:
            for message in _records(reader.batches()):
                if message is not None and message.offset() == offset:
                    return record_seen(message, decoder)
    except ClusterError:
        return None
    return None


class Tail:
    """Follows a topic from its end, or from where it was left; close it. For one thread at a time.

    Nothing is read while nobody calls `take`, so that a pause loses nothing.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        decoder: Decoder,
        *,
        partition: int | None = None,
    ) -> None:
        start = find_offsets(cluster, _chosen(cluster, topic, partition), Latest())
        self._decoder = decoder
        self._reader = Reader(cluster, start)
        self._batches = self._reader.batches()

    def take(self, wanted: Filter) -> list[RecordSeen]:
        """Records that have come since the last time and are wanted, oldest first."""
        found: list[RecordSeen] = []
        taken = 0
        for batch in self._batches:
            taken += len(batch)
            records = (record_seen(message, self._decoder) for message in batch)
            found += [record for record in records if wanted(record)]
            if not batch or taken >= _TAIL_RECORDS:
                break
        return found

    def close(self) -> None:
        """Let go of the connection."""
        self._reader.__exit__(None, None, None)


def _chosen(cluster: Cluster, topic: str, partition: int | None) -> list[Partition]:
    return [
        each
        for each in partitions_of(cluster, topic)
        if partition is None or each.number == partition
    ]


def _records(batches: "Iterable[list[Message]]") -> "Iterator[Message | None]":
    """Every record, and None where there was none for a moment."""
    for batch in batches:
        yield from batch
        if not batch:
            yield None
