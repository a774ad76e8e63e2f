"""Real clients that read through the archive, and notice nothing of it."""

import time
from collections.abc import Iterator
from pathlib import Path

import kafka
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from headrace import Broker
from tests.broker.archive.archived_topic import (
    TOPIC,
    admin,
    consume,
    create,
    delete,
    eventually,
    local_segments,
    objects,
    produce,
    running,
    written,
)
from tests.log.archive.s3 import s3_bucket

COUNT = 400


@pytest.fixture
def location(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(data: Path, location: Path) -> Iterator[Broker]:
    """A broker whose topic has most of its records in the archive alone."""
    with running(data, location) as started:
        create(started.bootstrap)
        produce(started.bootstrap, 0, COUNT)
        eventually(lambda: local_segments(data)[0] > COUNT // 2)
        yield started


def test_a_consumer_reads_everything_from_the_beginning(broker: Broker) -> None:
    assert consume(broker.bootstrap, COUNT) == written(0, COUNT)


def test_a_consumer_begins_in_the_middle_of_the_archive(broker: Broker) -> None:
    assert consume(broker.bootstrap, 100, offset=123) == written(123, 100)


def test_kafka_python_reads_everything_from_the_beginning(broker: Broker) -> None:
    consumer = kafka.KafkaConsumer(
        TOPIC,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        group_id=None,
        consumer_timeout_ms=20_000,
    )
    found = []
    for record in consumer:
        found.append((record.offset, record.value))
        if len(found) == COUNT:
            break
    consumer.close()
    assert found == written(0, COUNT)


def test_records_are_found_by_time_wherever_they_are(data: Path, location: Path) -> None:
    begin_ms = int(time.time() * 1000) - 1_000_000
    with running(data, location) as broker:
        create(broker.bootstrap)
        produce(broker.bootstrap, 0, COUNT, begin_ms=begin_ms)
        eventually(lambda: local_segments(data)[0] > COUNT // 2)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        for offset in (0, 7, 150, COUNT - 1):
            (found,) = consumer.offsets_for_times(
                [TopicPartition(TOPIC, 0, begin_ms + offset)], timeout=20
            )
            assert found.offset == offset
        assert consumer.get_watermark_offsets(TopicPartition(TOPIC, 0)) == (0, COUNT)
        consumer.close()


def test_a_restarted_broker_still_has_everything(broker: Broker, data: Path) -> None:
    broker.stop()
    broker.start()
    assert consume(broker.bootstrap, COUNT) == written(0, COUNT)
    produce(broker.bootstrap, COUNT, 100)
    assert consume(broker.bootstrap, COUNT + 100) == written(0, COUNT + 100)


def test_deleted_records_leave_the_archive_too(broker: Broker, location: Path) -> None:
    before = len(objects(location))
    partition = TopicPartition(TOPIC, 0, 150)
    client = admin(broker.bootstrap)
    deleted = client.delete_records([partition])[partition].result(10)
    assert deleted.low_watermark == 150
    eventually(lambda: len(objects(location)) < before)
    assert consume(broker.bootstrap, 100, offset=150) == written(150, 100)
    with pytest.raises(AssertionError, match="Offset out of range"):
        consume(broker.bootstrap, 1, offset=149)


def test_a_deleted_topic_leaves_nothing_in_the_archive(broker: Broker, location: Path) -> None:
    delete(broker.bootstrap)
    eventually(lambda: not list((location / "partitions").glob("**/*-*")))
    create(broker.bootstrap)
    produce(broker.bootstrap, 0, 10)
    assert consume(broker.bootstrap, 10) == written(0, 10)


def test_a_topic_deleted_just_before_a_stop_leaves_the_archive_after_it(
    data: Path, location: Path
) -> None:
    with running(data, location) as broker:
        create(broker.bootstrap)
        produce(broker.bootstrap, 0, 100)
        eventually(lambda: objects(location))
    with running(data, location, archive_interval_ms=60_000) as broker:
        delete(broker.bootstrap)
    with running(data, location):
        eventually(lambda: not list((location / "partitions").glob("**/*-*")))


def test_the_whole_retention_empties_the_archive(data: Path, location: Path) -> None:
    with running(data, location) as broker:
        create(broker.bootstrap, retention_bytes="20000")
        produce(broker.bootstrap, 0, 1000)
        eventually(
            lambda: (
                local_segments(data)[0] > 900
                and sum(path.stat().st_size for path in objects(location)) < 24_096
            )
        )
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        seen: list[tuple[int, int]] = []

        def has_settled() -> bool:
            """Whether retention has left the log alone for ten looks, several of its own."""
            seen.append(consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10))
            return len(seen) >= 10 and len(set(seen[-10:])) == 1

        eventually(has_settled)
        consumer.close()
        low, high = seen[-1]
        assert low > 0
        eventually(lambda: local_segments(data)[0] > low)
        assert high == 1000
        assert consume(broker.bootstrap, 1000 - low, offset=low) == written(low, 1000 - low)


def alter(bootstrap: str, **configs: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=entries)
    client = admin(bootstrap)
    client.incremental_alter_configs([resource])[resource].result(10)


def test_the_archive_can_be_given_up_and_taken_up_again(
    broker: Broker, data: Path, location: Path
) -> None:
    with pytest.raises(KafkaException, match=r"remote\.log\.delete\.on\.disable"):
        alter(broker.bootstrap, remote_storage_enable="false")
    alter(broker.bootstrap, remote_storage_enable="false", remote_log_delete_on_disable="true")
    eventually(lambda: not objects(location))
    first = local_segments(data)[0]
    assert consume(broker.bootstrap, COUNT - first, offset=first) == written(first, COUNT - first)
    alter(broker.bootstrap, remote_storage_enable="true")
    eventually(lambda: objects(location))


def test_compacted_topics_are_refused(broker: Broker) -> None:
    with pytest.raises(KafkaException, match=r"cleanup\.policy"):
        create(broker.bootstrap, "compacted", cleanup_policy="compact")
    with pytest.raises(KafkaException, match=r"local\.retention\.ms"):
        create(broker.bootstrap, "upside-down", local_retention_ms="10", retention_ms="5")


def test_a_broker_without_an_archive_refuses_such_topics(data: Path) -> None:
    with Broker(data) as broker, pytest.raises(KafkaException, match=r"broker\.archive"):
        create(broker.bootstrap)


def test_everything_works_with_an_object_store(data: Path) -> None:
    with s3_bucket() as bucket, running(data, bucket) as broker:
        create(broker.bootstrap)
        produce(broker.bootstrap, 0, COUNT)
        eventually(lambda: local_segments(data)[0] > COUNT // 2)
        assert consume(broker.bootstrap, COUNT) == written(0, COUNT)
        delete(broker.bootstrap)
