"""Real consumers read while records disappear in front of them.

Against Headrace alone: Apache Kafka erases nothing. One log has every codec, batches that lose some
records and batches that lose all, of an idempotent producer, so that empty ones are left.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from headrace import Broker
from tests.broker.erasing import TOPIC, create, customer, erase, quiet_producer, secret
from tests.clients.messages import CODECS

PER_CODEC = 280
RECORDS = PER_CODEC * len(CODECS)
ERASED = customer(3)
FETCH_BYTES = 700
"""Less than a batch, so that each is fetched by itself."""

Found = list[tuple[int, bytes]]


def key_of(number: int) -> bytes:
    """In every second stretch of a hundred and forty, batches of twenty belong to one customer."""
    return customer(number // 20 if number // 140 % 2 else number)


def by_confluent_kafka(bootstrap: str) -> Found:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "excision",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": FETCH_BYTES,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: Found = []
    while not found or found[-1][0] < RECORDS - 1:
        for message in consumer.consume(500, 10):
            offset, value = message.offset(), message.value()
            assert message.error() is None, message.error()
            assert offset is not None
            assert value is not None
            found.append((offset, value))
    consumer.close()
    return found


def by_aiokafka(bootstrap: str) -> Found:
    async def read() -> Found:
        partition = AiokafkaPartition(TOPIC, 0)
        async with AIOKafkaConsumer(
            bootstrap_servers=bootstrap, max_partition_fetch_bytes=FETCH_BYTES
        ) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            found: Found = []
            while not found or found[-1][0] < RECORDS - 1:
                record = await asyncio.wait_for(consumer.getone(partition), 20)
                found.append((record.offset, record.value))
            return found

    return asyncio.run(read())


def by_kafka_python(bootstrap: str) -> Found:
    partition = KafkaPythonPartition(TOPIC, 0)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        max_partition_fetch_bytes=FETCH_BYTES,
        consumer_timeout_ms=20_000,
    )
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found: Found = []
    for record in consumer:
        found.append((record.offset, record.value))
        if record.offset == RECORDS - 1:
            break
    consumer.close()
    return found


READERS: list[Callable[[str], Found]] = [by_confluent_kafka, by_aiokafka, by_kafka_python]


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with Broker(segment_bytes=4096, flush="os") as broker:
        create(broker.bootstrap)
        for round_, codec in enumerate(CODECS):
            settings = {
                "bootstrap.servers": broker.bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "batch.num.messages": 20,
                "linger.ms": 1000,
            }
            with quiet_producer(settings) as producer:
                for number in range(PER_CODEC * round_, PER_CODEC * (round_ + 1)):
                    producer.produce(TOPIC, secret(number), key_of(number), partition=0)
        yield broker.bootstrap


class Rereader(threading.Thread):
    """Reads everything again and again until it is told that that was the last time."""

    def __init__(self, read: Callable[[str], Found], bootstrap: str, over: threading.Event) -> None:
        super().__init__(name=read.__name__)
        self._read = read
        self._address = bootstrap
        self._over = over
        self.begun = threading.Event()
        self.passes: list[Found] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self.begun.set()
                self.passes.append(self._read(self._address))
            self.passes.append(self._read(self._address))
        except BaseException as error:
            self.failure = error


def test_consumers_pass_while_records_disappear(bootstrap: str) -> None:
    everything = [(number, secret(number)) for number in range(RECORDS)]
    stays = [each for each in everything if key_of(each[0]) != ERASED]
    assert len(stays) == RECORDS * 6 // 7
    over = threading.Event()
    readers = [Rereader(read, bootstrap, over) for read in READERS]
    for reader in readers:
        reader.start()
    for reader in readers:
        assert reader.begun.wait(20)
    try:
        receipt = erase(bootstrap, ERASED)
    finally:
        over.set()
        for reader in readers:
            reader.join(60)
    assert receipt["records"] == RECORDS // 7
    assert receipt["check"]["passed"]
    known, kept = set(everything), set(stays)
    for reader in readers:
        assert reader.failure is None, (reader.name, reader.failure)
        for found in reader.passes:
            assert [each for each in found if each in kept] == stays, reader.name
            assert set(found) <= known
            assert found == sorted(set(found))
        assert reader.passes[-1] == stays, reader.name
