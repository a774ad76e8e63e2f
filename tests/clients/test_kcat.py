"""The kcat program, whose librdkafka is older than the one in Python's wheels."""

import json

import pytest

from tests.clients.drivers import run_kcat
from tests.clients.librdkafka import send
from tests.clusters import Cluster


@pytest.mark.partitions(2)
def test_kcat_lists_the_cluster_and_its_topics(cluster: Cluster, topic: str):
    listed = json.loads(run_kcat(cluster, "-L", "-J"))
    (broker,) = listed["brokers"]
    assert broker["name"] == cluster.bootstrap
    (found,) = [one for one in listed["topics"] if one["topic"] == topic]
    assert [partition["partition"] for partition in found["partitions"]] == [0, 1]
    assert {partition["leader"] for partition in found["partitions"]} == {broker["id"]}


def test_kcat_reads_the_last_messages(cluster: Cluster, topic: str):
    send(cluster, topic, [str(number).encode() for number in range(10)])
    tail = run_kcat(cluster, "-C", "-q", "-e", "-t", topic, "-o", "-3")
    assert tail.split() == [b"7", b"8", b"9"]


def test_kcat_takes_part_in_a_group(cluster: Cluster, topic: str, group: str):
    send(cluster, topic, [b"a", b"b", b"c"])
    earliest = ("-X", "auto.offset.reset=earliest")
    first = run_kcat(cluster, "-q", *earliest, "-c", "2", "-G", group, topic)
    second = run_kcat(cluster, "-q", *earliest, "-c", "1", "-G", group, topic)
    assert (first.split(), second.split()) == ([b"a", b"b"], [b"c"])


def test_kcat_asks_for_offsets_by_time(cluster: Cluster, topic: str):
    send(cluster, topic, [b"x"] * 3, timestamps=[1_000, 2_000, 3_000])
    answer = run_kcat(cluster, "-Q", "-t", f"{topic}:0:1500")
    assert answer.split() == [f"{topic}".encode(), b"[0]", b"offset", b"1"]


def test_kcat_writes_idempotently(cluster: Cluster, topic: str):
    lines = b"".join(b"%d\n" % number for number in range(1_000))
    run_kcat(cluster, "-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", stdin=lines)
    assert run_kcat(cluster, "-C", "-q", "-e", "-t", topic, "-o", "0") == lines
