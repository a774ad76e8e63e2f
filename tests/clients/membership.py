"""Consumers that take part in a group in threads of their own, and what they saw."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.clients.librdkafka import consumer, eventually
from tests.clusters import Cluster


class Member:
    """A confluent-kafka consumer that polls until it is stopped.

    It commits what it has handed on whenever partitions are taken from it, so that a group that
    rebalances repeats nothing.
    """

    def __init__(
        self, cluster: Cluster, group: str, topics: list[str], config: dict[str, Any] | None = None
    ) -> None:
        self.received: dict[tuple[str, int], list[bytes | None]] = defaultdict(list)
        self.revoked: list[list[tuple[str, int]]] = []
        self.errors: list[KafkaError] = []
        self._assigned: set[tuple[str, int]] = set()
        self._stopping = threading.Event()
        quick = {"fetch.wait.max.ms": 50, "error_cb": self.errors.append}
        self._consumer = consumer(cluster, group, {**quick, **(config or {})})
        self._cooperative = "cooperative" in str(
            (config or {}).get("partition.assignment.strategy")
        )
        self._consumer.subscribe(
            topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def assigned(self) -> frozenset[tuple[str, int]]:
        """The topic partitions that are this member's now."""
        return frozenset(self._assigned)

    def stop(self) -> None:
        """Commit, leave the group and wait until that is done."""
        self._stopping.set()
        self._thread.join(30)
        assert not self._thread.is_alive(), "the member does not stop"

    def _run(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.05)
            if message is None:
                continue
            if error := message.error():
                self.errors.append(error)
                continue
            place = message.topic(), message.partition()
            assert place[0] is not None
            assert place[1] is not None
            self.received[place[0], place[1]].append(message.value())
        self._consumer.close()

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._assigned |= {(one.topic, one.partition) for one in partitions}

    def _on_revoke(self, source: Consumer, partitions: list[TopicPartition]) -> None:
        places = [(one.topic, one.partition) for one in partitions]
        self.revoked.append(places)
        self._assigned -= set(places)
        reached = [one for one in source.position(partitions) if one.offset >= 0]
        if reached:
            source.commit(offsets=reached, asynchronous=False)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._assigned -= {(one.topic, one.partition) for one in partitions}


@contextmanager
def stopping(members: list[Member]) -> Iterator[list[Member]]:
    """Stops the members, also those added to the list in the meantime."""
    try:
        yield members
    finally:
        for member in members:
            member.stop()


def await_shares(members: list[Member], sizes: list[int], timeout: float = 30) -> None:
    """Wait until the members have so many partitions each, none of them twice."""

    def settled() -> bool:
        shares = [member.assigned for member in members]
        distinct = len(frozenset().union(*shares)) == sum(map(len, shares))
        return distinct and sorted(map(len, shares)) == sorted(sizes)

    eventually(settled, timeout=timeout)


def total_received(members: list[Member]) -> int:
    """How many messages the members have between them."""
    return sum(len(values) for member in members for values in member.received.values())


def await_total(members: list[Member], count: int, timeout: float = 30) -> None:
    """Wait until the members have received so many messages between them."""
    deadline = time.monotonic() + timeout
    while (total := total_received(members)) < count:
        assert time.monotonic() < deadline, f"only {total} of {count} messages arrived"
        time.sleep(0.02)
