"""kill -9 under load, again and again: what was acknowledged is there, once and in order."""

import random
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.process import BrokerProcess

PARTITIONS = 3
KILLS = 6


class Writer:
    """An idempotent producer that numbers what it writes to each partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "reconnect.backoff.max.ms": 100,
                "message.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.written: dict[int, int] = defaultdict(int)
        self.acknowledged: dict[int, set[int]] = defaultdict(set)
        self.failures: list[KafkaError] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._stop.is_set():
            for partition in range(PARTITIONS):
                number = self.written[partition]
                try:
                    self._producer.produce(
                        self._topic,
                        str(number),
                        partition=partition,
                        on_delivery=self._delivered,
                    )
                except BufferError:
                    self._producer.poll(0.01)
                else:
                    self.written[partition] = number + 1
            self._producer.poll(0)
            if sum(self.written.values()) % 600 == 0:
                time.sleep(0.002)
        assert self._producer.flush(60) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
            return
        value = message.value()
        partition = message.partition()
        assert value is not None
        assert partition is not None
        self.acknowledged[partition].add(int(value))


def read_all(bootstrap: str, topic: str) -> dict[int, list[int]]:
    """Every value of every partition, in the order of the offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    found: dict[int, list[int]] = {}
    for partition in range(PARTITIONS):
        position = TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(position, timeout=10)
        consumer.assign([position])
        values: list[int] = []
        while len(values) < end:
            for message in consumer.consume(10_000, timeout=10):
                value = message.value()
                assert value is not None, message.error()
                assert message.offset() == len(values)
                values.append(int(value))
        found[partition] = values
    consumer.close()
    return found


@pytest.mark.parametrize("flush", ["os", "ack"])
def test_nothing_acknowledged_is_lost_doubled_or_reordered_by_kill_9(
    flush: str, tmp_path: Path
) -> None:
    source = random.Random(f"kill {flush}")
    broker = BrokerProcess(tmp_path / "data", "--flush", flush, "--set", "segment_bytes=256 KiB")
    with broker.running():
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("numbers", PARTITIONS)])["numbers"].result(10)
        writer = Writer(broker.bootstrap, "numbers")
        writer.start()
        for _ in range(KILLS):
            time.sleep(source.uniform(0.05, 0.6))
            broker.kill()
            broker.start()
        time.sleep(0.2)
        writer.stop()
        found = read_all(broker.bootstrap, "numbers")
        assert broker.stop() == 0
    assert not writer.failures
    for partition in range(PARTITIONS):
        assert found[partition] == list(range(writer.written[partition]))
        assert writer.acknowledged[partition] == set(found[partition])
    assert sum(map(len, found.values())) > 1000


def test_committed_offsets_survive_kill_9(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    with broker.running():
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for _ in range(10):
            producer.produce("events", b"x")
        assert producer.flush(10) == 0
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": "survivors", "log_level": 0}
        consumer = Consumer(settings)
        consumer.commit(offsets=[TopicPartition("events", 0, 7, "a note", -1)], asynchronous=False)
        broker.kill()
        broker.start()
        (committed,) = Consumer(settings).committed([TopicPartition("events", 0)], timeout=10)
        assert committed.offset == 7
        assert committed.metadata == "a note"


def test_a_clean_stop_leaves_nothing_to_recover(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", "--flush", "os")
    with broker.running():
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for number in range(1000):
            producer.produce("events", str(number).encode())
        assert producer.flush(10) == 0
        assert broker.stop() == 0
        logged = len(broker.log)
        broker.start()
        assert "recover" not in broker.log[logged:].lower()
        assert "cut" not in broker.log[logged:].lower()
