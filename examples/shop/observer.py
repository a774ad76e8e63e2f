"""How things stand, as the broker itself tells: offsets, lag, and who reads which partition."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from examples.shop.client import client_settings
from examples.shop.events import PARTITIONS, TOPICS

_TIMEOUT_SECONDS = 5.0
_CREATION_SECONDS = 30.0

Partition = tuple[str, int]
"""A topic, without the demo's prefix, and the number of one of its partitions."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """One consumer group at one moment."""

    state: str
    """What the group is doing, such as `stable` or `rebalancing`."""
    committed: Mapping[Partition, int]
    assignment: Mapping[str, Sequence[Partition]]
    """Partitions per member, by the member's client id."""

    @property
    def at_rest(self) -> bool:
        """Whether every member has its share and no rebalance is under way."""
        return self.state == "stable" and all(self.assignment.values())


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything the broker told at one moment."""

    at: float
    ends: Mapping[Partition, int]
    """The next offset of each partition, which here is also how many records it holds."""
    groups: Mapping[str, GroupState] = field(default_factory=dict)

    def stored(self, topic: str) -> int:
        """Records in a topic."""
        return sum(end for (name, _), end in self.ends.items() if name == topic)

    def lag(self, group: str, partition: Partition) -> int:
        """Records of a partition that a group has not committed yet."""
        # The end was asked for first: a commit may since have overtaken it.
        return max(0, self.ends[partition] - self.groups[group].committed.get(partition, 0))

    def group_lag(self, group: str, topics: Sequence[str]) -> int:
        """Records of these topics that a group has not committed yet."""
        return sum(self.lag(group, place) for place in self.ends if place[0] in topics)


class Observer:
    """Asks the cluster what any Kafka cluster can be asked; changes nothing but topics."""

    def __init__(self, bootstrap: str, prefix: str, groups: Sequence[str]) -> None:
        settings = client_settings(bootstrap, "observer")
        self._admin = AdminClient(settings)
        self._prefix = prefix
        self._partitions = [(topic, n) for topic in TOPICS for n in range(PARTITIONS)]
        self._places = [TopicPartition(prefix + topic, n) for topic, n in self._partitions]
        # Consumers that never subscribe, only to ask for offsets: librdkafka's admin client
        # crashes when it asks a group's coordinator that is not ready (librdkafka issue 5040).
        self._readers = {
            group: Consumer(settings | {"group.id": prefix + group, "enable.auto.commit": False})
            for group in groups
        }

    def create_topics(self) -> None:
        """Create the shop's topics and wait until every partition answers."""
        topics = [NewTopic(self._prefix + name, num_partitions=PARTITIONS) for name in TOPICS]
        for created in self._admin.create_topics(topics, request_timeout=_TIMEOUT_SECONDS).values():
            created.result()
        deadline = time.monotonic() + _CREATION_SECONDS
        while True:
            try:
                self._ends()
            except KafkaException:
                # A cluster says that a topic exists before every partition has found its leader.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def delete_topics(self) -> None:
        """Remove them again, from a cluster that outlives the demo."""
        names = [self._prefix + name for name in TOPICS]
        for deleted in self._admin.delete_topics(names, request_timeout=_TIMEOUT_SECONDS).values():
            deleted.result()

    def observe(self, at: float) -> Observation:
        """Ask for the offsets of every partition and for the state of every group.

        Raises `KafkaException` if the cluster cannot answer just now, as while a group forms.
        """
        ends = self._ends()
        return Observation(at, ends, {group: self._group(group) for group in self._readers})

    def close(self) -> None:
        """Close the connections."""
        for reader in self._readers.values():
            reader.close()

    def _ends(self) -> dict[Partition, int]:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        answers = self._admin.list_offsets(
            dict.fromkeys(self._places, latest), request_timeout=_TIMEOUT_SECONDS
        )
        return {self._plain(place): answer.result().offset for place, answer in answers.items()}

    def _group(self, group: str) -> GroupState:
        name = self._prefix + group
        described = self._admin.describe_consumer_groups([name], request_timeout=_TIMEOUT_SECONDS)
        description = described[name].result()
        committed = self._readers[group].committed(self._places, _TIMEOUT_SECONDS)
        for place in committed:
            if place.error is not None:
                raise KafkaException(place.error)
        return GroupState(
            state=_in_words(description.state),
            committed={self._plain(place): max(0, place.offset) for place in committed},
            assignment={
                member.client_id: [
                    self._plain(place) for place in member.assignment.topic_partitions
                ]
                for member in description.members
            },
        )

    def _plain(self, place: TopicPartition) -> Partition:
        return place.topic.removeprefix(self._prefix), place.partition


def _in_words(state: ConsumerGroupState) -> str:
    rebalancing = {
        ConsumerGroupState.PREPARING_REBALANCING,
        ConsumerGroupState.COMPLETING_REBALANCING,
    }
    return "rebalancing" if state in rebalancing else state.name.lower()
