"""Topics: created, described, grown, deleted, and refused for a reason that has a name."""

import pytest
from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka import KafkaAdminClient
from kafka.errors import (
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.clients.librdkafka import (
    consumer,
    error_code,
    eventually,
    producer,
    read_values,
    reader,
    send,
)
from tests.clients.wire import Wire
from tests.clusters import Cluster
from tests.conftest import TopicFactory


def create(admin: AdminClient, name: str, partitions: int = 1, replicas: int = 1) -> int:
    return error_code(admin.create_topics([NewTopic(name, partitions, replicas)])[name])


def partition_count(admin: AdminClient, name: str) -> int:
    found = admin.list_topics(timeout=20).topics.get(name)
    return len(found.partitions) if found else 0


def test_a_created_topic_is_listed_with_its_partitions(
    cluster: Cluster, admin: AdminClient, fresh_name: str
):
    assert create(admin, fresh_name, partitions=3) == 0
    eventually(lambda: partition_count(admin, fresh_name) == 3)
    found = admin.list_topics(timeout=20).topics[fresh_name]
    (broker,) = admin.list_topics(timeout=20).brokers
    assert sorted(found.partitions) == [0, 1, 2]
    assert {partition.leader for partition in found.partitions.values()} == {broker}
    assert [partition.replicas for partition in found.partitions.values()] == [[broker]] * 3
    assert [partition.isrs for partition in found.partitions.values()] == [[broker]] * 3


def test_a_topic_is_described_with_an_id_of_its_own(
    cluster: Cluster, admin: AdminClient, new_topic: TopicFactory
):
    names = [new_topic(partitions=2), new_topic()]
    described = admin.describe_topics(TopicCollection(names))
    found = [described[name].result(20) for name in names]
    assert [topic.name for topic in found] == names
    assert [len(topic.partitions) for topic in found] == [2, 1]
    assert len({str(topic.topic_id) for topic in found}) == 2
    assert not any(topic.is_internal for topic in found)


def test_describing_a_topic_that_is_not_there(
    cluster: Cluster, admin: AdminClient, fresh_name: str
):
    described = admin.describe_topics(TopicCollection([fresh_name]))
    assert error_code(described[fresh_name]) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("partitions", "replicas", "expected"),
    [
        (0, 1, KafkaError.INVALID_PARTITIONS),
        (1, 2, KafkaError.INVALID_REPLICATION_FACTOR),
        (1, 0, KafkaError.INVALID_REPLICATION_FACTOR),
    ],
)
def test_a_shape_that_one_broker_cannot_have_is_refused(
    cluster: Cluster, fresh_name: str, partitions: int, replicas: int, expected: int
):
    wanted = {
        "name": fresh_name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [],
        "configs": [],
    }
    with Wire(cluster) as wire:
        (answer,) = wire.ask("create_topics", 5, topics=[wanted]).topics
    assert answer.error_code.value == expected
    assert answer.error_message


