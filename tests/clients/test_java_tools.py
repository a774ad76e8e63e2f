"""Apache Kafka's own command-line tools, that is the Java client, against either cluster."""

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.testing.apache_kafka import ApacheKafka, java_tool
from tests.clients.drivers import ConfluentKafka
from tests.clients.librdkafka import consumer, eventually, send
from tests.clients.messages import CODECS, numbered, plain
from tests.clusters import Cluster

pytestmark = [pytest.mark.apache_kafka, pytest.mark.slow]

CONFIGS = "kafka.admin.ConfigCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
LOG_DIRECTORIES = "org.apache.kafka.tools.LogDirsCommand"
METADATA_QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(autouse=True)
def _tools() -> None:
    if reason := ApacheKafka.unavailable():
        pytest.skip(reason)


def run(cluster: Cluster, tool: str, *arguments: str, stdin: str | None = None) -> str:
    """What the tool printed."""
    result = java_tool(
        tool, ["--bootstrap-server", cluster.bootstrap, *arguments], stdin=stdin, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def run_all(cluster: Cluster, commands: Sequence[tuple[str, ...]]) -> list[str]:
    """Several independent tools at once: most of their time is the start of a JVM."""
    with ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(lambda command: run(cluster, *command), commands))


def test_kafka_topics_creates_describes_alters_and_deletes(
    cluster: Cluster, admin: AdminClient, fresh_name: str
):
    setting = ("--config", "retention.ms=1234567")
    run(cluster, TOPICS, "--create", "--topic", fresh_name, "--partitions", "3", *setting)
    run(cluster, TOPICS, "--alter", "--topic", fresh_name, "--partitions", "4")
    described = run(cluster, TOPICS, "--describe", "--topic", fresh_name)
    assert "PartitionCount: 4" in described
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=1234567" in described
    assert len(re.findall(r"Leader: 1\s", described)) == 4
    run(cluster, TOPICS, "--delete", "--topic", fresh_name)
    eventually(lambda: fresh_name not in admin.list_topics(timeout=20).topics)


def test_the_java_producer_and_consumer_use_every_codec(
    cluster: Cluster, fresh_name: str, group: str
):
    def produce(codec: str) -> None:
        lines = "".join(f"h1:{codec},h2:x\tkey {number}\tvalue {number}\n" for number in range(5))
        form = ("parse.key=true", "parse.headers=true")
        options = [option for one in form for option in ("--reader-property", one)]
        topic = f"{fresh_name}-java-{codec}"
        run(
            cluster,
            CONSOLE_PRODUCER,
            "--topic",
            topic,
            "--compression-codec",
            codec,
            *options,
            stdin=lines,
        )

    for codec in CODECS:
        ConfluentKafka().produce(cluster, f"{fresh_name}-c-{codec}", numbered(5), codec=codec)
    # The performance tool below writes the remaining one.
    written = [codec for codec in CODECS if codec != "lz4"]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(produce, written))
    for codec in written:
        received = ConfluentKafka().consume(cluster, f"{fresh_name}-java-{codec}", 5)
        headers = (("h1", codec.encode()), ("h2", b"x"))
        assert plain(received) == [
            (f"key {number}".encode(), f"value {number}".encode(), headers) for number in range(5)
        ]
    printed = run(
        cluster,
        CONSOLE_CONSUMER,
        *("--include", f"{fresh_name}-.*", "--group", group, "--from-beginning"),
        *("--max-messages", "45", "--timeout-ms", "20000"),
    )
    expected = [f"value {number}" for number in range(5)] * len(written)
    expected += [str(message.value, "utf-8") for message in numbered(5) if message.value] * 5
    assert sorted(printed.splitlines()) == sorted(expected)


def test_kafka_consumer_groups_shows_lag_and_resets_offsets(
    cluster: Cluster, topic: str, group: str
):
    send(cluster, topic, [b"x"] * 10)
    with consumer(cluster, group) as committing:
        committing.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    described = run(cluster, CONSUMER_GROUPS, "--describe", "--group", group)
    assert [group, topic, "0", "4", "10", "6"] in [
        line.split()[:6] for line in described.splitlines()
    ]
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--execute")
    moved = run(cluster, CONSUMER_GROUPS, *reset, "--shift-by", "3")
    assert [group, topic, "0", "7"] in [line.split() for line in moved.splitlines()]
    assert "successful" in run(cluster, CONSUMER_GROUPS, "--delete", "--group", group)


