"""The past of a table over one log: whatever is read when, the bytes of the output are the same."""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.streams import Flow
from headrace.streams.time import Watermark
from tests.clusters import Cluster, on_one_cluster
from tests.streams.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

BEGIN = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=8)
"""Not long ago, since records that are too old are removed."""

COUNTRIES = ("de", "fr", "it")
LATE = 30
"""The invoice that comes an hour and more after others."""


def at(minutes: float) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


def sale(invoice: int, minutes: float) -> tuple[datetime, dict[str, Any]]:
    country = COUNTRIES[invoice % 3]
    return at(minutes), {
        "invoice": invoice,
        "country": country,
        "sold_at": at(minutes).isoformat(),
    }


def rate(country: str, percent: int, since: float, recorded: float) -> tuple[datetime, Any]:
    row = {"country": country, "rate": percent, "since": at(since).isoformat()}
    return at(recorded), row


MORNING = (
    [rate("de", 19, 0, 0), rate("fr", 20, 0, 0), rate("de", 16, 60, 30)],
    [sale(each, each * 4) for each in range(30)],
)
AFTERNOON = (
    # Two that hold since before they were recorded, the first for less time than events wait.
    [rate("fr", 21, 116, 118), rate("de", 7, 20, 130), rate("it", 22, 130, 131)],
    [sale(LATE, 41), sale(31, 117), *(sale(each, each * 4) for each in range(32, 60))],
)


def write(bootstrap: str, topic: str, rows: Sequence[tuple[datetime, Any]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for time, row in rows:
        producer.produce(topic, json.dumps(row), timestamp=int(time.timestamp() * 1000))
    assert producer.flush(20) == 0


def written(bootstrap: str, topic: str) -> list[tuple[bytes, bytes]]:
    """The bytes of all records of a topic, keys and values."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bytes", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[bytes, bytes]] = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        found.append((message.key() or b"", message.value() or b""))
    consumer.close()
    return found


def invoices(
    name: str, topics: Topics, directory: Path, spark: "SparkSession", at_once: int, **options: Any
) -> Flow:
    flow = Flow(name, settings=topics.settings(directory), spark=spark)
    source = name.rpartition("-")[0]
    sales = flow.stream(
        f"{source}-sales",
        "invoice int, country string, sold_at timestamp",
        time="sold_at",
        watermark=Watermark(out_of_order="1 minute"),
        max_records_per_batch=at_once,
    )
    rates = flow.table(
        f"{source}-rates",
        "country string, rate int, since timestamp",
        key="country",
        valid_from="since",
    )
    looked_up = sales.lookup(rates, on="country", at="sold_at", wait="5 minutes", **options)
    told = looked_up.select("invoice", "country", "rate")
    flow.topic(f"{name}-out", told, key="country", partitions=1)
    return flow


@on_one_cluster
def test_runs_over_one_log_are_the_same_however_it_was_read(
    spark: "SparkSession", cluster: Cluster, tmp_path: Path, fresh_name: str
):
    topics = Topics(cluster.bootstrap)

    def run(name: str, at_once: int, **options: Any) -> list[tuple[bytes, bytes]]:
        flow = invoices(f"{fresh_name}-{name}", topics, tmp_path, spark, at_once, **options)
        flow.run(once=True)
        return written(cluster.bootstrap, f"{fresh_name}-{name}-out")

    for rates, sales in (MORNING, AFTERNOON):
        write(cluster.bootstrap, f"{fresh_name}-rates", rates)
        write(cluster.bootstrap, f"{fresh_name}-sales", sales)
        live = run("live", 1000)
    runs = [run("whole", 1000), run("pieces", 7), run("unloaded", 11, bootstrap=False)]
    assert all(sorted(each) == sorted(live) for each in runs)
    assert all(in_time(each) == in_time(live) for each in runs)
    found = {row["invoice"]: row["rate"] for _, value in live for row in [json.loads(value)]}
    # What was recorded too late for the morning is so for an invoice of then, however late it is.
    assert (found[0], found[15], found[LATE], found[33]) == (19, 16, 19, 16)
    assert (found[28], found[31], found[34]) == (20, 21, 21)
    assert (found[32], found[35]) == (None, 22)


def in_time(records: list[tuple[bytes, bytes]]) -> dict[bytes, list[bytes]]:
    """The records of each key in their order, but for the one that came late."""
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for key, value in records:
        if json.loads(value)["invoice"] != LATE:
            found[key].append(value)
    return found
