"""A real cluster as the lag meter asks it."""

from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Self

from headrace.kafka.cluster import Cluster
from headrace.kafka.committed import CommittedOffsets
from headrace.kafka.errors import ClusterUnreachable
from headrace.kafka.first_records import FirstRecord, FirstRecordReader
from headrace.kafka.groups import GroupSummary, list_groups
from headrace.kafka.positions import Isolation, OffsetRange, Partition, offset_ranges
from headrace.kafka.reachability import reason_nobody_answers


class ClusterLagSource:
    """Answers the meter's questions and keeps the connections for the next time; close it.

    Belongs to one thread at a time.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._committed = CommittedOffsets(cluster)
        self._readers = {each: FirstRecordReader(cluster, each) for each in Isolation}

    def groups(self) -> list[GroupSummary]:
        """All groups of consumers; ClusterUnreachable at once if nobody listens."""
        # An admin client that has been connected once would only find out by its timeout.
        if reason := reason_nobody_answers(self._cluster.bootstrap):
            raise ClusterUnreachable(self._cluster.bootstrap, reason)
        return [each for each in list_groups(self._cluster) if not each.internal]

    def partitions(self) -> list[Partition]:
        """All partitions that have a leader."""
        from confluent_kafka import KafkaException

        try:
            topics = self._cluster.admin.list_topics(timeout=self._cluster.timeout).topics
        except KafkaException as exception:
            raise self._cluster.failure(exception.args[0], "list topics") from None
        return [
            Partition(name, number)
            for name, topic in sorted(topics.items())
            for number, partition in sorted(topic.partitions.items())
            if partition.leader >= 0
        ]

    def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Where a group continues, in those of the partitions where it has committed."""
        return self._committed.of(group, partitions)

    def ranges(
        self, partitions: Collection[Partition], isolation: Isolation
    ) -> dict[Partition, OffsetRange]:
        """What each partition holds, up to the end that such a reader sees."""
        return offset_ranges(self._cluster, partitions, isolation=isolation)

    def first_records(
        self, offsets: Mapping[Partition, int], isolation: Isolation
    ) -> dict[Partition, FirstRecord | None]:
        """The first record from each offset on; None where there is none, left out if unknown."""
        return self._readers[isolation].read(offsets)

    def close(self) -> None:
        """Let go of all connections."""
        self._committed.close()
        for reader in self._readers.values():
            reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