def test_the_performance_tools_and_get_offsets_agree(cluster: Cluster, topic: str):
    produced = run(
        cluster,
        PRODUCER_PERFORMANCE,
        *("--topic", topic, "--num-records", "20000", "--record-size", "100"),
        *("--throughput", "-1", "--command-property", "compression.type=lz4"),
    )
    assert "20000 records sent" in produced
    consumed, latest = run_all(
        cluster,
        [
            (CONSUMER_PERFORMANCE, "--topic", topic, "--num-records", "20000"),
            (GET_OFFSETS, "--topic", topic, "--time", "latest"),
        ],
    )
    assert consumed.splitlines()[-1].split(", ")[4] == "20000"
    assert latest.strip() == f"{topic}:0:20000"


def test_settings_records_and_directories_have_tools_too(
    cluster: Cluster, topic: str, tmp_path_factory: pytest.TempPathFactory
):
    send(cluster, topic, [b"x"] * 10)
    request = tmp_path_factory.mktemp("request") / "delete.json"
    cut = {"topic": topic, "partition": 0, "offset": 6}
    request.write_text(json.dumps({"version": 1, "partitions": [cut]}), encoding="utf-8")
    entity = ("--entity-type", "topics", "--entity-name", topic)
    altered, deleted, directories = run_all(
        cluster,
        [
            (CONFIGS, *entity, "--alter", "--add-config", "retention.ms=7654321"),
            (DELETE_RECORDS, "--offset-json-file", str(request)),
            (LOG_DIRECTORIES, "--describe", "--topic-list", topic),
        ],
    )
    assert "Completed updating config" in altered
    assert re.search(rf"{topic}-0\s+low_watermark: 6", deleted)
    assert f'"partition":"{topic}-0"' in directories
    assert "retention.ms=7654321" in run(cluster, CONFIGS, *entity, "--describe")


def test_consumer_groups_of_the_new_kind_have_tools_too(cluster: Cluster, topic: str, group: str):
    send(cluster, topic, [b"first", b"second"])
    entity = ("--entity-type", "groups", "--entity-name", group)
    run(cluster, CONFIGS, *entity, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    printed = run(
        cluster,
        CONSOLE_CONSUMER,
        *("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "2"),
        *("--timeout-ms", "20000", "--command-property", "group.protocol=consumer"),
    )
    assert printed.splitlines() == ["first", "second"]
    with consumer(cluster, group, {"group.protocol": "consumer"}) as member:
        member.subscribe([topic])
        eventually(lambda: member.poll(0.1) is None and member.assignment())
        of_group = ("--describe", "--group", group)
        offsets, members, state, configs = run_all(
            cluster,
            [
                (CONSUMER_GROUPS, *of_group),
                (CONSUMER_GROUPS, *of_group, "--members", "--verbose"),
                (CONSUMER_GROUPS, *of_group, "--state"),
                (CONFIGS, *entity, "--describe"),
            ],
        )
    assert [group, topic, "0", "2", "2", "0"] in rows(offsets, 6)
    assert any(row[0] == group and f"{topic}:0" in row for row in rows(members))
    assert any(row[0] == group and {"uniform", "Stable"} <= set(row) for row in rows(state))
    assert "consumer.session.timeout.ms=50000" in configs


def test_tools_find_nothing_where_there_is_nothing(cluster: Cluster):
    quotas, quorum = run_all(
        cluster,
        [
            (CONFIGS, "--describe", "--entity-type", "clients"),
            (METADATA_QUORUM, "describe", "--status"),
        ],
    )
    assert quotas.strip() == ""
    assert re.search(r"LeaderId:\s+1\s", quorum)


def rows(table: str, columns: int | None = None) -> list[list[str]]:
    return [line.split()[:columns] for line in table.splitlines() if line.strip()]
