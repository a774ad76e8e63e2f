"""What is in topics, seen through transactions or past them."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.librdkafka import TIMEOUT_SECONDS
from tests.clusters import Cluster

PARTITIONS = 4
"""Of every topic here."""


PATIENCE_SECONDS = 60.0
"""How long nothing may come to a topic; a JVM that starts on a busy machine takes its time."""


class Record(NamedTuple):
    """Key and value."""

    key: bytes | None
    value: bytes | None


Contents = dict[int, list[Record]]
"""The records of each partition, in order."""


def create_topics(cluster: Cluster, names: list[str]) -> None:
    """Create topics of the usual shape."""
    with AdminClient({"bootstrap.servers": cluster.bootstrap}) as admin:
        created = admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
        for future in created.values():
            future.result(TIMEOUT_SECONDS)


def write_in_transactions(cluster: Cluster, topic: str, count: int, random: Random) -> Contents:
    """Write so many records to each partition, with aborted ones between; the committed ones."""
    writer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": f"{topic}-writer"}
    )
    writer.init_transactions(TIMEOUT_SECONDS)
    committed: Contents = {partition: [] for partition in range(PARTITIONS)}
    while any(len(records) < count for records in committed.values()):
        keep = random.random() < 0.8
        writer.begin_transaction()
        for partition, records in committed.items():
            size = min(random.randint(1, 30), count - len(records))
            for number in range(len(records), len(records) + size):
                word = "kept" if keep else "aborted"
                record = Record(b"%d" % partition, f"{word} {partition} {number}".encode())
                writer.produce(topic, record.value, record.key, partition=partition)
                if keep:
                    records.append(record)
        if keep:
            writer.commit_transaction(TIMEOUT_SECONDS)
        else:
            writer.flush(TIMEOUT_SECONDS)
            writer.abort_transaction(TIMEOUT_SECONDS)
    return committed


def follow(source: Consumer) -> Iterator[Message]:
    """Messages as they become visible; ends when none comes for a long time."""
    while (message := source.poll(PATIENCE_SECONDS)) is not None:
        error = message.error()
        if error is None:
            yield message
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:
            assert error.retriable(), error


def contents(cluster: Cluster, topic: str, isolation: str) -> Contents:
    """All that a reader of this isolation level sees now."""
    found: dict[int, list[Record]] = defaultdict(list)
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "unused",
        "isolation.level": isolation,
        "enable.partition.eof": True,
    }
    with Consumer(settings) as source:
        source.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        ended = 0
        while ended < PARTITIONS:
            message = source.poll(TIMEOUT_SECONDS)
            assert message is not None, f"{topic} has no end; {ended} partitions ended"
            if error := message.error():
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended += 1
                continue
            partition = message.partition()
            assert partition is not None
            found[partition].append(Record(message.key(), message.value()))
    return {number: found[number] for number in range(PARTITIONS)}


def differences(found: Contents, expected: Contents) -> list[str]:
    """What is missing, what is there too often, and where the order is wrong."""
    told = []
    for partition, wanted in expected.items():
        there = found[partition]
        count = Counter(there)
        told += [f"missing: {record}" for record in wanted if not count[record]]
        told += [f"{count[record]} times: {record}" for record in count if count[record] > 1]
        told += [f"unexpected: {record}" for record in count.keys() - set(wanted)]
        if not told and there != wanted:
            told.append(f"partition {partition} is out of order")
    return told
