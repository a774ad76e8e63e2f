"""The source in Spark and what it reads: topics that appear, records that are gone, every start."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.kafka import Partition
from headrace.kafka.connection import connect
from headrace.kafka.raw_positions import commit
from headrace.settings import KafkaSettings
from headrace.streams.source import register
from tests.clusters import Cluster
from tests.conftest import TopicFactory
from tests.streams.patience import catch_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON_MS = (int(datetime.now(UTC).timestamp()) - 3600) * 1000
"""When the first record is written; a fixed time would be too old for Kafka's retention."""

Read = Callable[..., list[str]]


def produce(cluster: Cluster, topic: str, numbers: range) -> None:
    """Write numbers, a minute apart."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in numbers:
        producer.produce(topic, str(number), timestamp=NOON_MS + 60_000 * number)
    assert producer.flush(20) == 0


@pytest.fixture
def read(spark: "SparkSession", cluster: Cluster) -> Read:
    """The values in a range of topics, in a batch."""
    register(spark)

    def values(**options: str) -> list[str]:
        reader = spark.read.format("headrace").options(bootstrap=cluster.bootstrap, **options)
        return sorted(bytes(row.value).decode() for row in reader.load().collect())

    return values


@pytest.fixture
def follow(spark: "SparkSession", cluster: Cluster, tmp_path: Path) -> Read:
    """What a query reads that goes on where it was."""
    register(spark)

    def values(**options: str) -> list[str]:
        found: list[str] = []

        def collect(rows: "DataFrame", number: int) -> None:
            found.extend(bytes(row.value).decode() for row in rows.collect())

        reader = spark.readStream.format("headrace").options(bootstrap=cluster.bootstrap, **options)
        writer = reader.load().writeStream.foreachBatch(collect)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        catch_up(writer)
        return sorted(found)

    return values


def test_topics_that_match_a_pattern_are_picked_up_when_they_appear(
    cluster: Cluster, new_topic: TopicFactory, fresh_name: str, follow: Read
):
    produce(cluster, new_topic(), range(2))
    pattern = f"{fresh_name}-.*"
    assert follow(pattern=pattern) == ["0", "1"]
    produce(cluster, new_topic(2), range(5, 6))
    assert follow(pattern=pattern) == ["5"]


def test_records_that_were_deleted_fail_a_query_or_are_skipped(
    cluster: Cluster, admin: AdminClient, topic: str, follow: Read
):
    produce(cluster, topic, range(3))
    assert len(follow(topics=topic)) == 3
    produce(cluster, topic, range(3, 9))
    before = TopicPartition(topic, 0, 7)
    admin.delete_records([before])[before].result(20)
    with pytest.raises(Exception, match=rf"OffsetsGone.*{topic}-0.*3 to 6"):
        follow(topics=topic)
    assert follow(topics=topic, on_gap="skip") == ["7", "8"]


def test_a_read_begins_and_ends_where_it_is_told_to(
    cluster: Cluster, topic: str, group: str, read: Read
):
    produce(cluster, topic, range(6))
    later = datetime.fromtimestamp(NOON_MS / 1000 + 150, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert read(topics=topic, start=later) == ["3", "4", "5"]
    assert read(topics=topic, end=later) == ["0", "1", "2"]
    connection = connect(KafkaSettings(bootstrap=cluster.bootstrap))
    commit(connection, group, {Partition(topic, 0): 4})
    assert read(topics=topic, start=f"group:{group}") == ["4", "5"]
    offsets = {name: json.dumps({topic: {"0": each}}) for name, each in (("start", 1), ("end", 3))}
    assert read(topics=topic, **offsets) == ["1", "2"]


def test_records_of_an_aborted_transaction_are_not_read(
    cluster: Cluster, topic: str, fresh_name: str, read: Read
):
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": f"writer-{fresh_name}"}
    )
    producer.init_transactions(30)
    for value, end in (("kept", producer.commit_transaction), ("lost", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(20)
        end(30)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(20)
    assert read(topics=topic) == ["kept"]
    assert read(topics=topic, isolation="read_uncommitted") == ["kept", "lost", "open"]
    producer.abort_transaction(30)
