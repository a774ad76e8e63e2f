"""The answers of the consumer group protocol (KIP-848), request by request."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.clients.librdkafka import eventually
from tests.clients.raw_consumers import LEAVE, LEAVE_FOR_A_WHILE, RawConsumer, topic_ids
from tests.clients.raw_members import RawMember
from tests.clusters import Cluster
from tests.conftest import TopicFactory

UNTOLD = timedelta(milliseconds=-1)
GROUP = 32
"""Configurations of groups."""


@pytest.fixture
def topic(new_topic: TopicFactory) -> str:
    return new_topic(partitions=4)


class Connect(Protocol):
    """Connects a member that is about to join the test's group."""

    def __call__(self, instance: str | None = None) -> RawConsumer: ...


@pytest.fixture
def connect(cluster: Cluster, group: str) -> Iterator[Connect]:
    """Members, whose connections are closed in the end."""
    with ExitStack() as connections:

        def make(instance: str | None = None) -> RawConsumer:
            member = RawConsumer.connect(cluster, group, instance)
            connections.callback(member.wire.close)
            return member

        yield make


@pytest.fixture
def classic(cluster: Cluster, group: str) -> Iterator[RawMember]:
    """A member of the other kind that is about to join the same group."""
    member = RawMember.connect(cluster, group)
    yield member
    member.wire.close()


@pytest.fixture
def member(cluster: Cluster, connect: Connect, topic: str) -> RawConsumer:
    """A member that is about to join; Kafka's coordinator hears of new topics a little later."""
    scout = RawConsumer.connect(cluster, f"scout-of-{topic}")
    scout.join()
    eventually(lambda: scout.heartbeat(subscribed_topic_names=[topic]) and scout.owned)
    scout.leave()
    scout.wire.close()
    return connect()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, ErrorCode.invalid_request),
        ({"group_id": ""}, ErrorCode.invalid_request),
        ({"instance_id": ""}, ErrorCode.invalid_request),
        ({"rack_id": ""}, ErrorCode.invalid_request),
        ({"rebalance_timeout": UNTOLD}, ErrorCode.invalid_request),
        ({"topic_partitions": None}, ErrorCode.invalid_request),
        (
            {"topic_partitions": [{"topic_id": UUID(int=7), "partitions": [0]}]},
            ErrorCode.invalid_request,
        ),
        ({"subscribed_topic_names": None}, ErrorCode.invalid_request),
        ({"member_epoch": -3}, ErrorCode.invalid_request),
        ({"member_epoch": LEAVE_FOR_A_WHILE}, ErrorCode.invalid_request),
        ({"member_epoch": LEAVE}, ErrorCode.group_id_not_found),
        ({"member_epoch": 5}, ErrorCode.group_id_not_found),
        ({"server_assignor": "sticky"}, ErrorCode.unsupported_assignor),
        ({"subscribed_topic_regex": "(["}, ErrorCode.invalid_regular_expression),
        ({"subscribed_topic_regex": "(?=x)"}, ErrorCode.invalid_regular_expression),
        ({"subscribed_topic_regex": r"(a)\1"}, ErrorCode.invalid_regular_expression),
        ({"subscribed_topic_regex": "a*+"}, ErrorCode.invalid_regular_expression),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_heartbeats_that_make_no_sense_are_refused(
    connect: Connect, fields: dict[str, Any], code: ErrorCode
):
    answer = connect().join("orders", **fields)
    assert answer.error_code is code
    assert (answer.member_epoch, answer.assignment) == (0, None)


def test_in_the_first_version_the_coordinator_hands_out_ids(connect: Connect):
    member = connect()
    member.member_id = ""
    answer = member.join("orders", version=0)
    assert answer.error_code is ErrorCode.none
    assert answer.member_id


def test_epochs_rise_as_members_come_and_go(connect: Connect, member: RawConsumer, topic: str):
    (topic_id,) = topic_ids(member.wire, topic)
    answer = member.join(topic)
    assert answer.member_epoch == 2
    assert member.owned == {(topic_id, number) for number in range(4)}
    assert answer.heartbeat_interval == timedelta(seconds=5)
    assert member.heartbeat().assignment is None

    second = connect()
    second.join(topic)
    assert (second.epoch, second.owned) == (3, frozenset())
    asked = member.heartbeat()
    assert (asked.member_epoch, len(member.owned)) == (2, 2)
    assert second.heartbeat().assignment is None
    assert member.heartbeat().member_epoch == 3
    second.heartbeat()
    assert second.owned == {(topic_id, number) for number in range(4)} - member.owned

    left = second.leave()
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, LEAVE)
    member.settle()
    assert (member.epoch, len(member.owned)) == (4, 4)
    assert second.leave().error_code is ErrorCode.unknown_member_id


