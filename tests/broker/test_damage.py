"""What clients and operators see of records that the disk has not kept as they were."""

import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import headrace
from headrace.testing.probe import free_ports

CORRUPT_MESSAGE = 2
"""The protocol's code, which confluent-kafka has no name for."""

VALUES = [f"value {number}" for number in range(60)]


def produce(
    bootstrap: str, values: list[str], *, topic: str = "events", key: str | None = None
) -> None:
    """One batch for each value."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, key, partition=0)
        assert producer.flush(10) == 0


@contextmanager
def broker_on(data: Path, **settings: Any) -> Iterator[headrace.Broker]:
    with headrace.Broker(data, segment_bytes=1024, partitions=2, **settings) as broker:
        yield broker


def damage(data: Path, value: str, *, topic: str = "events") -> Path:
    """Flip a bit of a stored value; the file that holds it."""
    for path in sorted(data.glob(f"{topic}-*/*.log")):
        stored = path.read_bytes()
        if (at := stored.find(value.encode() + b"\0")) >= 0:
            path.write_bytes(stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :])
            return path
    raise AssertionError(f"{value} is not stored")


@contextmanager
def consumer_at(bootstrap: str, offset: int) -> Iterator[Consumer]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "readers", "check.crcs": False}
    )
    with closing(consumer):
        consumer.assign([TopicPartition("events", 0, offset)])
        yield consumer


def read(consumer: Consumer, count: int) -> tuple[list[str], list[KafkaError]]:
    """Values until there are so many, or an error comes."""
    values: list[str] = []
    deadline = time.monotonic() + 20
    while len(values) < count:
        assert time.monotonic() < deadline
        for message in consumer.consume(count - len(values), 0.2):
            if (error := message.error()) is not None:
                return values, [error]
            value = message.value()
            assert value is not None
            values.append(value.decode())
    return values, []


def await_text(caplog: pytest.LogCaptureFixture, text: str) -> None:
    deadline = time.monotonic() + 30
    while text not in caplog.text:
        assert time.monotonic() < deadline, caplog.text
        time.sleep(0.02)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A data directory with one partition of several segments."""
    with broker_on(tmp_path / "data") as broker:
        produce(broker.bootstrap, VALUES)
    return tmp_path / "data"


def test_what_was_stored_is_verified_and_served_after_a_restart(stored: Path) -> None:
    with broker_on(stored) as broker, consumer_at(broker.bootstrap, 0) as consumer:
        assert read(consumer, len(VALUES)) == (VALUES, [])


def test_a_consumer_is_told_of_damage_and_reads_everything_else(
    stored: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = damage(stored, "value 30")
    with broker_on(stored) as broker:
        with consumer_at(broker.bootstrap, 0) as consumer:
            values, errors = read(consumer, len(VALUES))
            assert values == VALUES[:30]
            assert [error.code() for error in errors] == [CORRUPT_MESSAGE]
        with consumer_at(broker.bootstrap, 31) as consumer:
            assert read(consumer, 29) == (VALUES[31:], [])
        produce(broker.bootstrap, ["one more"])
        with consumer_at(broker.bootstrap, 60) as consumer:
            assert read(consumer, 1) == (["one more"], [])
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert line.startswith(f"events-0: {path} is damaged from byte ")
    assert "offsets 30 to 30 cannot be read: its checksum does not match" in line


def test_metrics_and_health_name_the_damage(stored: Path) -> None:
    damage(stored, "value 30")
    metrics = f"127.0.0.1:{free_ports(1)[0]}"
    with broker_on(stored, metrics=metrics) as broker:
        with consumer_at(broker.bootstrap, 25) as consumer:
            assert read(consumer, 6)[1]

        def get(path: str) -> str:
            with urllib.request.urlopen(f"http://{metrics}/{path}", timeout=10) as response:
                return str(response.read().decode())

        assert 'headrace_damaged_ranges{topic="events",partition="0"} 1' in get("metrics")
        assert 'headrace_damaged_ranges{topic="events",partition="1"} 0' in get("metrics")
        health = get("health")
        assert health.startswith("damaged\nevents-0: ")
        assert "offsets 30 to 30 cannot be read" in health


async def test_asking_for_damaged_records_again_and_again_costs_little(stored: Path) -> None:
    damage(stored, "value 30")
    with broker_on(stored) as broker:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, fetch_max_wait_ms=300, check_crcs=False
        )
        await consumer.start()
        try:
            consumer.assign([AioTopicPartition("events", 0)])
            consumer.seek(AioTopicPartition("events", 0), 30)
            began, used = time.monotonic(), time.process_time()
            assert not await consumer.getmany(timeout_ms=1500)
            assert time.process_time() - used < (time.monotonic() - began) / 2
            consumer.seek(AioTopicPartition("events", 0), 31)
            found = await consumer.getmany(timeout_ms=5000, max_records=1)
            (messages,) = found.values()
            assert messages[0].offset == 31
        finally:
            await consumer.stop()


