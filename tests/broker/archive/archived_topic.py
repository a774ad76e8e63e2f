"""A topic that uses an archive, on a broker that does everything quickly, and real clients."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker

TOPIC = "events"
CONFIGS = {
    "remote.storage.enable": "true",
    "segment.bytes": "4096",
    "local.retention.bytes": "4096",
}
QUICKLY: Mapping[str, Any] = {"archive_interval_ms": 50, "retention_check_ms": 50, "flush": "os"}


@contextmanager
def running(data: Path, location: str | Path, **settings: Any) -> Iterator[Broker]:
    """A broker with an archive."""
    with Broker(data, archive=str(location), **{**QUICKLY, **settings}) as broker:
        yield broker


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def create(bootstrap: str, topic: str = TOPIC, **configs: str) -> None:
    settings = {**CONFIGS, **{name.replace("_", "."): value for name, value in configs.items()}}
    new = NewTopic(topic, 1, config=settings)
    client = admin(bootstrap)
    client.create_topics([new])[topic].result(10)


def delete(bootstrap: str, topic: str = TOPIC) -> None:
    client = admin(bootstrap)
    client.delete_topics([topic])[topic].result(10)


def value_of(number: int) -> bytes:
    return f"value {number} ".encode() * 10


def produce(
    bootstrap: str, first: int, count: int, *, topic: str = TOPIC, begin_ms: int = 0
) -> None:
    """Write numbered records, one millisecond apart, in small batches."""
    begin_ms = begin_ms or int(time.time() * 1000) - 1_000_000
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 5})
    for number in range(first, first + count):
        producer.produce(topic, value_of(number), timestamp=begin_ms + number)
    assert producer.flush(20) == 0


def consume(
    bootstrap: str, count: int, *, offset: int = 0, topic: str = TOPIC, **properties: Any
) -> list[tuple[int, bytes]]:
    """Read so many records from an offset on: offsets and values."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "error"} | properties
    )
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        found: list[tuple[int, bytes]] = []
        deadline = time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(found), 1):
                assert message.error() is None, message.error()
                offset_found, value = message.offset(), message.value()
                assert offset_found is not None
                assert value is not None
                found.append((offset_found, value))
        return found
    finally:
        consumer.close()


def written(first: int, count: int) -> list[tuple[int, bytes]]:
    """What `consume` must return."""
    return [(number, value_of(number)) for number in range(first, first + count)]


def local_segments(data: Path, topic: str = TOPIC) -> list[int]:
    """The base offsets of what is on the broker's disk."""
    return sorted(int(path.stem) for path in (data / f"{topic}-0").glob("*.log"))


def objects(location: Path) -> list[Path]:
    """The segments in an archive that is a directory."""
    return sorted(location.glob("partitions/*/*/*.log"))


def eventually(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until something holds that another process brings about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.02)