def test_wrong_epochs_and_ids_are_fenced(connect: Connect, member: RawConsumer, topic: str):
    member.join(topic)
    other = connect()
    other.join(topic)
    other.leave()
    member.settle()
    epoch = member.epoch
    assert member.send(epoch + 1).error_code is ErrorCode.fenced_member_epoch
    assert member.send(epoch - 1).error_code is ErrorCode.fenced_member_epoch
    assert member.send(1).error_code is ErrorCode.fenced_member_epoch
    assert member.send(epoch, member_id="nobody").error_code is ErrorCode.unknown_member_id
    again = member.join(topic)
    assert (again.member_epoch, len(member.owned)) == (epoch, 4)


def test_a_static_member_keeps_its_place_while_it_is_away(
    connect: Connect, member: RawConsumer, topic: str
):
    member.instance = "till-1"
    member.join(topic)
    successor = connect("till-1")
    assert successor.join(topic).error_code is ErrorCode.unreleased_instance_id
    assert successor.send(member.epoch).error_code is ErrorCode.fenced_instance_id
    assert successor.leave(LEAVE_FOR_A_WHILE).error_code is ErrorCode.fenced_instance_id
    left = member.leave(LEAVE_FOR_A_WHILE)
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, LEAVE_FOR_A_WHILE)
    assert member.send(member.epoch).error_code is ErrorCode.fenced_member_epoch
    successor.join(topic)
    assert (successor.epoch, successor.owned) == (member.epoch, member.owned)
    assert member.send(member.epoch).error_code is ErrorCode.fenced_instance_id
    assert successor.leave().error_code is ErrorCode.none
    assert successor.send(2).error_code is ErrorCode.unknown_member_id


def test_commits_are_fenced_by_epochs(connect: Connect, member: RawConsumer, topic: str):
    member.join(topic)
    early = member.epoch
    other = connect()
    other.join(topic)
    member.settle([other])
    keeper, newcomer = (member, other) if owns(member) else (other, member)
    assert keeper is member, "the first partition stays where it is"
    assert member.commit(topic, 1) is ErrorCode.none
    assert member.commit(topic, 1, generation_id_or_member_epoch=early) is ErrorCode.none
    stale = ErrorCode.stale_member_epoch
    assert member.commit(topic, 1, generation_id_or_member_epoch=early - 1) is stale
    assert member.commit(topic, 1, generation_id_or_member_epoch=member.epoch + 1) is stale
    assert newcomer.commit(topic, 1, generation_id_or_member_epoch=early) is stale
    assert member.commit(topic, 1, member_id="nobody") is ErrorCode.unknown_member_id
    outsider: dict[str, Any] = {"member_id": "", "generation_id_or_member_epoch": -1}
    assert member.commit(topic, 1, **outsider) is ErrorCode.unknown_member_id
    assert member.commit(topic, 1, version=8) is ErrorCode.unsupported_version

    assert member.fetch_offsets(topic).error_code is ErrorCode.none
    assert member.fetch_offsets(topic, member_epoch=early).error_code is stale
    unknown = member.fetch_offsets(topic, member_id="nobody")
    assert unknown.error_code is ErrorCode.unknown_member_id
    anybody = member.fetch_offsets(topic, member_id=None, member_epoch=-1)
    assert anybody.topics[0].partitions[0].committed_offset == 1


def test_outsiders_may_commit_while_nobody_is_there(member: RawConsumer, topic: str):
    member.join(topic)
    member.leave()
    outsider: dict[str, Any] = {"member_id": "", "generation_id_or_member_epoch": -1}
    assert member.commit(topic, 5, **outsider) is ErrorCode.none
    assert member.commit(topic, 5, version=7, **outsider) is ErrorCode.none
    assert member.commit(topic, 5) is ErrorCode.unknown_member_id


def test_the_other_protocol_does_not_see_the_group(
    classic: RawMember, member: RawConsumer, topic: str
):
    member.join(topic)
    wire, group = member.wire, member.group
    asked = {"groups": [group], "include_authorized_operations": False}
    old = wire.ask("describe_groups", 5, **asked).groups[0]
    assert (old.error_code, old.group_state) == (ErrorCode.none, "Dead")
    new = wire.ask("describe_groups", 6, **asked).groups[0]
    assert (new.error_code, new.group_state) == (ErrorCode.group_id_not_found, "Dead")

    assert classic.join().error_code is ErrorCode.inconsistent_group_protocol
    classic.member_id, classic.generation = "somebody", 2
    assert classic.heartbeat() is ErrorCode.unknown_member_id
    assert classic.sync().error_code is ErrorCode.unknown_member_id
    removed = wire.ask(
        "leave_group",
        3,
        group_id=group,
        members=[
            {"member_id": "somebody", "group_instance_id": None},
            {"member_id": member.member_id, "group_instance_id": None},
        ],
    )
    codes = [each.error_code for each in removed.members]
    assert codes == [ErrorCode.unknown_member_id, ErrorCode.none]


