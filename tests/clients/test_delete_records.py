"""Records deleted from the front of a partition: gone for readers, never for offsets."""

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError
from kio.schema.errors import ErrorCode

from tests.clients.librdkafka import consumer, error_code, read_values, reader, send
from tests.clients.stored import fetch
from tests.clients.wire import Wire
from tests.clusters import Cluster
from tests.conftest import TopicFactory

SENT = [str(number).encode() for number in range(100)]


def delete(admin: AdminClient, topic: str, before: int) -> int:
    place = TopicPartition(topic, 0, before)
    low: int = admin.delete_records([place])[place].result(20).low_watermark
    return low


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_a_reader_starts_at_the_first_record_that_is_left(
    cluster: Cluster, admin: AdminClient, topic: str, codec: str
):
    send(cluster, topic, SENT, config={"compression.type": codec})
    assert delete(admin, topic, 42) == 42
    with consumer(cluster, "unused") as reading:
        assert reading.get_watermark_offsets(TopicPartition(topic, 0), 20) == (42, 100)
        reading.assign([TopicPartition(topic, 0, 0)])
        assert read_values(reading, 58) == SENT[42:]


def test_a_fetch_before_the_start_is_out_of_range_and_one_inside_a_cut_batch_is_not(
    cluster: Cluster, admin: AdminClient, topic: str
):
    send(cluster, topic, SENT)
    delete(admin, topic, 42)
    with Wire(cluster) as wire:
        before = fetch(wire, topic, 41)
        at = fetch(wire, topic, 42)
    assert before.error_code is ErrorCode.offset_out_of_range
    assert at.error_code is ErrorCode.none
    assert (at.log_start_offset, at.high_watermark) == (42, 100)


def test_deleting_to_the_high_watermark_empties_the_partition(
    cluster: Cluster, admin: AdminClient, topic: str
):
    send(cluster, topic, SENT)
    assert delete(admin, topic, -1) == 100
    assert [delivery.offset for delivery in send(cluster, topic, [b"next"])] == [100]
    with reader(cluster, topic) as reading:
        assert read_values(reading, 1) == [b"next"]


def test_deleting_less_than_before_changes_nothing(
    cluster: Cluster, admin: AdminClient, topic: str
):
    send(cluster, topic, SENT)
    assert [delete(admin, topic, offset) for offset in (50, 20, 50)] == [50, 50, 50]


def test_deleting_beyond_the_end_is_out_of_range(cluster: Cluster, admin: AdminClient, topic: str):
    send(cluster, topic, SENT)
    place = TopicPartition(topic, 0, 101)
    refused = admin.delete_records([place])[place]
    assert error_code(refused) == KafkaError.OFFSET_OUT_OF_RANGE


def test_kafka_python_deletes_from_many_partitions_at_once(
    cluster: Cluster, new_topic: TopicFactory
):
    topic = new_topic(partitions=3)
    for partition in range(3):
        send(cluster, topic, SENT, partition=partition)
    places = [KafkaPythonPartition(topic, number) for number in range(3)]
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        deleted = client.delete_records({places[0]: -1, places[2]: 30})
        assert deleted[places[0]]["low_watermark"] == 100
        assert deleted[places[2]]["low_watermark"] == 30
        with pytest.raises(UnknownTopicOrPartitionError):
            client.delete_records({KafkaPythonPartition(topic, 99): -1})
        with pytest.raises(OffsetOutOfRangeError):
            client.delete_records({places[1]: 1_000})
    finally:
        client.close()


def test_a_time_before_the_deleted_records_finds_the_first_that_is_left(
    cluster: Cluster, admin: AdminClient, topic: str
):
    send(cluster, topic, SENT, timestamps=range(1_000, 1_100))
    delete(admin, topic, 42)
    with consumer(cluster, "unused") as asking:
        for moment, offset in ((1_010, 42), (1_050, 50)):
            (found,) = asking.offsets_for_times([TopicPartition(topic, 0, moment)], 20)
            assert found.offset == offset
