"""A topic as the tests of sinks see it."""

import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition

from headrace.kafka import Cluster as KafkaCluster
from headrace.kafka import Isolation, offset_ranges, partitions_of
from headrace.settings import KafkaSettings
from headrace.streams.sinks.topic import TopicSink
from tests.clusters import Cluster

_PATIENCE_SECONDS = 20.0
_SETTLE_SECONDS = 1.0
"""How long a transaction may take to end after its end was answered."""


class TopicTarget:
    """Numbers in a topic."""

    def __init__(self, sink: TopicSink) -> None:
        self.sink = sink

    def rows(self, numbers: Sequence[int]) -> pa.RecordBatch:
        texts = pa.array([str(each).encode() for each in numbers], pa.binary())
        return pa.RecordBatch.from_arrays([texts, texts], names=["key", "value"])

    def seen(self) -> list[int]:
        return [int(value) for value in values_in(self.sink.kafka.bootstrap, self.sink.topic)]


def values_in(bootstrap: str, topic: str, *, committed: bool = True) -> list[bytes]:
    """Every value in a topic, as a reader of committed records sees it, or as it is stored."""
    return [each.value() or b"" for each in records_in(bootstrap, topic, committed=committed)]


def records_in(bootstrap: str, topic: str, *, committed: bool = True) -> list[Message]:
    """Every record, partition by partition in order."""
    level = "read_committed" if committed else "read_uncommitted"
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": level,
            "enable.partition.eof": True,
        }
    )
    try:
        known = consumer.list_topics(topic, timeout=_PATIENCE_SECONDS).topics[topic]
        if not known.partitions:
            return []
        partitions = [TopicPartition(topic, number, 0) for number in known.partitions]
        if committed:
            await_markers(bootstrap, topic)
        consumer.assign(partitions)
        found: list[Message] = []
        ended: set[int | None] = set()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(ended) < len(partitions):
            assert time.monotonic() < deadline, "the topic has no end"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                ended.add(message.partition())
            else:
                found.append(message)
        return found
    finally:
        consumer.close()


def await_markers(bootstrap: str, topic: str, seconds: float = _SETTLE_SECONDS) -> bool:
    """Wait until no transaction is open in a topic; False if one is left open for longer."""
    kafka = KafkaCluster(KafkaSettings(bootstrap=bootstrap))
    partitions = partitions_of(kafka, topic)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        stable, end = (
            {each: found.latest for each, found in ranges.items()}
            for ranges in (offset_ranges(kafka, partitions, isolation=each) for each in Isolation)
        )
        if stable == end:
            return True
        time.sleep(0.02)
    return False


def topic_sink(cluster: Cluster, topic: str, **options: Any) -> TopicSink:
    """A sink that sends rows as soon as it has them, so that failing attempts leave traces."""
    options = {"partitions": 3, "chunk_bytes": 1, **options}
    return TopicSink(KafkaSettings(bootstrap=cluster.bootstrap), topic, **options)
