"""Groups as an administrator sees them: listed, described, deleted."""

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.admin import MemberToRemove

from tests.clients.librdkafka import consumer, error_code, eventually, read_values, send
from tests.clients.membership import Member, await_shares, stopping
from tests.clients.wire import Wire
from tests.clusters import Cluster
from tests.conftest import TopicFactory


def state_of(admin: AdminClient, group: str) -> ConsumerGroupState:
    state: ConsumerGroupState = admin.describe_consumer_groups([group])[group].result(20).state
    return state


def listed(admin: AdminClient, **filters: object) -> set[str]:
    answer = admin.list_consumer_groups(request_timeout=20, **filters).result(20)
    assert answer.errors == []
    return {found.group_id for found in answer.valid}


def make_idle(cluster: Cluster, topic: str, group: str) -> None:
    """A group with offsets and without members."""
    send(cluster, topic, [b"x"])
    with consumer(cluster, group) as member:
        member.subscribe([topic])
        read_values(member, 1)
        member.commit(asynchronous=False)


def test_a_group_is_described_with_its_members_and_their_partitions(
    cluster: Cluster, admin: AdminClient, new_topic: TopicFactory, group: str
):
    topic = new_topic(partitions=4)
    with stopping(
        [Member(cluster, group, [topic], {"client.id": f"client-{number}"}) for number in "12"]
    ) as members:
        await_shares(members, [2, 2])
        found = admin.describe_consumer_groups([group])[group].result(20)
        assert found.group_id == group
        assert found.state is ConsumerGroupState.STABLE
        assert found.type is ConsumerGroupType.CLASSIC
        assert found.partition_assignor == "range"
        assert not found.is_simple_consumer_group
        assert f"{found.coordinator.host}:{found.coordinator.port}" == cluster.bootstrap
        assert {member.client_id for member in found.members} == {"client-1", "client-2"}
        assert all(member.host.endswith("127.0.0.1") for member in found.members)
        assigned = [
            {(one.topic, one.partition) for one in member.assignment.topic_partitions}
            for member in found.members
        ]
        assert sorted(map(sorted, assigned)) == sorted(
            sorted(member.assigned) for member in members
        )


def test_a_group_is_listed_by_its_state_and_type(
    cluster: Cluster, admin: AdminClient, topic: str, group: str
):
    idle, busy = f"{group}-idle", f"{group}-busy"
    make_idle(cluster, topic, idle)
    with stopping([Member(cluster, busy, [topic])]) as members:
        await_shares(members, [1])
        assert {idle, busy} <= listed(admin)
        stable = listed(admin, states={ConsumerGroupState.STABLE})
        empty = listed(admin, states={ConsumerGroupState.EMPTY})
        assert (busy in stable, idle in stable) == (True, False)
        assert (busy in empty, idle in empty) == (False, True)
        assert {idle, busy} <= listed(admin, types={ConsumerGroupType.CLASSIC})


def test_the_oldest_way_to_list_and_describe_groups_still_works(
    cluster: Cluster, topic: str, group: str
):
    with stopping([Member(cluster, group, [topic])]) as members, Wire(cluster) as wire:
        await_shares(members, [1])
        listed = {one.group_id: one.protocol_type for one in wire.ask("list_groups", 0).groups}
        assert listed[group] == "consumer"
        (found,) = wire.ask("describe_groups", 0, groups=[group]).groups
        assert (found.group_state, found.protocol_type) == ("Stable", "consumer")
        assert found.protocol_data == "range"
        (member,) = found.members
        assert topic.encode() in member.member_metadata
        assert topic.encode() in member.member_assignment


def test_kafka_python_decodes_members_and_assignments(
    cluster: Cluster, new_topic: TopicFactory, group: str
):
    topic = new_topic(partitions=2)
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        with stopping([Member(cluster, group, [topic])]) as members:
            await_shares(members, [2])
            found = client.describe_groups([group])[group]
            (member,) = found["members"]
            assert found["group_state"] == "Stable"
            assert member["member_metadata"]["topics"] == [topic]
            (share,) = member["member_assignment"]["assigned_partitions"]
            assert (share["topic"], sorted(share["partitions"])) == (topic, [0, 1])
            assert group in {listed["group_id"] for listed in client.list_groups()}
    finally:
        client.close()


def test_a_group_that_everybody_left_is_empty_and_keeps_its_offsets(
    cluster: Cluster, admin: AdminClient, topic: str, group: str
):
    make_idle(cluster, topic, group)
    assert eventually(lambda: state_of(admin, group) is ConsumerGroupState.EMPTY)
    with consumer(cluster, group) as asking:
        (found,) = asking.committed([TopicPartition(topic, 0)], 20)
    assert found.offset == 1


def test_only_an_idle_group_can_be_deleted(
    cluster: Cluster, admin: AdminClient, topic: str, group: str
):
    idle, busy, missing = (f"{group}-{name}" for name in ("idle", "busy", "missing"))
    make_idle(cluster, topic, idle)
    with stopping([Member(cluster, busy, [topic])]) as members:
        await_shares(members, [1])
        deleted = admin.delete_consumer_groups([idle, busy, missing])
        assert {name: error_code(future) for name, future in deleted.items()} == {
            idle: 0,
            busy: KafkaError.NON_EMPTY_GROUP,
            missing: KafkaError.GROUP_ID_NOT_FOUND,
        }
        assert idle not in listed(admin)
        assert busy in listed(admin)
    request = ConsumerGroupTopicPartitions(idle)
    offsets = admin.list_consumer_group_offsets([request])[idle].result(20)
    assert offsets.topic_partitions == []


def test_a_group_that_never_was_is_dead(cluster: Cluster, admin: AdminClient, group: str):
    assert state_of(admin, group) is ConsumerGroupState.DEAD
    assert group not in listed(admin)


def test_deleting_a_topic_forgets_its_committed_offsets(
    cluster: Cluster, admin: AdminClient, new_topic: TopicFactory, group: str
):
    gone, kept = new_topic(), new_topic()
    with consumer(cluster, group) as committing:
        places = [TopicPartition(gone, 0, 5), TopicPartition(kept, 0, 7)]
        committing.commit(offsets=places, asynchronous=False)
    admin.delete_topics([gone])[gone].result(20)

    def remaining() -> set[str]:
        request = ConsumerGroupTopicPartitions(group)
        answer = admin.list_consumer_group_offsets([request])[group].result(20)
        return {place.topic for place in answer.topic_partitions}

    eventually(lambda: remaining() == {kept})


def test_a_member_can_be_removed_by_an_administrator(
    cluster: Cluster, admin: AdminClient, topic: str, group: str
):
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        with stopping(
            [Member(cluster, group, [topic], {"group.instance.id": "unwanted"})]
        ) as members:
            await_shares(members, [1])
            before = admin.describe_consumer_groups([group])[group].result(20).members
            client.remove_group_members(group, [MemberToRemove(group_instance_id="unwanted")])

            def replaced() -> bool:
                now = admin.describe_consumer_groups([group])[group].result(20).members
                return bool(now) and now[0].member_id != before[0].member_id

            eventually(replaced)
    finally:
        client.close()
