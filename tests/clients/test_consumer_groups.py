"""Groups whose partitions the broker shares out (KIP-848), as confluent-kafka uses them."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.clients.librdkafka import consumer, eventually, producer, read_values, send
from tests.clients.membership import Member, await_shares, await_total, stopping
from tests.clusters import Cluster
from tests.conftest import TopicFactory

NEW_KIND = {"group.protocol": "consumer"}


@pytest.fixture
def group(admin: AdminClient, fresh_name: str) -> str:
    """A group whose members call often, so that partitions move quickly."""
    name = f"group-{fresh_name}"
    configure(admin, name, {"consumer.heartbeat.interval.ms": "200"})
    return name


def configure(admin: AdminClient, group: str, configs: dict[str, str]) -> None:
    resource = ConfigResource(
        ResourceType.GROUP,
        group,
        incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ],
    )
    for result in admin.incremental_alter_configs([resource]).values():
        result.result(20)


def join(cluster: Cluster, group: str, *topics: str, **config: Any) -> Member:
    options = {name.replace("_", "."): value for name, value in config.items()}
    return Member(cluster, group, list(topics), {**NEW_KIND, **options})


def places(topic: str, count: int) -> frozenset[tuple[str, int]]:
    return frozenset((topic, number) for number in range(count))


@contextmanager
def traffic(cluster: Cluster, topic: str, partitions: int) -> Iterator[list[bytes]]:
    """Somebody who keeps sending to all partitions; what was sent is the list."""
    sent: list[bytes] = []
    stop = threading.Event()

    def run() -> None:
        sender = producer(cluster, {"linger.ms": 5})
        while not stop.wait(0.01):
            value = str(len(sent)).encode()
            sender.produce(topic, value, partition=len(sent) % partitions)
            sent.append(value)
            sender.poll(0)
        sender.flush(20)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join(30)


def test_members_commit_and_their_successors_go_on_there(cluster: Cluster, topic: str, group: str):
    send(cluster, topic, [b"1", b"2", b"3"])
    with consumer(cluster, group, NEW_KIND) as first:
        first.subscribe([topic])
        assert read_values(first, 2) == [b"1", b"2"]
        first.commit(asynchronous=False)
        (committed,) = first.committed([TopicPartition(topic, 0)], timeout=20)
        assert committed.offset == 2
    with consumer(cluster, group, NEW_KIND) as second:
        second.subscribe([topic])
        assert read_values(second, 1) == [b"3"]


def test_partitions_that_stay_never_stop_while_others_move(
    cluster: Cluster, new_topic: TopicFactory, group: str
):
    topic = new_topic(partitions=6)
    with traffic(cluster, topic, 6) as sent, stopping([join(cluster, group, topic)]) as members:
        await_shares(members, [6])
        for count in (2, 3):
            before = members[0].assigned
            members[0].revoked.clear()
            members.append(join(cluster, group, topic))
            await_shares(members, [6 // count] * count)
            moved = {place for places in members[0].revoked for place in places}
            assert moved == before - members[0].assigned
        members[-1].stop()
        survivors = members[:2]
        await_shares(survivors, [3, 3])
        target = len(sent) + 50
        eventually(lambda: len(sent) > target)
    received = received_by(members)
    assert sorted(received) == sorted(set(received)), "something was delivered twice"
    with consumer(cluster, group, NEW_KIND) as rest:
        rest.subscribe([topic])
        missing = read_values(rest, len(sent) - len(received))
        assert sorted(received + [value or b"" for value in missing]) == sorted(sent)


def test_new_partitions_and_topics_that_match_are_shared_out(
    cluster: Cluster, admin: AdminClient, new_topic: TopicFactory, group: str, fresh_name: str
):
    first = new_topic(partitions=2)
    expression = f"^{re.escape(fresh_name)}-[0-9]+$"
    with stopping([join(cluster, group, expression)]) as members:
        await_shares(members, [2])
        second = new_topic(partitions=3)
        await_shares(members, [5])
        assert members[0].assigned == places(first, 2) | places(second, 3)
        members.append(join(cluster, group, expression))
        await_shares(members, [2, 3])
        admin.delete_topics([second])[second].result(20)
        await_shares(members, [1, 1])


def test_a_static_member_comes_back_to_its_partitions(
    cluster: Cluster, new_topic: TopicFactory, group: str
):
    topic = new_topic(partitions=4)
    names = {"group_instance_id": "till-1"}
    with stopping([join(cluster, group, topic, **names), join(cluster, group, topic)]) as members:
        await_shares(members, [2, 2])
        share = members[0].assigned
        members[1].revoked.clear()
        members[0].stop()
        members[0] = join(cluster, group, topic, **names)
        await_shares(members, [2, 2])
        assert members[0].assigned == share
        assert members[1].revoked == []


def test_an_idle_classic_group_is_upgraded_and_downgraded_with_its_offsets(
    cluster: Cluster, admin: AdminClient, topic: str, group: str
):
    send(cluster, topic, [b"1", b"2", b"3", b"4"])
    for config, value in ({}, b"1"), (NEW_KIND, b"2"), ({}, b"3"), (NEW_KIND, b"4"):
        with consumer(cluster, group, config) as member:
            member.subscribe([topic])
            assert read_values(member, 1) == [value]
            member.commit(asynchronous=False)
            found = admin.describe_consumer_groups([group])[group].result(20)
            new = config == NEW_KIND
            assert found.type is (ConsumerGroupType.CONSUMER if new else ConsumerGroupType.CLASSIC)


def test_groups_are_described_and_listed_with_their_kind(
    cluster: Cluster, admin: AdminClient, new_topic: TopicFactory, group: str
):
    topic = new_topic(partitions=4)
    with stopping(
        [join(cluster, group, topic, client_id=f"client-{number}") for number in "12"]
    ) as members:
        await_shares(members, [2, 2])
        eventually(lambda: state_of(admin, group) is ConsumerGroupState.STABLE)
        found = admin.describe_consumer_groups([group])[group].result(20)
        assert found.type is ConsumerGroupType.CONSUMER
        assert found.partition_assignor == "uniform"
        assert {member.client_id for member in found.members} == {"client-1", "client-2"}
        described = [
            {(one.topic, one.partition) for one in member.assignment.topic_partitions}
            for member in found.members
        ]
        assert sorted(map(sorted, described)) == sorted(sorted(one.assigned) for one in members)
        targets = [
            {(one.topic, one.partition) for one in member.target_assignment.topic_partitions}
            for member in found.members
        ]
        assert targets == described
        assert (group in listed(admin, "CONSUMER"), group in listed(admin, "CLASSIC")) == (
            True,
            False,
        )
    assert state_of(admin, group) is ConsumerGroupState.EMPTY
    admin.delete_consumer_groups([group])[group].result(20)
    assert group not in listed(admin, "CONSUMER")


def test_the_assignor_that_members_ask_for_is_used(
    cluster: Cluster, new_topic: TopicFactory, group: str
):
    topics = [new_topic(partitions=4) for _ in range(2)]
    asked = {"group_remote_assignor": "range"}
    with stopping([join(cluster, group, *topics, **asked) for _ in range(2)]) as members:
        await_shares(members, [4, 4])
        for member in members:
            numbers = [{n for topic, n in member.assigned if topic == one} for one in topics]
            assert numbers[0] == numbers[1]


def test_everything_arrives_while_members_come_and_go(
    cluster: Cluster, new_topic: TopicFactory, group: str
):
    topic = new_topic(partitions=4)
    values = [str(number).encode() for number in range(400)]
    with stopping([join(cluster, group, topic)]) as members:
        for partition in range(4):
            send(
                cluster, topic, values[partition * 100 : partition * 100 + 100], partition=partition
            )
            members.append(join(cluster, group, topic))
        await_total(members, 400)
    received = received_by(members)
    assert sorted(received) == sorted(values)


def test_a_transaction_commits_the_offsets_of_a_member(cluster: Cluster, topic: str, group: str):
    send(cluster, topic, [b"1", b"2"])
    sender = producer(cluster, {"transactional.id": group})
    sender.init_transactions(20)
    with consumer(cluster, group, NEW_KIND) as member:
        member.subscribe([topic])
        assert read_values(member, 1) == [b"1"]
        for end in (sender.commit_transaction, sender.abort_transaction):
            sender.begin_transaction()
            reached = member.position([TopicPartition(topic, 0)])
            sender.send_offsets_to_transaction(reached, member.consumer_group_metadata(), 20)
            end(20)
            (committed,) = member.committed([TopicPartition(topic, 0)], timeout=20)
            assert committed.offset == 1
            if end == sender.commit_transaction:
                assert read_values(member, 1) == [b"2"]


def received_by(members: list[Member]) -> list[bytes]:
    return [
        value
        for member in members
        for values in member.received.values()
        for value in values
        if value is not None
    ]


def state_of(admin: AdminClient, group: str) -> ConsumerGroupState:
    state: ConsumerGroupState = admin.describe_consumer_groups([group])[group].result(20).state
    return state


def listed(admin: AdminClient, kind: str) -> set[str]:
    wanted = {ConsumerGroupType[kind]}
    answer = admin.list_consumer_groups(request_timeout=20, types=wanted).result(20)
    assert answer.errors == []
    return {found.group_id for found in answer.valid}
