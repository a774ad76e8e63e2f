"""Consumer groups: every group gets every message, within a group one member does."""

import asyncio
import itertools
import threading
from collections import Counter

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import (
    RoundRobinPartitionAssignor as AiokafkaRoundRobin,
)
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka import KafkaConsumer
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tests.clients.librdkafka import consumer, eventually, producer, read_values, send
from tests.clients.membership import Member, await_shares, await_total, stopping
from tests.clusters import Cluster
from tests.conftest import TopicFactory

COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}


def test_every_group_receives_every_message(cluster: Cluster, topic: str, group: str):
    sent = [str(number).encode() for number in range(50)]
    send(cluster, topic, sent)
    with stopping([Member(cluster, f"{group}-{name}", [topic]) for name in "abc"]) as members:
        for member in members:
            await_total([member], 50)
            assert member.received[topic, 0] == sent


@pytest.mark.partitions(6)
def test_members_share_the_partitions_and_the_messages(cluster: Cluster, topic: str, group: str):
    with stopping([Member(cluster, group, [topic]) for _ in range(3)]) as members:
        await_shares(members, [2, 2, 2])
        for partition in range(6):
            values = [f"{partition}/{number}".encode() for number in range(20)]
            send(cluster, topic, values, partition=partition)
        await_total(members, 120)
        owners = Counter(place for member in members for place in member.received)
        assert owners == Counter({(topic, partition): 1 for partition in range(6)})


@pytest.mark.partitions(2)
def test_a_spare_member_takes_over_when_another_leaves(cluster: Cluster, topic: str, group: str):
    with stopping([Member(cluster, group, [topic]) for _ in range(3)]) as members:
        await_shares(members, [0, 1, 1])
        leaving = next(member for member in members if member.assigned)
        leaving.stop()
        members.remove(leaving)
        await_shares(members, [1, 1])


@pytest.mark.partitions(6)
def test_three_client_libraries_share_one_group(cluster: Cluster, topic: str, group: str):
    shares: dict[str, set[int]] = {"aiokafka": set(), "kafka-python": set()}
    finished = threading.Event()

    def kafka_python() -> None:
        member = KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            group_id=group,
            heartbeat_interval_ms=200,
            partition_assignment_strategy=[RoundRobinPartitionAssignor],
        )
        while not finished.is_set():
            member.poll(timeout_ms=50)
            shares["kafka-python"] = {one.partition for one in member.assignment()}
        member.close()

    async def aiokafka() -> None:
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            group_id=group,
            heartbeat_interval_ms=200,
            partition_assignment_strategy=[AiokafkaRoundRobin],
        ) as member:
            while not finished.is_set():
                await member.getmany(timeout_ms=50)
                shares["aiokafka"] = {one.partition for one in member.assignment()}

    threads = [
        threading.Thread(target=kafka_python),
        threading.Thread(target=lambda: asyncio.run(aiokafka())),
    ]
    strategy = {"partition.assignment.strategy": "roundrobin"}
    with stopping([Member(cluster, group, [topic], strategy)]) as (member,):
        try:
            for thread in threads:
                thread.start()

            def shared() -> bool:
                parts = [{number for _, number in member.assigned}, *shares.values()]
                return sorted(map(len, parts)) == [2, 2, 2] and len(set().union(*parts)) == 6

            eventually(shared, timeout=30)
        finally:
            finished.set()
            for thread in threads:
                thread.join(20)


@pytest.mark.partitions(8)
@pytest.mark.parametrize("strategy", [{}, COOPERATIVE], ids=["eager", "cooperative"])
def test_nothing_is_lost_or_repeated_while_members_come_and_go(
    cluster: Cluster, topic: str, group: str, strategy: dict[str, str]
):
    sender = producer(cluster, {"linger.ms": 5})
    sent: list[list[bytes]] = [[] for _ in range(8)]
    finished = threading.Event()

    def produce() -> None:
        number = 0
        while not finished.wait(0.002):
            value = str(number).encode()
            sender.produce(topic, value, partition=number % 8)
            sent[number % 8].append(value)
            number += 1
        assert sender.flush(20) == 0

    producing = threading.Thread(target=produce)
    producing.start()
    everyone = [Member(cluster, group, [topic], strategy)]
    with stopping(everyone):
        try:
            await_shares(everyone, [8])
            everyone += [Member(cluster, group, [topic], strategy) for _ in range(2)]
            await_shares(everyone, [2, 3, 3])
            everyone[0].stop()
            await_shares(everyone[1:], [4, 4])
        finally:
            finished.set()
            producing.join(30)
        await_total(everyone, sum(map(len, sent)))
        for partition in range(8):
            shares = [member.received[topic, partition] for member in everyone]
            assert sorted(itertools.chain(*shares), key=number_in) == sent[partition]
            assert [sorted(share, key=number_in) for share in shares] == shares


