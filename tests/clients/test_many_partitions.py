"""One topic with many partitions, many topics at once."""

from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.drivers import LIBRARIES
from tests.clients.librdkafka import consumer, error_code, eventually, producer, read
from tests.clients.messages import Message, values
from tests.clusters import Cluster
from tests.conftest import TopicFactory


def test_a_hundred_partitions_are_written_and_read(cluster: Cluster, new_topic: TopicFactory):
    topic = new_topic(partitions=100)
    sender = producer(cluster)
    for number in range(1_000):
        sender.produce(topic, str(number).encode(), partition=number % 100)
    assert sender.flush(20) == 0
    with consumer(cluster, "unused") as reading:
        reading.assign([TopicPartition(topic, number, 0) for number in range(100)])
        received = read(reading, 1_000)
    by_partition: dict[int | None, list[int]] = {}
    for message in received:
        by_partition.setdefault(message.partition(), []).append(int(message.value() or b""))
    assert by_partition == {number: list(range(number, 1_000, 100)) for number in range(100)}


def test_a_small_fetch_gives_every_partition_its_turn(cluster: Cluster, new_topic: TopicFactory):
    topic = new_topic(partitions=10)
    sender = producer(cluster, {"linger.ms": 50})
    for number in range(1_000):
        sender.produce(topic, b"x" * 500, partition=number % 10)
    assert sender.flush(20) == 0
    small = {
        "fetch.max.bytes": 20_000,
        "fetch.message.max.bytes": 10_000,
        "message.max.bytes": 10_000,
    }
    with consumer(cluster, "unused", small) as reading:
        reading.assign([TopicPartition(topic, number, 0) for number in range(10)])
        assert len(read(reading, 1_000)) == 1_000


def test_fifty_topics_are_created_in_one_request(
    cluster: Cluster, admin: AdminClient, fresh_name: str
):
    names = [f"{fresh_name}-{number}" for number in range(50)]
    created = admin.create_topics([NewTopic(name, 2, 1) for name in names])
    assert {error_code(future) for future in created.values()} == {0}
    eventually(lambda: set(names) <= set(admin.list_topics(timeout=20).topics))
    deleted = admin.delete_topics(names)
    assert {error_code(future) for future in deleted.values()} == {0}


def test_all_libraries_write_to_one_partition_at_the_same_time(cluster: Cluster, topic: str):
    def produce(index: int) -> None:
        messages = [Message(f"{index}/{number}".encode()) for number in range(300)]
        LIBRARIES[index].produce(cluster, topic, messages)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(produce, range(3)))
    received = values(LIBRARIES[0].consume(cluster, topic, 900))
    for index in range(3):
        own = [value for value in received if value and value.startswith(b"%d/" % index)]
        assert own == [f"{index}/{number}".encode() for number in range(300)]
