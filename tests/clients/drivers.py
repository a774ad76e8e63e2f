"""The real clients behind one small interface, so that a scenario can use any of them.

Each driver produces a list of messages to one partition and reads a partition from an offset.
"""

import asyncio
import itertools
import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Protocol, cast

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka import Message as ConfluentMessage
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition

from tests.clients.messages import Headers, Message
from tests.clusters import Cluster

READ_TIMEOUT_SECONDS = 20.0


class Driver(Protocol):
    """A client library or program."""

    name: str

    def produce(
        self,
        cluster: Cluster,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: int = -1,
    ) -> None:
        """Send the messages to partition 0 in order and return when they are acknowledged."""

    def consume(
        self, cluster: Cluster, topic: str, count: int, *, offset: int = 0
    ) -> list[Message]:
        """Read `count` messages of partition 0 from an offset."""


class ConfluentKafka:
    """confluent-kafka, that is librdkafka."""

    name = "confluent-kafka"

    def produce(
        self,
        cluster: Cluster,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: int = -1,
    ) -> None:
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "compression.type": codec,
                "acks": acks,
                "linger.ms": 50,
            }
        )
        failures: list[object] = []
        for message in messages:
            producer.produce(
                topic,
                message.value,
                message.key,
                partition=0,
                headers=list(message.headers),
                timestamp=message.timestamp or 0,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(READ_TIMEOUT_SECONDS) == 0
        assert failures == []

    def consume(
        self, cluster: Cluster, topic: str, count: int, *, offset: int = 0
    ) -> list[Message]:
        with Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
            }
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0, offset)])
            received: list[Message] = []
            while len(received) < count:
                batch = consumer.consume(count - len(received), READ_TIMEOUT_SECONDS)
                assert batch, f"only {len(received)} of {count} messages arrived"
                for message in batch:
                    assert message.error() is None, message.error()
                    received.append(
                        Message(
                            value=message.value(),
                            key=message.key(),
                            headers=received_headers(message),
                            timestamp=message.timestamp()[1],
                        )
                    )
            return received


def received_headers(message: ConfluentMessage) -> Headers:
    """A confluent-kafka message's headers; what was received never has text values."""
    return tuple(cast(list[tuple[str, bytes | None]], message.headers() or []))


class Aiokafka:
    """aiokafka, driven by an event loop of its own."""

    name = "aiokafka"

    def produce(
        self,
        cluster: Cluster,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: int = -1,
    ) -> None:
        asyncio.run(self._produce(cluster, topic, messages, codec, acks))

    def consume(
        self, cluster: Cluster, topic: str, count: int, *, offset: int = 0
    ) -> list[Message]:
        return asyncio.run(self._consume(cluster, topic, count, offset))

    async def _produce(
        self, cluster: Cluster, topic: str, messages: Sequence[Message], codec: str, acks: int
    ) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == -1 else acks,
            linger_ms=50,
        ) as producer:
            deliveries = [
                await producer.send(
                    topic,
                    message.value,
                    message.key,
                    partition=0,
                    headers=list(message.headers),
                    timestamp_ms=message.timestamp,
                )
                for message in messages
            ]
            await asyncio.wait_for(asyncio.gather(*deliveries), READ_TIMEOUT_SECONDS)

    async def _consume(
        self, cluster: Cluster, topic: str, count: int, offset: int
    ) -> list[Message]:
        partition = AiokafkaPartition(topic, 0)
        async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, offset)
            received: list[Message] = []
            async with asyncio.timeout(READ_TIMEOUT_SECONDS):
                while len(received) < count:
                    record = await consumer.getone(partition)
                    received.append(
                        Message(record.value, record.key, tuple(record.headers), record.timestamp)
                    )
            return received


class KafkaPython:
    """kafka-python 3, whose producer is idempotent by default."""

    name = "kafka-python"

    def produce(
        self,
        cluster: Cluster,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: int = -1,
    ) -> None:
        producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=acks,
            enable_idempotence=acks == -1,
            linger_ms=50,
        )
        try:
            deliveries = [
                producer.send(
                    topic,
                    message.value,
                    message.key,
                    headers=list(message.headers),
                    partition=0,
                    timestamp_ms=message.timestamp,
                )
                for message in messages
            ]
            for delivery in deliveries:
                delivery.get(timeout=READ_TIMEOUT_SECONDS)
        finally:
            producer.close(timeout=5)

    def consume(
        self, cluster: Cluster, topic: str, count: int, *, offset: int = 0
    ) -> list[Message]:
        partition = KafkaPythonPartition(topic, 0)
        consumer = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap,
            consumer_timeout_ms=READ_TIMEOUT_SECONDS * 1000,
        )
        try:
            consumer.assign([partition])
            consumer.seek(partition, offset)
            received = [
                Message(record.value, record.key, tuple(record.headers), record.timestamp)
                for record in itertools.islice(consumer, count)
            ]
            assert len(received) == count, f"only {len(received)} of {count} messages arrived"
            return received
        finally:
            consumer.close()


class Kcat:
    """The kcat program; it carries text, and the same headers on every message."""

    name = "kcat"

    def produce(
        self,
        cluster: Cluster,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: int = -1,
    ) -> None:
        lines = b"".join(
            (message.key or b"") + b"\t" + (message.value or b"") + b"\n" for message in messages
        )
        run_kcat(
            cluster,
            *("-P", "-t", topic, "-p", "0", "-z", codec, "-K", r"\t", "-X", f"acks={acks}"),
            stdin=lines,
        )

    def consume(
        self, cluster: Cluster, topic: str, count: int, *, offset: int = 0
    ) -> list[Message]:
        place = ("-p", "0", "-o", str(offset), "-c", str(count))
        output = run_kcat(cluster, "-C", "-J", "-q", "-t", topic, *place)
        return [_from_envelope(json.loads(line)) for line in output.splitlines()]


def run_kcat(cluster: Cluster, *arguments: str, stdin: bytes = b"") -> bytes:
    """What kcat printed; the test is skipped where kcat is not installed."""
    program = shutil.which("kcat")
    if program is None:
        pytest.skip("kcat is not on the PATH: install the package of that name")
    result = subprocess.run(
        [program, "-b", cluster.bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        timeout=READ_TIMEOUT_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


def _from_envelope(envelope: dict[str, object]) -> Message:
    headers = envelope.get("headers", [])
    assert isinstance(headers, list)
    pairs = zip(headers[::2], headers[1::2], strict=True)
    return Message(
        value=_encoded(envelope["payload"]),
        key=_encoded(envelope["key"]),
        headers=tuple((name, _encoded(value)) for name, value in pairs),
        timestamp=envelope["ts"] if isinstance(envelope["ts"], int) else None,
    )


def _encoded(text: object) -> bytes | None:
    return text.encode() if isinstance(text, str) else None


LIBRARIES: list[Driver] = [ConfluentKafka(), Aiokafka(), KafkaPython()]
"""The client libraries: they can send and receive everything."""

DRIVERS: list[Driver] = [*LIBRARIES, Kcat()]
"""All clients; messages are limited to text with a key."""


def named(driver: Driver) -> str:
    """A driver's name, for the ids of parametrised tests."""
    return driver.name
