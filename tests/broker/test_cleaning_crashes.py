"""A broker that is killed while it compacts, again and again."""

import time
from pathlib import Path
from random import Random

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.process import BrokerProcess

KILLS = 3
KEYS = 50
TIMEOUT_SECONDS = 30.0
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "4096",
    "min.cleanable.dirty.ratio": "0.01",
}


def write(broker: BrokerProcess, number: int) -> dict[bytes, bytes]:
    """Produce to every key several times; returns what was acknowledged last."""
    latest: dict[bytes, bytes] = {}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 1})
    for count in range(2000):
        key, value = b"key-%d" % (count % KEYS), b"%d-%d" % (number, count)
        producer.produce("table", key=key, value=value)
        latest[key] = value
        if count % 100 == 0:
            producer.flush(TIMEOUT_SECONDS)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    return latest


def read(broker: BrokerProcess) -> tuple[dict[bytes, bytes], int]:
    """The latest value of each key, and how many records there were to read."""
    latest: dict[bytes, bytes] = {}
    count = 0
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "unused",
        "enable.partition.eof": True,
    }
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition("table", 0, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(TIMEOUT_SECONDS)
            assert message is not None
            if message.error():
                return latest, count
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            latest[key] = value
            count += 1


def test_a_broker_that_is_killed_while_it_compacts_loses_no_latest_value(tmp_path: Path) -> None:
    random = Random(1)
    broker = BrokerProcess(tmp_path / "data", "--set", "compaction_check=20ms", "--flush", "os")
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("table", 1, 1, config=COMPACTED)])["table"].result(20)
        for number in range(KILLS):
            expected = write(broker, number)
            time.sleep(random.uniform(0.0, 1.5))  # into the middle of whatever it does by then
            broker.kill()
            broker.start()
            latest, _ = read(broker)
            assert latest == expected
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while read(broker)[1] > 400:
            assert time.monotonic() < deadline, "the log is not compacted"
            time.sleep(0.1)
        assert read(broker)[0] == expected
    finally:
        broker.stop()
