"""Reading partitions without a group: from given offsets, up to given ends or for ever."""

import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from headrace.kafka.cluster import CONNECT_SECONDS, Cluster
from headrace.kafka.errors import ClusterError, ClusterSilent
from headrace.kafka.positions import Partition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_BATCH = 1000
"""Records handed over at a time, at most."""

_PAUSE_SECONDS = 0.1
"""How long to wait for a record before handing over none, so that the caller can breathe."""


_STALL_SECONDS = 5.0
"""How long nothing comes, although there is more, before somebody is told."""


class OffsetGone(ClusterError):
    """Retention removed records that were about to be read."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(
            f"The next record of {partition} is gone: it was deleted before it was read. Start "
            "again from a later position, or from earliest."
        )


class Reader:
    """Reads partitions in parallel, each in order, from `start` up to but not including `end`.

    Without `end` it follows: it never finishes by itself and outlives the cluster's restarts. With
    `end` it finishes once every partition got there, and gives up with ClusterSilent when the
    cluster falls silent on the way. `on_outage` is told, once per outage, why nobody answers;
    `on_stall`, once until records come again, which partitions yield nothing before their ends.
    """

    def __init__(
        self,
        cluster: Cluster,
        start: Mapping[Partition, int],
        *,
        end: Mapping[Partition, int] | None = None,
        on_outage: Callable[[str], None] = lambda reason: None,
        on_stall: Callable[[list[Partition]], None] = lambda partitions: None,
    ) -> None:
        from confluent_kafka import TopicPartition

        self._cluster = cluster
        self._end = end
        self._on_outage = on_outage
        self._on_stall = on_stall
        self._outage_began: float | None = None
        self._heard = time.monotonic()
        self._stalled = False
        # Those whose end was seen after their last record.
        self._exhausted: set[Partition] = set()
        self._open = {each for each in start if end is None or start[each] < end[each]}
        self._consumer = cluster.consumer(
            {
                "group.id": "headrace-reader",  # demanded by the client library, never joined
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "error_cb": self._note_failure,
            }
        )
        self._consumer.assign(
            [TopicPartition(each.topic, each.number, start[each]) for each in self._open]
        )

    @property
    def at_end(self) -> bool:
        """Whether every partition's end was seen after its last record."""
        return self._open <= self._exhausted

    def batches(self) -> Iterator["list[Message]"]:
        """Records as they come, in lists that may be empty; nothing at or beyond `end`."""
        while self._open:
            messages = self._consumer.consume(_BATCH, _PAUSE_SECONDS)
            if messages:
                self._outage_began = None
                self._heard = time.monotonic()
                self._stalled = False
            yield [each for each in messages if self._is_wanted(each)]
            self._mind_outage()
            self._mind_stall()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave quietly: nothing is committed."""
        self._consumer.close()

    def _is_wanted(self, message: "Message") -> bool:
        """Whether to hand the message over; notices partitions that have reached their end."""
        partition = Partition(str(message.topic()), _known(message.partition()))
        error = message.error()
        if error is not None:
            if error.name() == "_PARTITION_EOF":
                # Also where the last offsets belong to no record, as after a transaction.
                self._exhausted.add(partition)
                if self._end is not None:
                    self._open.discard(partition)
                return False
            if error.name() == "_AUTO_OFFSET_RESET":
                raise OffsetGone(partition)
            raise self._cluster.failure(error, f"read {partition}", topic=partition.topic)
        self._exhausted.discard(partition)
        if self._end is None:
            return True
        offset, end = _known(message.offset()), self._end[partition]
        if offset >= end - 1:
            self._open.discard(partition)
        return offset < end

    def _note_failure(self, error: "KafkaError") -> None:
        self._cluster.note_failure(error)
        if error.name() == "_ALL_BROKERS_DOWN" and self._outage_began is None:
            self._outage_began = time.monotonic()
            self._on_outage(self._reason())

    def _mind_outage(self) -> None:
        if self._end is None or self._outage_began is None:
            return
        if time.monotonic() - self._outage_began > CONNECT_SECONDS:
            raise ClusterSilent(self._cluster.bootstrap, self._reason())

    def _mind_stall(self) -> None:
        """Notice what the client library keeps to itself: a broker that cannot read its records."""
        waiting = self._open - self._exhausted
        quiet = time.monotonic() - self._heard > _STALL_SECONDS
        if waiting and quiet and self._outage_began is None and not self._stalled:
            self._stalled = True
            self._on_stall(sorted(waiting))

    def _reason(self) -> str:
        # A broker that closes its connections properly gives the client library no reason.
        return self._cluster.last_failure or "the connection was closed"


def _known(number: int | None) -> int:
    """A number that every message from a broker has, though the library's types allow for none."""
    return -1 if number is None else number
