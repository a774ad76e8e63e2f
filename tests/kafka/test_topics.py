"""Topics through `headrace.kafka`: what code rather than people rely on."""

import pytest

from headrace.kafka import (
    Cluster,
    ConfigOrigin,
    Partition,
    RequestRefused,
    TopicExists,
    TopicSummary,
    UnknownTopic,
    UnknownTopicConfig,
    create_topic,
    delete_topic,
    describe_topic,
    ensure_topic,
    list_topics,
    partitions_of,
    topic_config,
)


def test_a_topic_can_be_written_to_as_soon_as_it_is_created(connection: Cluster, fresh_name: str):
    create_topic(connection, fresh_name, partitions=4)
    failures = []
    producer = connection.producer()
    for partition in range(4):
        producer.produce(
            fresh_name,
            b"x",
            partition=partition,
            on_delivery=lambda error, message: failures.append(error) if error else None,
        )
    assert producer.flush(20) == 0
    assert failures == []
    assert [each.latest for each in describe_topic(connection, fresh_name).partitions] == [1] * 4


def test_ensuring_a_topic_twice_leaves_the_first_as_it_was(connection: Cluster, fresh_name: str):
    config = {"cleanup.policy": "compact"}
    assert ensure_topic(connection, fresh_name, partitions=2, config=config)
    assert not ensure_topic(connection, fresh_name, partitions=5)
    assert partitions_of(connection, fresh_name) == [
        Partition(fresh_name, 0),
        Partition(fresh_name, 1),
    ]
    own = [
        each for each in topic_config(connection, fresh_name) if each.origin is ConfigOrigin.TOPIC
    ]
    assert [(each.name, each.value) for each in own] == [("cleanup.policy", "compact")]


def test_errors_tell_what_kind_they_are(connection: Cluster, topic: str, fresh_name: str):
    with pytest.raises(TopicExists):
        create_topic(connection, topic)
    with pytest.raises(UnknownTopic):
        partitions_of(connection, fresh_name)
    with pytest.raises(UnknownTopic):
        delete_topic(connection, fresh_name)
    with pytest.raises(UnknownTopicConfig):
        create_topic(connection, fresh_name, config={"no.such": "1"})
    with pytest.raises(RequestRefused) as raised:
        create_topic(connection, fresh_name, config={"retention.ms": "soon"})
    assert raised.value.reason == "INVALID_CONFIG"


def test_the_list_is_sorted_by_name(connection: Cluster, topic: str):
    names = [each.name for each in list_topics(connection)]
    assert names == sorted(names)
    assert TopicSummary(topic, 1, 1) in list_topics(connection)
