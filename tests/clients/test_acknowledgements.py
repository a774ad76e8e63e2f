"""What each level of acknowledgement tells the producer, and that nothing sent is lost."""

import pytest
from confluent_kafka import KafkaError

from headrace.records import build_batch
from tests.clients.drivers import LIBRARIES, Driver, named
from tests.clients.librdkafka import send
from tests.clients.messages import numbered, plain
from tests.clients.stored import append
from tests.clients.wire import Wire
from tests.clusters import Cluster
from tests.conftest import TopicFactory


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("client", LIBRARIES, ids=named)
def test_messages_arrive_at_every_level_of_acknowledgement(
    cluster: Cluster, topic: str, client: Driver, acks: int
):
    messages = numbered(200)
    client.produce(cluster, topic, messages, acks=acks)
    assert plain(LIBRARIES[0].consume(cluster, topic, 200)) == plain(messages)


@pytest.mark.parametrize("acks", [1, -1])
def test_an_acknowledgement_names_the_offset(cluster: Cluster, topic: str, acks: int):
    first = send(cluster, topic, [b"a", b"b"], config={"acks": acks})
    second = send(cluster, topic, [b"c"], config={"acks": acks})
    assert [delivery.offset for delivery in first + second] == [0, 1, 2]


def test_a_failure_that_cannot_be_answered_closes_the_connection(
    cluster: Cluster, new_topic: TopicFactory
):
    topic = new_topic(config={"max.message.bytes": "1000"})
    with Wire(cluster) as wire:
        append(wire, topic, build_batch([(None, b"x" * 5_000)], timestamp=0), acks=0)
        with pytest.raises((EOFError, ConnectionResetError)):
            wire.receive_frame()


def test_a_message_for_a_partition_that_is_not_there_fails(cluster: Cluster, topic: str):
    (delivery,) = send(
        cluster,
        topic,
        [b"lost"],
        partition=7,
        config={"message.timeout.ms": 3_000, "topic.metadata.propagation.max.ms": 0},
    )
    assert delivery.error == KafkaError._UNKNOWN_PARTITION
