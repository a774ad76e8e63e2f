"""Finding the first record that a consumer would get from an offset on, in many partitions."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.kafka.cluster import Cluster
from headrace.kafka.positions import Isolation, Partition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_PARTITIONS_AT_A_TIME = 256
_BYTES_PER_PARTITION = 64 << 10
"""Enough for a record and small enough for hundreds of partitions; larger batches come anyway."""


class FirstRecord(NamedTuple):
    """A record's place and, unless it has none, its time."""

    offset: int
    timestamp: int | None


class FirstRecordReader:
    """Reads one record per partition and nothing more; commits nothing. Close it after use.

    Control batches and, with READ_COMMITTED, aborted records are no records: what they fill is
    passed over as a consumer passes over it.
    """

    def __init__(self, cluster: Cluster, isolation: Isolation) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._opened: Consumer | None = None

    def read(self, offsets: Mapping[Partition, int]) -> dict[Partition, FirstRecord | None]:
        """The first record at or behind each offset, or None if there is none up to the end.

        Partitions that did not answer in time are left out.
        """
        from confluent_kafka import KafkaException

        found: dict[Partition, FirstRecord | None] = {}
        deadline = time.monotonic() + self._cluster.timeout
        try:
            for partitions in _pieces(list(offsets)):
                self._read({each: offsets[each] for each in partitions}, found, deadline)
        except KafkaException as exception:
            self.close()
            raise self._cluster.failure(exception.args[0], "read records") from None
        return found

    def close(self) -> None:
        """Let go of the connections."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _read(
        self,
        offsets: Mapping[Partition, int],
        found: dict[Partition, FirstRecord | None],
        deadline: float,
    ) -> None:
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        places = {
            each: TopicPartition(each.topic, each.number, offset)
            for each, offset in offsets.items()
        }
        consumer.incremental_assign(list(places.values()))
        while places and time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is None:
                continue
            partition = Partition(str(message.topic()), message.partition() or 0)
            if partition not in places or not _settles(message):
                continue
            consumer.incremental_unassign([places.pop(partition)])
            if message.error() is None:
                found[partition] = _position(message)
            elif _is_end(message):
                found[partition] = None
        if places:
            consumer.incremental_unassign(list(places.values()))

    def _consumer(self) -> "Consumer":
        if self._opened is None:
            self._opened = self._cluster.consumer(
                {
                    "group.id": "headrace-reader",  # demanded by the client library, never joined
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    # What retention removes meanwhile is not unread any more: the rest is.
                    "auto.offset.reset": "earliest",
                    "isolation.level": self._isolation.value,
                    "fetch.message.max.bytes": _BYTES_PER_PARTITION,
                    "fetch.wait.max.ms": 100,
                    # A short queue would otherwise pause fetching for a second at a time.
                    "queued.min.messages": 1,
                    "fetch.queue.backoff.ms": 10,
                }
            )
        return self._opened


def _settles(message: "Message") -> bool:
    """Whether the message says something about its partition, not about a connection."""
    error = message.error()
    return error is None or _is_end(message) or not error.retriable()


def _is_end(message: "Message") -> bool:
    error = message.error()
    return error is not None and error.name() == "_PARTITION_EOF"


def _position(message: "Message") -> FirstRecord:
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

    kind, timestamp = message.timestamp()
    known = kind != TIMESTAMP_NOT_AVAILABLE and timestamp >= 0
    return FirstRecord(message.offset() or 0, timestamp if known else None)


def _pieces(partitions: Sequence[Partition]) -> Iterable[Sequence[Partition]]:
    return (
        partitions[at : at + _PARTITIONS_AT_A_TIME]
        for at in range(0, len(partitions), _PARTITIONS_AT_A_TIME)
    )
