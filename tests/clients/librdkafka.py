"""Producers and consumers of confluent-kafka, set up the way most scenarios want them."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.clusters import Cluster

TIMEOUT_SECONDS = 20.0

T = TypeVar("T")


class Delivery(NamedTuple):
    """How one produced message fared: where it is, or the code of the error."""

    partition: int
    offset: int
    error: int


def producer(cluster: Cluster, config: dict[str, Any] | None = None) -> Producer:
    """A producer with the client's defaults."""
    return Producer({"bootstrap.servers": cluster.bootstrap, **(config or {})})


def consumer(cluster: Cluster, group: str, config: dict[str, Any] | None = None) -> Consumer:
    """A consumer that starts at the beginning and commits only when told to."""
    own = config or {}
    classic = own.get("group.protocol") != "consumer"
    # The other protocol leaves these to the broker, and the client refuses them.
    quick = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200} if classic else {}
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **quick,
            **own,
        }
    )


def reader(cluster: Cluster, topic: str, offset: int = 0, **config: Any) -> Consumer:
    """A consumer assigned to partition 0 from an offset; keywords spell dots as underscores."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    created = consumer(cluster, "unused", settings)
    created.assign([TopicPartition(topic, 0, offset)])
    return created


def send(
    cluster: Cluster,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partition: int = 0,
    timestamps: Iterable[int] | None = None,
    config: dict[str, Any] | None = None,
) -> list[Delivery]:
    """Produce the values to one partition, in order; returns how each fared."""
    deliveries: list[Delivery] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        place = message.partition(), message.offset()
        deliveries.append(
            Delivery(
                place[0] if place[0] is not None else -1,
                place[1] if place[1] is not None else -1,
                error.code() if error else 0,
            )
        )

    sender = producer(cluster, {"linger.ms": 20, **(config or {})})
    moments = iter(timestamps) if timestamps is not None else None
    for value in values:
        moment = next(moments) if moments is not None else 0
        sender.produce(topic, value, partition=partition, timestamp=moment, on_delivery=delivered)
    assert sender.flush(TIMEOUT_SECONDS) == 0
    return deliveries


def read(source: Consumer, count: int, timeout: float = TIMEOUT_SECONDS) -> list[Message]:
    """The next `count` messages; fails if they do not arrive in time."""
    received: list[Message] = []
    deadline = time.monotonic() + timeout
    while len(received) < count:
        remaining = deadline - time.monotonic()
        assert remaining > 0, f"only {len(received)} of {count} messages arrived"
        for message in source.consume(count - len(received), min(remaining, 0.5)):
            error = message.error()
            assert error is None, error
            received.append(message)
    return received


def read_values(source: Consumer, count: int) -> list[bytes | None]:
    """The values of the next `count` messages."""
    return [message.value() for message in read(source, count)]


def error_code(future: "Future[Any]") -> int:
    """The Kafka error that an admin request ended with; 0 if it succeeded."""
    try:
        future.result(TIMEOUT_SECONDS)
    except KafkaException as error:
        code: int = error.args[0].code()
        return code
    return 0


def eventually(
    probe: Callable[[], T], *, timeout: float = TIMEOUT_SECONDS, interval: float = 0.02
) -> T:
    """The first true answer of a probe of the cluster's state, which nothing announces."""
    deadline = time.monotonic() + timeout
    while not (answer := probe()):
        assert time.monotonic() < deadline, f"never happened; the last answer was {answer!r}"
        time.sleep(interval)
    return answer