def test_defaults_are_used_where_the_client_leaves_the_choice(
    cluster: Cluster, admin: AdminClient, fresh_name: str
):
    assert create(admin, fresh_name, partitions=-1, replicas=-1) == 0
    eventually(lambda: partition_count(admin, fresh_name) == 1)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "with space", "sla/sh", "ünïcode", "x" * 250, "colon:name"]
)
def test_an_invalid_name_is_refused(cluster: Cluster, name: str):
    wanted = {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    with Wire(cluster) as wire:
        (answer,) = wire.ask("create_topics", 5, topics=[wanted]).topics
    assert answer.error_code.value == KafkaError.TOPIC_EXCEPTION


def test_the_longest_name_is_usable(cluster: Cluster, admin: AdminClient, fresh_name: str):
    longest = f"{fresh_name}-".ljust(249, "x")
    assert create(admin, longest) == 0
    eventually(lambda: send(cluster, longest, [b"v"])[0].error == 0)
    with reader(cluster, longest) as consuming:
        assert read_values(consuming, 1) == [b"v"]


def test_a_name_can_be_taken_only_once(cluster: Cluster, admin: AdminClient, topic: str):
    assert create(admin, topic) == KafkaError.TOPIC_ALREADY_EXISTS


def test_of_several_topics_only_the_faulty_fail(
    cluster: Cluster, admin: AdminClient, topic: str, fresh_name: str
):
    names = [f"{fresh_name}-good", topic, "not valid"]
    created = admin.create_topics([NewTopic(name, 1, 1) for name in names])
    assert [error_code(created[name]) for name in names] == [
        0,
        KafkaError.TOPIC_ALREADY_EXISTS,
        KafkaError.TOPIC_EXCEPTION,
    ]


def test_validation_alone_creates_nothing(cluster: Cluster, admin: AdminClient, fresh_name: str):
    wanted = [NewTopic(fresh_name, 2, 1), NewTopic("not valid", 1, 1)]
    checked = admin.create_topics(wanted, validate_only=True)
    assert error_code(checked[fresh_name]) == 0
    assert error_code(checked["not valid"]) == KafkaError.TOPIC_EXCEPTION
    assert partition_count(admin, fresh_name) == 0


def test_partitions_are_added_and_used(cluster: Cluster, admin: AdminClient, topic: str):
    assert error_code(admin.create_partitions([NewPartitions(topic, 3)])[topic]) == 0
    eventually(lambda: partition_count(admin, topic) == 3)
    eventually(lambda: send(cluster, topic, [b"v"], partition=2)[0].error == 0)


@pytest.mark.partitions(3)
@pytest.mark.parametrize("total", [2, 3])
def test_partitions_cannot_be_taken_away(
    cluster: Cluster, admin: AdminClient, topic: str, total: int
):
    refused = admin.create_partitions([NewPartitions(topic, total)])[topic]
    assert error_code(refused) == KafkaError.INVALID_PARTITIONS
    assert partition_count(admin, topic) == 3


def test_partitions_of_a_topic_that_is_not_there(
    cluster: Cluster, admin: AdminClient, fresh_name: str
):
    refused = admin.create_partitions([NewPartitions(fresh_name, 3)])[fresh_name]
    assert error_code(refused) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_validating_new_partitions_adds_none(cluster: Cluster, admin: AdminClient, topic: str):
    checked = admin.create_partitions([NewPartitions(topic, 3)], validate_only=True)[topic]
    assert error_code(checked) == 0
    assert partition_count(admin, topic) == 1


def test_a_deleted_topic_is_gone(cluster: Cluster, admin: AdminClient, topic: str):
    send(cluster, topic, [b"v"])
    assert error_code(admin.delete_topics([topic])[topic]) == 0
    eventually(lambda: partition_count(admin, topic) == 0)
    assert error_code(admin.delete_topics([topic])[topic]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_of_the_same_name_starts_empty(cluster: Cluster, admin: AdminClient, topic: str):
    send(cluster, topic, [b"old"] * 10)
    before = admin.describe_topics(TopicCollection([topic]))[topic].result(20).topic_id
    assert error_code(admin.delete_topics([topic])[topic]) == 0
    eventually(lambda: create(admin, topic) == 0)
    eventually(lambda: partition_count(admin, topic) == 1)
    after = admin.describe_topics(TopicCollection([topic]))[topic].result(20).topic_id
    assert str(before) != str(after)
    eventually(lambda: [one.offset for one in send(cluster, topic, [b"new"])] == [0])
    with reader(cluster, topic) as consuming:
        assert read_values(consuming, 1) == [b"new"]


def test_a_producer_survives_the_recreation_of_its_topic(
    cluster: Cluster, admin: AdminClient, topic: str
):
    sender = producer(cluster, {"topic.metadata.refresh.interval.ms": 200})
    outcomes: list[int] = []

    def produce() -> int:
        sender.produce(
            topic,
            b"v",
            partition=0,
            on_delivery=lambda error, _: outcomes.append(error.code() if error else 0),
        )
        assert sender.flush(20) == 0
        return outcomes[-1]

    assert produce() == 0
    admin.delete_topics([topic])[topic].result(20)
    eventually(lambda: create(admin, topic) == 0)
    eventually(lambda: produce() == 0)


def test_a_consumer_of_a_deleted_topic_is_told(cluster: Cluster, admin: AdminClient, topic: str):
    send(cluster, topic, [b"v"])
    quick = {"topic.metadata.refresh.interval.ms": 200, "fetch.wait.max.ms": 100}
    with consumer(cluster, f"group-{topic}", quick) as reading:
        reading.subscribe([topic])
        read_values(reading, 1)
        admin.delete_topics([topic])[topic].result(20)

        def told() -> bool:
            message = reading.poll(0.1)
            error = message.error() if message else None
            return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART

        eventually(told)


def test_kafka_python_meets_the_same_errors(cluster: Cluster, topic: str, fresh_name: str):
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        with pytest.raises(TopicAlreadyExistsError):
            client.create_topics([topic])
        with pytest.raises(InvalidTopicError):
            client.create_topics(["not valid"])
        with pytest.raises(InvalidReplicationFactorError):
            client.create_topics({fresh_name: {"replication_factor": 3}})
        with pytest.raises(InvalidPartitionsError):
            client.create_topics({fresh_name: {"num_partitions": 0}})
        with pytest.raises(UnknownTopicOrPartitionError):
            client.delete_topics([fresh_name])
        client.create_topics({fresh_name: {"num_partitions": 2}}, wait_for_metadata=True)
        (described,) = client.describe_topics([fresh_name])
        assert len(described["partitions"]) == 2
        client.create_partitions({fresh_name: 4})
        assert fresh_name in client.list_topics()
        client.delete_topics([fresh_name])
    finally:
        client.close()


def test_partitions_described_one_page_at_a_time(cluster: Cluster, new_topic: TopicFactory):
    topic = new_topic(partitions=5)
    seen: list[int] = []
    cursor: dict[str, object] | None = None
    with Wire(cluster) as wire:
        while True:
            answer = wire.ask(
                "describe_topic_partitions",
                0,
                topics=[{"name": topic}],
                response_partition_limit=2,
                cursor=cursor,
            )
            page = answer.topics[0].partitions
            seen += [one.partition_index for one in page]
            assert {one.eligible_leader_replicas for one in page} == {()}
            if answer.next_cursor is None:
                break
            cursor = {
                "topic_name": answer.next_cursor.topic_name,
                "partition_index": answer.next_cursor.partition_index,
            }
    assert seen == [0, 1, 2, 3, 4]
