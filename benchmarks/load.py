"""The loads: produce, consume, both at once, and one message at a time.

Each puts a fixed amount of work on one server and says how long it took and what it cost the
server's process. The client is the same librdkafka with the same settings for everyone.
"""

import contextlib
import gc
import os
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from benchmarks.librdkafka import BulkConsumer, BulkProducer, LoadFailed
from benchmarks.peers import Server
from benchmarks.process import cpu_seconds

_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.01
_ERRORS_ONLY = 3
"""As in syslog: librdkafka's chatter about clients that are let go is not for a reader."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a fixed amount of work took."""

    messages: int
    seconds: float
    """Wall time, as a client sees it."""
    cpu_seconds: float
    """Processor time of the server's process."""

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds


def create_topic(server: Server, *, partitions: int = 1) -> str:
    """A new topic, returned when every partition can be written."""
    name = f"benchmark-{uuid.uuid4().hex[:12]}"
    admin = _admin(server)
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(_TIMEOUT_SECONDS)
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not _is_led(admin, name, partitions):
        if time.monotonic() > deadline:
            raise LoadFailed(f"{name} had no leader after {_TIMEOUT_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
    return name


@contextlib.contextmanager
def fresh_topic(server: Server, *, partitions: int = 1) -> Iterator[str]:
    """A new topic that is deleted when the block ends."""
    name = create_topic(server, partitions=partitions)
    try:
        yield name
    finally:
        admin = _admin(server)
        admin.delete_topics([name])[name].result(_TIMEOUT_SECONDS)


def configure(server: Server, topic: str, configs: dict[str, str]) -> None:
    """Change the configuration of a topic."""
    resource = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ],
    )
    admin = _admin(server)
    admin.incremental_alter_configs([resource])[resource].result(_TIMEOUT_SECONDS)


def settle_disk() -> None:
    """Write back what earlier work left behind, so that nobody pays for somebody else's bytes."""
    os.sync()


def produce(server: Server, topic: str, *, payload_bytes: int, count: int) -> Cost:
    """Produce `count` messages with acks=all to partition 0, as fast as they are taken."""
    with BulkProducer(server.bootstrap, topic, os.urandom(payload_bytes)) as producer:
        producer.send(1)
        producer.flush()
        before = end_offset(server, topic)

        def work() -> None:
            producer.send(count)
            producer.flush()

        cost = _measured(server, count, work)
    if (arrived := end_offset(server, topic) - before) < count:
        raise LoadFailed(f"only {arrived} of {count} messages reached {topic}")
    return cost


def consume(server: Server, topic: str, *, count: int) -> Cost:
    """Consume `count` messages from the start of partition 0."""
    with BulkConsumer(server.bootstrap, topic) as consumer:

        def work() -> None:
            consumer.assign()
            consumer.receive(count)

        return _measured(server, count, work)


def mixed(
    server: Server, topic: str, *, pairs: int, partitions: int, payload_bytes: int, count: int
) -> Cost:
    """Produce and consume `count` messages at once, until every consumer has its last message.

    There are `pairs` producers, each writing to all partitions in turn, and as many consumers,
    which share the partitions. `partitions` must be a multiple of `pairs` and `count` one of
    their product, so that everybody has the same to do.
    """
    payload = os.urandom(payload_bytes)
    every = range(partitions)
    share = count // pairs
    with contextlib.ExitStack() as clients:
        producers = [
            clients.enter_context(BulkProducer(server.bootstrap, topic, payload, partitions=every))
            for _ in range(pairs)
        ]
        consumers = [
            clients.enter_context(
                BulkConsumer(server.bootstrap, topic, partitions=every[number::pairs])
            )
            for number in range(pairs)
        ]

        def send(producer: BulkProducer, messages: int) -> None:
            producer.send(messages)
            producer.flush()

        def exchange(messages: int, *, expected: int) -> None:
            with ThreadPoolExecutor(2 * pairs) as threads:
                sent = [threads.submit(send, producer, messages) for producer in producers]
                came = [threads.submit(consumer.receive, expected) for consumer in consumers]
                for delivery in sent:
                    delivery.result()
                for arrival in came:
                    arrival.result()

        for consumer in consumers:
            consumer.assign()
        # Connections are made and metadata is known before the clock starts.
        exchange(partitions, expected=partitions)
        return _measured(server, count, lambda: exchange(share, expected=partitions + share))


def synchronous(server: Server, topic: str, *, payload_bytes: int, count: int) -> list[float]:
    """Produce one message at a time and return how long each took to be acknowledged, in ms."""
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0})
    payload = os.urandom(payload_bytes)
    latencies: list[float] = []
    failures: list[KafkaError] = []
    began = 0.0

    def acknowledged(error: KafkaError | None, _message: Message) -> None:
        latencies.append((time.perf_counter() - began) * 1000)
        if error is not None:
            failures.append(error)

    gc.disable()
    try:
        for _ in range(count):
            began = time.perf_counter()
            producer.produce(topic, payload, partition=0, on_delivery=acknowledged)
            producer.flush()
    finally:
        gc.enable()
    if failures:
        raise LoadFailed(f"{len(failures)} messages failed, first: {failures[0]}")
    return latencies


def percentile(values: list[float], percent: int) -> float:
    """The value that `percent` of 100 values do not exceed, interpolated."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def end_offset(server: Server, topic: str) -> int:
    """The offset that the next message of partition 0 will get."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "benchmark"})
    try:
        _low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), _TIMEOUT_SECONDS)
    finally:
        consumer.close()
    return int(high)


def _measured(server: Server, count: int, work: Callable[[], None]) -> Cost:
    cpu_before, began = cpu_seconds(server.pid), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    return Cost(count, seconds, cpu_seconds(server.pid) - cpu_before)


def _admin(server: Server) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.bootstrap, "log_level": _ERRORS_ONLY})


def _is_led(admin: AdminClient, topic: str, partitions: int) -> bool:
    found = admin.list_topics(topic, _TIMEOUT_SECONDS).topics[topic].partitions
    return len(found) == partitions and all(one.leader >= 0 for one in found.values())