def test_a_group_of_another_protocol_type_is_not_upgraded_while_it_has_members(
    classic: RawMember, member: RawConsumer, topic: str
):
    classic.join_fully()
    assert classic.sync({classic.member_id: b"x"}).error_code is ErrorCode.none
    assert member.join(topic).error_code is ErrorCode.group_id_not_found
    assert member.describe().error_code is ErrorCode.group_id_not_found
    classic.leave()
    assert member.join(topic).error_code is ErrorCode.none
    member.leave()
    classic.member_id = ""
    assert classic.join_fully().generation_id == 1


def test_groups_are_described_listed_and_deleted(member: RawConsumer, topic: str):
    member.join(topic, rack_id="rack-1", server_assignor="range")
    found = member.describe()
    assert (found.group_state, found.assignor_name) == ("Stable", "range")
    assert (found.group_epoch, found.assignment_epoch) == (2, 2)
    (described,) = found.members
    assert described.member_id == member.member_id
    assert described.member_epoch == 2
    assert described.subscribed_topic_names == (topic,)
    assert described.rack_id == "rack-1"
    assert described.client_host == "/127.0.0.1"
    assert described.member_type == 1
    (share,) = described.assignment.topic_partitions
    assert (share.topic_name, share.partitions) == (topic, (0, 1, 2, 3))
    assert described.target_assignment.topic_partitions == (share,)

    for filters, shown in (
        ({}, True),
        ({"types_filter": ["CONSUMER"]}, True),
        ({"types_filter": ["classic"]}, False),
        ({"states_filter": ["stable"]}, True),
        ({"states_filter": ["Reconciling"]}, False),
    ):
        content = {"states_filter": [], "types_filter": [], **filters}
        groups = member.wire.ask("list_groups", 5, **content).groups
        listed = [each for each in groups if each.group_id == member.group]
        assert bool(listed) is shown
        assert all((one.group_type, one.protocol_type) == ("consumer",) * 2 for one in listed)

    assert deleted(member) is ErrorCode.non_empty_group
    asked = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    forgotten = member.wire.ask("offset_delete", 0, group_id=member.group, topics=asked)
    code = forgotten.topics[0].partitions[0].error_code
    assert code is ErrorCode.group_subscribed_to_topic
    member.leave()
    assert member.describe().group_state == "Empty"
    assert deleted(member) is ErrorCode.none
    assert member.describe().error_code is ErrorCode.group_id_not_found


def test_a_silent_member_is_dropped_after_the_groups_own_timeout(
    connect: Connect, member: RawConsumer, topic: str
):
    times = {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "300"}
    assert configured(member, times) is ErrorCode.none
    told = eventually(lambda: member.join(topic).heartbeat_interval == timedelta(milliseconds=300))
    assert told
    other = connect()
    other.join(topic)
    eventually(lambda: other.heartbeat() and len(other.owned) == 4, interval=0.1)
    assert member.heartbeat().error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    "configs",
    [
        {"consumer.session.timeout.ms": "99999999"},
        {"consumer.session.timeout.ms": "10"},
        {"consumer.heartbeat.interval.ms": "soon"},
        {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "2000"},
        {"retention.ms": "1000"},
    ],
    ids=lambda configs: "-".join(configs.values()),
)
def test_impossible_settings_of_a_group_are_refused(connect: Connect, configs: dict[str, str]):
    assert configured(connect(), configs) is ErrorCode.invalid_config


def owns(member: RawConsumer) -> bool:
    return any(number == 0 for _, number in member.owned)


def deleted(member: RawConsumer) -> ErrorCode:
    answer = member.wire.ask("delete_groups", 2, groups_names=[member.group])
    code: ErrorCode = answer.results[0].error_code
    return code


def configured(member: RawConsumer, configs: dict[str, str]) -> ErrorCode:
    changes = [
        {"name": name, "config_operation": 0, "value": value} for name, value in configs.items()
    ]
    resource = {"resource_type": GROUP, "resource_name": member.group, "configs": changes}
    answer = member.wire.ask(
        "incremental_alter_configs", 1, resources=[resource], validate_only=False
    )
    code: ErrorCode = answer.responses[0].error_code
    return code
