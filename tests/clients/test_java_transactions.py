"""The Java client's transactions (KIP-890), and Kafka's tool for those that hang."""

from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headrace.testing.apache_kafka import ApacheKafka, java_tool
from tests.clients.librdkafka import eventually, producer
from tests.clients.transaction_wire import TransactionWire
from tests.clients.wire import Wire
from tests.clusters import Cluster

pytestmark = [pytest.mark.apache_kafka, pytest.mark.slow]

COPY = Path(__file__).parent / "java" / "TransactionalCopy.java"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture(autouse=True)
def _tools() -> None:
    if reason := ApacheKafka.unavailable():
        pytest.skip(reason)


def run(cluster: Cluster, program: str, *arguments: str) -> str:
    """What a program of Kafka's, or one in a file of its own, printed."""
    result = java_tool(program, ["--bootstrap-server", cluster.bootstrap, *arguments], timeout=90)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_a_copy_loop_in_java_copies_each_committed_record_once(
    cluster: Cluster, topic: str, fresh_name: str
):
    printed = run(cluster, str(COPY), topic, f"{fresh_name}-copied")
    expected = [f"VALUE {number}" for number in range(13)]
    assert printed.splitlines() == [
        "committed: [23]",
        f"copied: [{', '.join(expected)}]",
        "fenced: true",
    ]
    with Wire(cluster) as wire:
        next_instance = TransactionWire(wire, f"{topic}-fill", topic)
        next_instance.initialize()
        assert next_instance.epoch == 7, "each of the six transactions raises the epoch"


def test_the_performance_tool_writes_in_transactions(cluster: Cluster, topic: str):
    printed = run(
        cluster,
        PRODUCER_PERFORMANCE,
        *("--topic", topic, "--num-records", "5000", "--record-size", "100"),
        *("--throughput", "-1", "--transactional-id", topic, "--transaction-duration-ms", "20"),
    )
    assert "5000 records sent" in printed


def test_kafka_transactions_describes_and_aborts_what_is_open(
    cluster: Cluster, admin: AdminClient, topic: str
):
    def last_stable() -> int:
        asked = {TopicPartition(topic, 0): LATEST}
        found = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)
        offset: int = next(iter(found.values())).result(20).offset
        return offset

    writer = producer(cluster, {"transactional.id": topic})
    writer.init_transactions(20)
    writer.begin_transaction()
    writer.produce(topic, b"open", partition=0)
    assert writer.flush(20) == 0
    listed = [line.split() for line in run(cluster, TRANSACTIONS, "list").splitlines()]
    assert [topic, "Ongoing"] in [[line[0], line[3]] for line in listed if len(line) > 3]
    described = run(cluster, TRANSACTIONS, "describe", "--transactional-id", topic)
    assert f"{topic}-0" in described
    assert "Ongoing" in described
    place = ("--topic", topic, "--partition", "0")
    (state,) = [
        line.split()
        for line in run(cluster, TRANSACTIONS, "describe-producers", *place).splitlines()
        if line[:1].isdigit()
    ]
    assert state[5] == "0"
    assert last_stable() == 0
    run(cluster, TRANSACTIONS, "abort", *place, "--start-offset", "0")
    assert eventually(lambda: last_stable() == 2)