def test_offsets_by_time_are_found_around_the_damage(stored: Path) -> None:
    damage(stored, "value 30")
    with broker_on(stored) as broker, consumer_at(broker.bootstrap, 31) as consumer:
        (message,) = consumer.consume(1, 10)
        _, moment = message.timestamp()
        (found,) = consumer.offsets_for_times([TopicPartition("events", 0, moment)], timeout=10)
        assert 29 <= found.offset <= 31
        assert found.offset != 30


def test_a_scrub_finds_damage_that_nobody_has_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headrace.broker")
    data = tmp_path / "data"
    with broker_on(data, scrub_interval_ms=300) as broker:
        produce(broker.bootstrap, VALUES)
        path = damage(data, "value 10")
        await_text(caplog, "1 new damages")
        with consumer_at(broker.bootstrap, 5) as consumer:
            values, errors = read(consumer, len(VALUES))
    assert values == VALUES[5:10]
    assert [error.code() for error in errors] == [CORRUPT_MESSAGE]
    assert str(path) in caplog.text


def test_a_producer_of_this_process_is_served_at_once(stored: Path, monkeypatch) -> None:
    """What was just appended needs no verification, even if all before it does."""
    monkeypatch.setattr("headrace.broker.verification.Verification.request", lambda *_: None)
    with broker_on(stored) as broker:
        produce(broker.bootstrap, ["fresh"])
        with consumer_at(broker.bootstrap, 60) as consumer:
            assert read(consumer, 1) == (["fresh"], [])


def test_a_damaged_segment_is_neither_archived_nor_compacted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, archive = tmp_path / "data", tmp_path / "archive"
    idle = {"archive_interval_ms": 3_600_000, "compaction_check_ms": 3_600_000}
    with broker_on(data, archive=str(archive), **idle) as broker:
        with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            for name, configs in (
                ("events", {"remote.storage.enable": "true"}),
                ("latest", {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}),
            ):
                topic = NewTopic(name, 1, 1, config=configs)
                admin.create_topics([topic])[name].result(10)
        for topic_name in ("events", "latest"):
            produce(broker.bootstrap, VALUES, topic=topic_name, key="same")
    damage(data, "value 30", topic="events")
    kept = damage(data, "value 10", topic="latest")
    before = kept.read_bytes()
    with broker_on(
        data, archive=str(archive), archive_interval_ms=50, compaction_check_ms=50
    ) as broker:
        await_text(caplog, "compaction of latest-0 failed")
        await_text(caplog, "events-0: ")
        with consumer_at(broker.bootstrap, 31) as consumer:
            assert read(consumer, 29) == (VALUES[31:], [])
    assert kept.read_bytes() == before
    archived = b"".join(path.read_bytes() for path in archive.rglob("*") if path.is_file())
    assert b"value 0\0" in archived
    assert b"value 31\0" not in archived