def number_in(value: bytes | None) -> int:
    assert value is not None
    return int(value)


@pytest.mark.partitions(4)
def test_a_cooperative_member_keeps_what_it_need_not_give_up(
    cluster: Cluster, topic: str, group: str
):
    with stopping([Member(cluster, group, [topic], COOPERATIVE)]) as members:
        await_shares(members, [4])
        members.append(Member(cluster, group, [topic], COOPERATIVE))
        await_shares(members, [2, 2])
        revoked = [place for places in members[0].revoked for place in places]
        assert len(revoked) == 2
        assert members[1].assigned == frozenset(revoked)


@pytest.mark.partitions(12)
def test_many_members_that_join_at_once_all_get_a_share(cluster: Cluster, topic: str, group: str):
    with stopping([Member(cluster, group, [topic]) for _ in range(12)]) as members:
        await_shares(members, [1] * 12)
        assert [member.errors for member in members] == [[]] * 12


def test_members_with_different_subscriptions_get_only_what_they_asked_for(
    cluster: Cluster, new_topic: TopicFactory, group: str
):
    one, other = new_topic(partitions=2), new_topic(partitions=2)
    with stopping([Member(cluster, group, [one]), Member(cluster, group, [one, other])]) as members:
        eventually(lambda: sum(len(member.assigned) for member in members) == 4)
        assert {name for name, _ in members[0].assigned} <= {one}
        assert {place for place in members[1].assigned if place[0] == other} == {
            (other, 0),
            (other, 1),
        }


def test_a_pattern_subscription_finds_topics_that_appear_later(
    cluster: Cluster, admin: AdminClient, fresh_name: str, group: str
):
    quick = {"topic.metadata.refresh.interval.ms": 200, "metadata.max.age.ms": 200}
    send(cluster, f"{fresh_name}-first", [b"1"])
    with stopping([Member(cluster, group, [f"^{fresh_name}-.*"], quick)]) as (member,):
        await_total([member], 1)
        send(cluster, f"{fresh_name}-second", [b"2"])
        await_total([member], 2)
    assert member.received[f"{fresh_name}-second", 0] == [b"2"]


def test_partitions_added_to_a_topic_are_consumed_too(
    cluster: Cluster, admin: AdminClient, topic: str, group: str
):
    quick = {"topic.metadata.refresh.interval.ms": 200, "metadata.max.age.ms": 200}
    with stopping([Member(cluster, group, [topic], quick)]) as members:
        await_shares(members, [1])
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
        await_shares(members, [3])
        send(cluster, topic, [b"new"], partition=2)
        await_total(members, 1)
        assert members[0].received[topic, 2] == [b"new"]


def test_a_group_goes_on_where_it_committed(cluster: Cluster, topic: str, group: str):
    sent = [str(number).encode() for number in range(10)]
    send(cluster, topic, sent)
    with consumer(cluster, group) as first:
        first.subscribe([topic])
        assert read_values(first, 4) == sent[:4]
        first.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        assert read_values(first, 3) == sent[4:7]
    with consumer(cluster, group) as second:
        second.subscribe([topic])
        assert read_values(second, 6) == sent[4:]


@pytest.mark.parametrize("library", ["aiokafka", "kafka-python"])
def test_an_automatic_commit_on_close_is_where_the_next_member_starts(
    cluster: Cluster, topic: str, group: str, library: str
):
    sent = [str(number).encode() for number in range(10)]
    send(cluster, topic, sent)

    def kafka_python(count: int) -> list[bytes]:
        member = KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
        )
        received = [next(member).value for _ in range(count)]
        member.close()
        return received

    async def aiokafka(count: int) -> list[bytes]:
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
        ) as member:
            return [(await asyncio.wait_for(member.getone(), 20)).value for _ in range(count)]

    def consume(count: int) -> list[bytes]:
        return kafka_python(count) if library == "kafka-python" else asyncio.run(aiokafka(count))

    assert consume(6) == sent[:6]
    assert consume(4) == sent[6:]


@pytest.mark.partitions(2)
def test_a_member_that_unsubscribes_leaves_its_partitions_to_the_others(
    cluster: Cluster, topic: str, group: str
):
    with stopping([Member(cluster, group, [topic])]) as members, consumer(cluster, group) as fickle:
        fickle.subscribe([topic])
        eventually(lambda: fickle.poll(0.05) or len(fickle.assignment()) == 1)
        await_shares(members, [1])
        fickle.unsubscribe()
        eventually(lambda: fickle.poll(0.05) or len(members[0].assigned) == 2)
