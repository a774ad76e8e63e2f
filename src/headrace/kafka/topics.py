"""Topics: the one place where they are listed, described, created, changed and deleted."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import ClusterError, RequestRefused, TopicExists, UnknownTopic
from headrace.kafka.positions import Partition, offset_ranges
from headrace.kafka.topic_config import explain_refusal

if TYPE_CHECKING:
    from confluent_kafka import TopicPartitionInfo
    from confluent_kafka.admin import TopicDescription

_PATIENCE_SECONDS = 10.0
"""How long a decision of the cluster about a topic may take until every client sees it."""

_PAUSE_SECONDS = 0.02
"""How long to wait before looking again."""


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A line in a list of topics."""

    name: str
    partitions: int
    replicas: int

    @property
    def internal(self) -> bool:
        """Whether the cluster keeps the topic for itself."""
        return self.name.startswith("__")


@dataclass(frozen=True, slots=True)
class PartitionDetail:
    """One partition: where it lives and what it holds."""

    number: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class TopicDetail:
    """A topic with all its partitions."""

    name: str
    id: str
    partitions: tuple[PartitionDetail, ...]


def list_topics(cluster: Cluster) -> list[TopicSummary]:
    """All topics by name, the cluster's own included."""
    from confluent_kafka import KafkaException

    try:
        found = cluster.admin.list_topics(timeout=cluster.timeout).topics
    except KafkaException as exception:
        raise cluster.failure(exception.args[0], "list topics") from None
    return [
        TopicSummary(
            name,
            len(found[name].partitions),
            max((len(each.replicas) for each in found[name].partitions.values()), default=0),
        )
        for name in sorted(found)
    ]


def describe_topic(cluster: Cluster, name: str) -> TopicDetail:
    """A topic's partitions with leaders and offsets; UnknownTopic if there is none."""
    found = _describe(cluster, name)
    held = offset_ranges(
        cluster,
        (Partition(name, each.id) for each in found.partitions if _leader(each) is not None),
    )
    return TopicDetail(
        name,
        str(found.topic_id),
        tuple(
            PartitionDetail(
                each.id,
                _leader(each),
                tuple(node.id for node in each.replicas),
                tuple(node.id for node in each.isr),
                *held.get(Partition(name, each.id), (-1, -1)),
            )
            for each in found.partitions
        ),
    )


def partitions_of(cluster: Cluster, name: str) -> list[Partition]:
    """The partitions of a topic in order; UnknownTopic if there is none. Never creates it."""
    return [Partition(name, each.id) for each in _describe(cluster, name).partitions]


def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int | None = None,
    replicas: int | None = None,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic and return once it can be written to; numbers left out are the cluster's.

    TopicExists if it is there already; RequestRefused for a bad name, number or configuration.
    """
    from confluent_kafka.admin import NewTopic

    wanted = NewTopic(name, partitions or -1, replicas or -1, config=dict(config or {}))
    answer = cluster.admin.create_topics([wanted], request_timeout=cluster.timeout)[name]
    try:
        cluster.wait(answer, f"create the topic {name}")
    except RequestRefused as refused:
        if refused.reason == "TOPIC_ALREADY_EXISTS":
            raise TopicExists(name) from None
        raise explain_refusal(refused, config or {}) from None
    _await_leaders(cluster, name, partitions or 1)


def ensure_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int | None = None,
    replicas: int | None = None,
    config: Mapping[str, str] | None = None,
) -> bool:
    """Create the topic unless it exists; True if it did not. An existing one is left as it is."""
    try:
        create_topic(cluster, name, partitions=partitions, replicas=replicas, config=config)
    except TopicExists:
        return False
    return True


def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete a topic and all it holds, until no client sees it; UnknownTopic if there is none."""
    answer = cluster.admin.delete_topics([name], request_timeout=cluster.timeout)[name]
    cluster.wait(answer, f"delete the topic {name}", topic=name)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    with suppress(UnknownTopic):
        while time.monotonic() < deadline:
            _describe(cluster, name)
            time.sleep(_PAUSE_SECONDS)


def add_partitions(cluster: Cluster, name: str, total: int) -> None:
    """Grow a topic to `total` partitions; keys may then land elsewhere than before."""
    from confluent_kafka.admin import NewPartitions

    request = [NewPartitions(name, total)]
    answer = cluster.admin.create_partitions(request, request_timeout=cluster.timeout)[name]
    cluster.wait(answer, f"grow {name} to {total} partitions", topic=name)
    _await_leaders(cluster, name, total)


def _describe(cluster: Cluster, name: str) -> "TopicDescription":
    from confluent_kafka import TopicCollection

    request = TopicCollection([name])
    answer = cluster.admin.describe_topics(request, request_timeout=cluster.timeout)[name]
    found: TopicDescription = cluster.wait(answer, f"describe {name}", topic=name)
    return found


def _leader(partition: "TopicPartitionInfo") -> int | None:
    # The client library's annotation denies it, but a partition without a leader has None.
    return getattr(partition.leader, "id", None)


def _await_leaders(cluster: Cluster, name: str, partitions: int) -> None:
    """Wait until the topic can be written to: Kafka answers when the decision is recorded."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with suppress(UnknownTopic):
            found = _describe(cluster, name).partitions
            if len(found) >= partitions and all(_leader(each) is not None for each in found):
                offset_ranges(cluster, (Partition(name, each.id) for each in found))
                return
        time.sleep(_PAUSE_SECONDS)
    raise ClusterError(
        f"The topic {name} was accepted but has no leader yet; look again with "
        f"`headrace topics describe {name}`."
    )
