"""Raw requests: found, routed and repeated."""

import os
from datetime import timedelta

import pytest

from headrace.kafka import (
    ClusterUnreachable,
    InvalidClientProperties,
    Partition,
    UnknownTopic,
    create_topic,
)
from headrace.kafka.cluster import Cluster as Client
from headrace.kafka.connection import (
    Anyone,
    Connection,
    GroupCoordinator,
    Leader,
    Node,
    TransactionCoordinator,
    connect,
)
from headrace.kafka.messages import Request, request
from headrace.settings import KafkaSettings
from tests.clusters import Cluster, headrace_process


def latest_offset(partition: Partition) -> Request:
    return request(
        "list_offsets",
        7,
        replica_id=-1,
        isolation_level=0,
        topics=[
            {
                "name": partition.topic,
                "partitions": [
                    {
                        "partition_index": partition.number,
                        "current_leader_epoch": -1,
                        "timestamp": -1,
                    }
                ],
            }
        ],
    )


def code_of(answer) -> int:
    return int(answer.topics[0].partitions[0].error_code)


@pytest.fixture
def raw(cluster: Cluster):
    connection = Connection(KafkaSettings(bootstrap=cluster.bootstrap))
    yield connection
    connection.close()


pytestmark = pytest.mark.partitions(2)


def test_a_leader_is_found_and_asked(raw: Connection, topic: str) -> None:
    partition = Partition(topic, 1)
    answer = raw.ask(Leader(partition), latest_offset(partition), code_of=code_of)
    assert answer.topics[0].partitions[0].offset == 0


def test_topics_come_with_their_ids_and_leaders(raw: Connection, topic: str) -> None:
    found = raw.topics([topic, "there-is-no-such-topic"])
    assert list(found) == [topic]
    assert found[topic].id is not None
    assert sorted(found[topic].leaders) == [0, 1]
    assert raw.topics()[topic] == found[topic]


def test_partitions_are_grouped_by_who_leads_them(raw: Connection, topic: str) -> None:
    partitions = [Partition(topic, 0), Partition(topic, 1)]
    ((node, led),) = raw.leaders(partitions).items()
    assert led == partitions
    answer = raw.ask(node, latest_offset(partitions[0]), code_of=code_of)
    assert code_of(answer) == 0


def test_coordinators_are_found(raw: Connection, topic: str) -> None:
    asked = request(
        "init_producer_id",
        4,
        transactional_id=topic,
        transaction_timeout=timedelta(seconds=10),
        producer_id=-1,
        producer_epoch=-1,
    )
    answer = raw.ask(TransactionCoordinator(topic), asked, code_of=lambda answer: answer.error_code)
    assert answer.producer_id >= 0
    asked = request("offset_fetch", 5, group_id=topic, topics=None)
    answer = raw.ask(GroupCoordinator(topic), asked, code_of=lambda answer: answer.error_code)
    assert answer.topics == ()


def test_an_unknown_topic_is_named(raw: Connection) -> None:
    partition = Partition("there-is-no-such-topic", 0)
    with pytest.raises(UnknownTopic, match="there-is-no-such-topic"):
        raw.ask(Leader(partition), latest_offset(partition), code_of=code_of)


def test_nobody_listening_is_said_when_patience_ends() -> None:
    raw = Connection(KafkaSettings(bootstrap="127.0.0.1:1"))
    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1: connection refused"):
        raw.ask(Anyone(), request("list_groups", 4, states_filter=[]), patience=0.1)


def test_a_broker_that_restarts_is_waited_for() -> None:
    with headrace_process() as broker:
        settings = KafkaSettings(bootstrap=broker.cluster.bootstrap)
        create_topic(Client(settings), "orders", partitions=1)
        raw = Connection(settings)
        partition = Partition("orders", 0)
        raw.ask(Leader(partition), latest_offset(partition), code_of=code_of)
        broker.kill()
        broker.start()
        answer = raw.ask(Leader(partition), latest_offset(partition), code_of=code_of)
        assert code_of(answer) == 0
        raw.close()


def test_a_forked_child_uses_sockets_of_its_own(raw: Connection, topic: str) -> None:
    asked = request("list_groups", 4, states_filter=[])
    raw.ask(Anyone(), asked)
    child = os.fork()
    if child == 0:
        try:
            answered = raw.ask(Anyone(), asked).error_code == 0
        finally:
            os._exit(0 if answered else 1)
    raw.ask(Anyone(), asked)
    assert os.waitpid(child, 0)[1] == 0


def test_a_process_has_one_connection_per_settings() -> None:
    here = KafkaSettings(bootstrap="127.0.0.1:1", properties={"client.id": "a"})
    assert connect(here) is connect(here)
    assert connect(here) is not connect(KafkaSettings(bootstrap="127.0.0.1:1"))


def test_a_field_that_a_version_lacks_is_named() -> None:
    with pytest.raises(TypeError, match="no_such_field"):
        request("list_groups", 4, no_such_field=1)


def test_a_property_that_only_librdkafka_understands_is_refused() -> None:
    properties = {"security.protocol": "ssl", "ssl.engine.location": "engine"}
    with pytest.raises(InvalidClientProperties, match=r"ssl\.engine\.location"):
        Connection(KafkaSettings(properties=properties))


def test_a_node_is_asked_by_its_id(raw: Connection, topic: str) -> None:
    (node,) = raw.leaders([Partition(topic, 0)])
    assert isinstance(node, Node)
