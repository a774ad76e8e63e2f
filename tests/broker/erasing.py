"""Writing records of several customers, and erasing those of some."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.kafka import Cluster, follow_excision, start_excision
from headrace.settings import KafkaSettings

TOPIC = "people"
CUSTOMERS = 7


def customer(number: int) -> bytes:
    return b"customer-%d" % (number % CUSTOMERS)


def secret(number: int) -> bytes:
    """A value that is found nowhere by chance."""
    return b"<secret-%06d>" % number


def cluster_at(bootstrap: str) -> Cluster:
    return Cluster(KafkaSettings(bootstrap=bootstrap))


def create(bootstrap: str, *, partitions: int = 1, **config: str) -> None:
    names = {name.replace("_", "."): value for name, value in config.items()}
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        (made,) = admin.create_topics([NewTopic(TOPIC, partitions, config=names)]).values()
        made.result()


def write(
    bootstrap: str, count: int, *, first: int = 0, codec: str = "none", linger_ms: int = 5
) -> None:
    """Write records, one customer after the other, to partition 0."""
    settings = {
        "bootstrap.servers": bootstrap,
        "compression.type": codec,
        "linger.ms": linger_ms,
        "batch.num.messages": 40,
    }
    with quiet_producer(settings) as producer:
        for number in range(first, first + count):
            producer.produce(
                TOPIC,
                secret(number),
                customer(number),
                partition=0,
                headers=[("parity", b"even" if number % 2 == 0 else b"odd")],
            )


@contextmanager
def quiet_producer(settings: dict[str, Any]) -> Iterator[Producer]:
    """A producer that has delivered everything at the end of the block."""
    producer = Producer({"log_level": 0, **settings})
    yield producer
    assert producer.flush(30) == 0


def erase(bootstrap: str, *keys: bytes, **options: Any) -> dict[str, Any]:
    """Erase records and wait for the receipt."""
    cluster = cluster_at(bootstrap)
    job = start_excision(cluster, options.pop("topic", TOPIC), keys=keys, **options)
    *_, last = follow_excision(cluster, job)
    assert last.receipt is not None
    return last.receipt


def read(bootstrap: str, *, isolation: str = "read_uncommitted") -> list[tuple[int, bytes]]:
    """Offset and value of everything in partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if (error := message.error()) is not None:
            assert error.name() == "_PARTITION_EOF", error
            consumer.close()
            return found
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert value is not None
        found.append((offset, value))
    raise AssertionError("the end of the partition was not reached")


def expected(count: int, erased: Sequence[bytes]) -> list[tuple[int, bytes]]:
    return [(number, secret(number)) for number in range(count) if customer(number) not in erased]


def files_with(data: Path, needle: bytes) -> list[str]:
    """The files below a directory that contain some bytes."""
    return [
        str(path.relative_to(data))
        for path in sorted(data.rglob("*"))
        if path.is_file() and needle in path.read_bytes()
    ]
