"""Reading the offsets that groups have committed, without taking part in them."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from headrace.kafka.cluster import Cluster
from headrace.kafka.positions import Partition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

_MOST_CONSUMERS = 64
"""Groups whose consumer is kept for the next time; each has a few threads and connections."""

_PARTITIONS_PER_REQUEST = 2_000


class CommittedOffsets:
    """Asks groups' coordinators for committed offsets; close it after use.

    Each group is asked through a consumer that never subscribes. The admin client could ask as
    well, but crashes the process while a coordinator is not ready (librdkafka issue 5040).
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._consumers: dict[str, Consumer] = {}

    def of(self, group: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Where a group continues, in those of the partitions where it has committed.

        An offset that is part of an open transaction does not count yet.
        """
        from confluent_kafka import KafkaException, TopicPartition

        wanted = [TopicPartition(each.topic, each.number) for each in partitions]
        found: dict[Partition, int] = {}
        for request in _pieces(wanted, _PARTITIONS_PER_REQUEST):
            try:
                answer = self._consumer(group).committed(request, self._cluster.timeout)
            except KafkaException as exception:
                error = exception.args[0]
                raise self._cluster.failure(error, f"read the offsets of {group}") from None
            for each in answer:
                if each.error is not None:
                    attempt = f"read the offsets of {group} in {each.topic}-{each.partition}"
                    raise self._cluster.failure(each.error, attempt)
                if each.offset >= 0:
                    found[Partition(each.topic, each.partition)] = each.offset
        return found

    def close(self) -> None:
        """Let go of all connections."""
        while self._consumers:
            self._consumers.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _consumer(self, group: str) -> "Consumer":
        consumer = self._consumers.pop(group, None)
        if consumer is None:
            consumer = self._cluster.consumer(
                {
                    "group.id": group,
                    "enable.auto.commit": False,
                    # Otherwise an open transaction of the group would make us wait for its end.
                    "isolation.level": "read_uncommitted",
                }
            )
        self._consumers[group] = consumer
        if len(self._consumers) > _MOST_CONSUMERS:
            longest_unused = next(iter(self._consumers))
            self._consumers.pop(longest_unused).close()
        return consumer


def _pieces(whole: Sequence["TopicPartition"], size: int) -> Iterable[list["TopicPartition"]]:
    return (list(whole[at : at + size]) for at in range(0, len(whole), size))
