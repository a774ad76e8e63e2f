"""Retention that overtakes a slow group, as people notice it: in the log, metrics and commands."""

import json
import re
import socket
import time
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cli.conftest import Headrace
from tests.clusters import headrace_cluster


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def overtaken(metrics: str) -> int:
    """What the broker has counted for all groups together."""
    with urllib.request.urlopen(f"http://{metrics}/metrics") as answer:
        text = answer.read().decode()
    counts = re.findall(r"^headrace_overtaken_records_total\{.*?\} (\d+)$", text, re.MULTILINE)
    return sum(map(int, counts))


def test_records_removed_unread_are_counted_and_shown(
    headrace: Headrace, monkeypatch: pytest.MonkeyPatch
):
    metrics = free_address()
    settings = ("--set", "retention_check=50ms", "--set", "segment_bytes=1 KiB")
    with headrace_cluster("--metrics", metrics, *settings) as cluster:
        monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", cluster.bootstrap)
        headrace("topics", "create", "orders")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
        for _ in range(20):
            producer.produce("orders", b"x" * 400)
            assert producer.flush(20) == 0
        for group, offset in (("slow", 2), ("quick", 20)):
            consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
            consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
            consumer.close()
        assert overtaken(metrics) == 0
        headrace("topics", "config", "orders", "retention.bytes=2000")
        deadline = time.monotonic() + 20
        while not (lost := overtaken(metrics)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        slow = json.loads(headrace("groups", "describe", "slow", "--json").stdout)
        quick = json.loads(headrace("groups", "describe", "quick", "--json").stdout)
        shown = headrace("groups", "describe", "slow").stdout
    (partition,) = slow["partitions"]
    assert lost == slow["lost"] == partition["earliest"] - 2
    assert slow["lag"] == 20 - partition["earliest"]
    assert quick["lost"] == quick["lag"] == 0
    assert re.search(rf"^Lost +{lost} removed before they were read$", shown, re.MULTILINE)
    assert "LOST" in shown
