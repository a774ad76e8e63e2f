"""Records in and out of a cluster, as a test of flows wants them."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.settings import KafkaSettings, Settings, StreamsSettings

_IN_FLIGHT = 50_000
"""Records that a client may hold; it takes twice as many, and refuses more."""


@dataclass(frozen=True)
class Topics:
    """The topics of a cluster."""

    bootstrap: str

    def write(self, topic: str, *values: object, keys: Iterable[str | None] | None = None) -> None:
        """Append records: bytes and None as they are, everything else as JSON."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for key, value in zip(keys or [None] * len(values), values, strict=True):
            raw = value if value is None or isinstance(value, bytes) else json.dumps(value)
            if len(producer) > _IN_FLIGHT:
                producer.flush(20)
            producer.produce(topic, key=key, value=raw)
        assert producer.flush(20) == 0

    def read(self, topic: str) -> list[tuple[str | None, object]]:
        """Keys and values of all committed records, partition by partition."""
        config = {"bootstrap.servers": self.bootstrap, "group.id": "reader"}
        consumer = Consumer({**config, "enable.partition.eof": True})
        partitions = consumer.list_topics(topic, 20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found, ends = [], 0
        while ends < len(partitions):
            message = consumer.poll(20)
            assert message is not None
            if message.error():
                ends += 1
                continue
            key, value = message.key(), message.value()
            found.append(
                (
                    None if key is None else key.decode(),
                    None if value is None else json.loads(value),
                )
            )
        consumer.close()
        return found

    def await_records(self, topic: str, count: int, seconds: float = 90) -> None:
        """Wait until so many records can be read."""
        deadline = time.monotonic() + seconds
        while len(self.read(topic)) < count:
            assert time.monotonic() < deadline, f"{topic} does not have {count} records"

    def settings(self, checkpoints: object, **streams: object) -> Settings:
        """Settings of a flow on this cluster that does not lose time."""
        quick = {"backoff_ms": 10, "tries": 2, **streams}
        return Settings(
            kafka=KafkaSettings(bootstrap=self.bootstrap),
            streams=StreamsSettings(checkpoints=str(checkpoints), **quick),  # type: ignore[arg-type]
        )
