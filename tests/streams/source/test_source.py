"""The source in Spark, reading from both clusters."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer, TopicPartition

from headrace.kafka import Partition
from headrace.kafka.connection import connect
from headrace.kafka.raw_positions import committed
from headrace.settings import KafkaSettings
from headrace.streams.source import register
from tests.clusters import Cluster, on_one_cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.partitions(2)

SCHEMA = "id bigint, name string"

NOW = int(time.time())
"""In seconds. Records of a fixed time would be too old for Kafka's retention some day."""


@pytest.fixture(autouse=True)
def _registered(spark: "SparkSession") -> None:
    register(spark)


def produce(cluster: Cluster, topic: str, ids: range, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in ids:
        value = json.dumps({"id": number, "name": f"n{number}"})
        producer.produce(topic, value, key=f"k{number}", partition=partition, timestamp=NOW * 1000)
    assert producer.flush(20) == 0


def read(spark: "SparkSession", cluster: Cluster, topic: str, **options: str) -> "DataFrame":
    given = {"bootstrap": cluster.bootstrap, "topics": topic, "format": "json", "schema": SCHEMA}
    return spark.read.format("headrace").options(**{**given, **options}).load()


Run = Callable[..., list[tuple[int, int]]]


@pytest.fixture
def run(spark: "SparkSession", cluster: Cluster, topic: str, tmp_path: Path) -> Run:
    """Runs a query over what is there, and returns the id of each row with its batch's number."""

    def catch_up(fail: bool = False, **options: str) -> list[tuple[int, int]]:
        rows: list[tuple[int, int]] = []
        stream = (
            spark.readStream.format("headrace")
            .options(
                bootstrap=cluster.bootstrap,
                topics=topic,
                format="json",
                schema=SCHEMA,
                **options,
            )
            .load()
        )

        def collect(batch: "DataFrame", number: int) -> None:
            if fail:
                raise ValueError("not today")
            rows.extend((number, row.id) for row in batch.collect())

        query = (
            stream.writeStream.foreachBatch(collect)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return rows

    return catch_up


def test_a_batch_read_has_typed_rows_and_what_was_included(spark, cluster, topic) -> None:
    produce(cluster, topic, range(3))
    rows = read(
        spark, cluster, topic, include="topic,partition,offset,timestamp,key,headers"
    ).collect()
    assert [row.asDict() for row in rows][1] == {
        "id": 1,
        "name": "n1",
        "_topic": topic,
        "_partition": 0,
        "_offset": 1,
        "_timestamp": datetime.fromtimestamp(NOW, UTC).replace(tzinfo=None),
        "_key": bytearray(b"k1"),
        "_headers": [],
    }
    assert len(rows) == 3


@on_one_cluster
def test_an_empty_topic_has_no_rows(spark, cluster, topic) -> None:
    assert read(spark, cluster, topic).count() == 0


@on_one_cluster
def test_raw_records_are_keys_and_values(spark, cluster, topic) -> None:
    produce(cluster, topic, range(1))
    options = {"bootstrap": cluster.bootstrap, "topics": topic}
    (row,) = spark.read.format("headrace").options(**options).load().collect()
    assert row.asDict() == {"key": b"k0", "value": b'{"id": 0, "name": "n0"}'}


@on_one_cluster
def test_a_large_partition_is_read_by_several_tasks(spark, cluster, topic) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 50})
    for number in range(120_000):
        producer.produce(topic, b'{"id": %d}' % number, partition=0)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush(30)
    rows = read(spark, cluster, topic, parallelism="2")
    assert rows.rdd.getNumPartitions() == 2
    (sums,) = rows.selectExpr("count(*)", "sum(id)").collect()
    assert tuple(sums) == (120_000, 7_199_940_000)


def test_a_query_reads_each_record_once_over_restarts(cluster, topic, run: Run, group) -> None:
    connection = connect(KafkaSettings(bootstrap=cluster.bootstrap))
    partitions = [Partition(topic, 0), Partition(topic, 1)]
    # A cluster's first group takes longer than a query waits when it ends.
    assert committed(connection, group, partitions) == {}
    produce(cluster, topic, range(3))
    assert run(group=group) == [(0, 0), (0, 1), (0, 2)]
    produce(cluster, topic, range(3, 5), partition=1)
    assert run(group=group) == [(1, 3), (1, 4)]
    assert list(committed(connection, group, partitions).values()) == [3, 2]


@on_one_cluster
def test_a_backlog_becomes_many_batches(cluster, topic, run: Run) -> None:
    produce(cluster, topic, range(5))
    assert run(max_records_per_batch="2") == [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4)]


@on_one_cluster
def test_a_first_batch_that_is_run_again_reads_the_same(cluster, topic, run: Run) -> None:
    produce(cluster, topic, range(3))
    with pytest.raises(Exception, match="not today"):
        run(fail=True, start="-2")
    produce(cluster, topic, range(3, 8))
    assert run(start="-2") == [(0, 1), (0, 2), *((1, each) for each in range(3, 8))]


def test_a_first_batch_that_retention_overtook_is_a_gap(cluster, topic, run: Run, admin) -> None:
    produce(cluster, topic, range(3))
    with pytest.raises(Exception, match="not today"):
        run(fail=True)
    where = TopicPartition(topic, 0, 2)
    admin.delete_records([where])[where].result(20)
    with pytest.raises(Exception, match="no longer has offsets 0 to 1"):
        run()
    assert run(on_gap="skip") == [(0, 2)]


@on_one_cluster
def test_records_that_do_not_parse_fail_are_skipped_or_come_alone(spark, cluster, topic) -> None:
    produce(cluster, topic, range(1))
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(topic, b"not json", partition=0, headers=[("trace", b"1")])
    producer.flush(20)
    with pytest.raises(Exception, match=f"offset 1 of {topic}-0 does not parse"):
        read(spark, cluster, topic).collect()
    assert read(spark, cluster, topic, on_error="skip").count() == 1
    (letter,) = read(spark, cluster, topic, on_error="only").collect()
    headers = {header.key: bytes(header.value) for header in letter.headers}
    assert bytes(letter.value) == b"not json"
    assert headers["trace"] == b"1"
    assert headers["headrace.offset"] == b"1"
