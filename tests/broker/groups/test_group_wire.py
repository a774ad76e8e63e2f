"""Groups as clients see them on the wire, in every version; Apache Kafka must answer the same."""

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.groups.group_wire import GroupWire, committing, joining, syncing
from tests.clusters import Cluster
from tests.conftest import TopicFactory

UNKNOWN_TOPIC = uuid.UUID(int=77)
ALL_OPERATIONS = 3400


@pytest.fixture
def wire(cluster: Cluster, group: str) -> Iterator[GroupWire]:
    with GroupWire(cluster) as connected:
        connected.find_coordinator(group)
        yield connected


@pytest.fixture
def other_wire(cluster: Cluster) -> Iterator[GroupWire]:
    """A second client, whose requests may wait at the same time."""
    with GroupWire(cluster) as connected:
        yield connected


@pytest.mark.parametrize("version", range(7))
def test_the_broker_coordinates_every_group(
    wire: GroupWire, cluster: Cluster, group: str, version: int
):
    answer = wire.group_request(
        "find_coordinator", version, key=group, key_type=0, coordinator_keys=[group, "another"]
    )
    found = answer.coordinators if version >= 4 else (answer,)
    assert {(one.error_code, one.host, one.port) for one in found} == {
        (ErrorCode.none, cluster.host, cluster.port)
    }
    if version >= 4:
        assert [one.key for one in found] == [group, "another"]


@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize("key_type", [2, 3])
def test_there_is_no_coordinator_for_other_kinds_of_keys(
    wire: GroupWire, version: int, key_type: int
):
    answer = wire.group_request(
        "find_coordinator", version, key="key", key_type=key_type, coordinator_keys=["key"]
    )
    (found,) = answer.coordinators if version >= 4 else (answer,)
    assert found.error_code is ErrorCode.invalid_request
    assert (found.node_id, found.host, found.port) == (-1, "", -1)


@pytest.mark.parametrize("version", range(10))
def test_a_member_lives_its_life_in_every_version(wire: GroupWire, group: str, version: int):
    first = wire.group_request("join_group", version, **joining(group))
    if version >= 4:
        assert first.error_code is ErrorCode.member_id_required
        first = wire.group_request(
            "join_group", version, **joining(group, member_id=first.member_id)
        )
    assert first.error_code is ErrorCode.none
    assert first.generation_id == 1
    assert first.leader == first.member_id
    assert first.protocol_name == "range"
    assert len(first.members) == 1
    assert first.members[0].metadata == joining(group)["protocols"][0]["metadata"]

    synced = wire.sync(min(version, 5), group, first, {first.member_id: b"share"})
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"share")
    beat = wire.group_request(
        "heartbeat", min(version, 4), group_id=group, member_id=first.member_id, generation_id=1
    )
    assert beat.error_code is ErrorCode.none
    left = wire.group_request(
        "leave_group",
        min(version, 5),
        group_id=group,
        member_id=first.member_id,
        members=[{"member_id": first.member_id}],
    )
    assert left.error_code is ErrorCode.none
    assert wire.heartbeat(group, first.member_id, 1) is ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"protocols": [{"name": "x", "metadata": b""}]}, ErrorCode.inconsistent_group_protocol),
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"group_id": "no-such-group", "member_id": "stranger"}, ErrorCode.unknown_member_id),
    ],
    ids=["type", "protocol", "stranger", "nameless", "no-group"],
)
def test_a_join_is_refused_in_every_version(
    wire: GroupWire, group: str, version: int, changes: dict[str, Any], code: ErrorCode
):
    wire.stable(group)
    answer = wire.group_request("join_group", version, **joining(group) | changes)
    assert answer.error_code is code
    assert answer.generation_id == -1
    assert answer.leader == ""
    assert answer.members == ()
    assert answer.protocol_name == (None if version >= 7 else "")


def test_two_members_share_the_work_and_one_takes_over(
    wire: GroupWire, other_wire: GroupWire, group: str
):
    first = wire.stable(group)
    waiting = threading.Thread(target=lambda: joined.append(other_wire.join(9, group)))
    joined: list[Any] = []
    waiting.start()
    while wire.heartbeat(group, first.member_id, 1) is ErrorCode.none:
        pass
    again = wire.join(9, group, member_id=first.member_id)
    waiting.join(20)
    (second,) = joined
    assert again.leader == second.leader == first.member_id
    assert {one.member_id for one in again.members} == {first.member_id, second.member_id}
    assert second.members == ()

    # The follower syncs first and waits for the leader.
    follower = other_wire.begin("sync_group", 5, **syncing(group, second))
    shares = {first.member_id: b"left", second.member_id: b"right"}
    assert wire.sync(5, group, again, shares).assignment == b"left"
    assert other_wire.receive(follower).assignment == b"right"

    wire.group_request("leave_group", 5, group_id=group, members=[{"member_id": first.member_id}])
    assert other_wire.heartbeat(group, second.member_id, 2) is ErrorCode.rebalance_in_progress
    alone = other_wire.join(9, group, member_id=second.member_id)
    assert alone.generation_id == 3
    assert alone.leader == second.member_id
    assert len(alone.members) == 1


@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_member_restarts_without_a_rebalance(wire: GroupWire, group: str, version: int):
    static = {"group_instance_id": "host-1"}
    first = wire.stable(group, **static)
    second = wire.group_request("join_group", version, **joining(group, **static))
    assert second.error_code is ErrorCode.none
    assert second.generation_id == first.generation_id
    assert second.member_id != first.member_id
    if version == 9:
        assert second.skip_assignment
        assert second.leader == second.member_id
        assert [one.group_instance_id for one in second.members] == ["host-1"]
    else:
        assert second.leader == first.member_id
        assert second.members == ()
    synced = wire.group_request("sync_group", 5, **syncing(group, second) | static)
    assert synced.assignment == b"everything"
    fenced = wire.heartbeat(group, first.member_id, 1, **static)
    assert fenced is ErrorCode.fenced_instance_id
    assert wire.heartbeat(group, first.member_id, 1) is ErrorCode.unknown_member_id
    left = wire.group_request(
        "leave_group", 5, group_id=group, members=[{"member_id": "", **static}]
    )
    assert [one.error_code for one in left.members] == [ErrorCode.none]


@pytest.mark.parametrize("version", range(3, 6))
def test_several_members_leave_at_once_each_with_an_answer_of_its_own(
    wire: GroupWire, group: str, version: int
):
    member = wire.stable(group)
    leaving = [
        {"member_id": "stranger"},
        {"member_id": "", "group_instance_id": "nobody"},
        {"member_id": member.member_id},
    ]
    answer = wire.group_request("leave_group", version, group_id=group, members=leaving)
    assert answer.error_code is ErrorCode.none
    assert [(one.member_id, one.error_code) for one in answer.members] == [
        ("stranger", ErrorCode.unknown_member_id),
        ("", ErrorCode.unknown_member_id),
        (member.member_id, ErrorCode.none),
    ]
    lost = wire.group_request("leave_group", version, group_id="no-such-group", members=leaving)
    assert {one.error_code for one in lost.members} == {ErrorCode.unknown_member_id}


@pytest.mark.parametrize("version", range(2, 11))
@pytest.mark.partitions(3)
def test_offsets_are_committed_in_every_version(
    wire: GroupWire, group: str, topic: str, version: int
):
    name = wire.topic_id(topic) if version >= 10 else topic
    answer = wire.group_request(
        "offset_commit", version, **committing(group, name, {0: 5, 2: 7, 9: 1})
    )
    codes = {one.partition_index: one.error_code for one in answer.topics[0].partitions}
    assert codes == {
        0: ErrorCode.none,
        2: ErrorCode.none,
        9: ErrorCode.unknown_topic_or_partition,
    }
    missing = UNKNOWN_TOPIC if version >= 10 else "no-such-topic"
    answer = wire.group_request("offset_commit", version, **committing(group, missing, {0: 1}))
    assert answer.topics[0].partitions[0].error_code is (
        ErrorCode.unknown_topic_id if version >= 10 else ErrorCode.unknown_topic_or_partition
    )
    stranger = {"member_id": "stranger", "generation_id_or_member_epoch": 3}
    answer = wire.group_request(
        "offset_commit", version, **committing("no-such-group", name, {0: 1}, **stranger)
    )
    assert answer.topics[0].partitions[0].error_code is (
        ErrorCode.group_id_not_found if version >= 9 else ErrorCode.illegal_generation
    )


@pytest.mark.parametrize("require_stable", [False, True])
@pytest.mark.parametrize("version", range(1, 11))
@pytest.mark.partitions(3)
def test_offsets_are_fetched_in_every_version(
    wire: GroupWire, group: str, topic: str, version: int, require_stable: bool
):
    wire.group_request("offset_commit", 8, **committing(group, topic, {0: 5, 2: 7}))
    name = wire.topic_id(topic) if version >= 10 else topic
    missing = UNKNOWN_TOPIC if version >= 10 else "no-such-topic"

    def fetch(asked_group: str, *topics: Any) -> list[tuple[Any, ...]]:
        asked = {
            "group_id": asked_group,
            "topics": [
                {"name": one, "topic_id": one, "partition_indexes": [0, 1, 2]} for one in topics
            ]
            or None,
        }
        answer = wire.group_request(
            "offset_fetch", version, **asked, groups=[asked], require_stable=require_stable
        )
        if version >= 8:
            (answer,) = answer.groups
        if version >= 2:
            assert answer.error_code is ErrorCode.none
        return sorted(
            (one.partition_index, one.committed_offset, one.metadata, one.error_code)
            for found in answer.topics
            for one in found.partitions
        )

    none = ErrorCode.none
    assert fetch(group, name) == [(0, 5, "note 5", none), (1, -1, "", none), (2, 7, "note 7", none)]
    assert fetch("no-such-group", name) == [(index, -1, "", none) for index in range(3)]
    unknown = ErrorCode.unknown_topic_id if version >= 10 else none
    assert fetch(group, missing) == [(index, -1, "", unknown) for index in range(3)]
    if version >= 2:
        assert fetch(group) == [(0, 5, "note 5", none), (2, 7, "note 7", none)]
        assert fetch("no-such-group") == []


@pytest.mark.parametrize("version", range(8, 11))
def test_offsets_of_several_groups_are_fetched_together(
    wire: GroupWire, group: str, topic: str, version: int
):
    wire.group_request("offset_commit", 8, **committing(group, topic, {0: 5}))
    name = wire.topic_id(topic) if version >= 10 else topic
    asked = [{"name": name, "topic_id": name, "partition_indexes": [0]}]
    answer = wire.group_request(
        "offset_fetch",
        version,
        groups=[{"group_id": group, "topics": asked}, {"group_id": "other", "topics": asked}],
    )
    assert [
        (one.group_id, one.topics[0].partitions[0].committed_offset) for one in answer.groups
    ] == [(group, 5), ("other", -1)]


def test_members_commit_for_their_generation_only(wire: GroupWire, group: str, topic: str):
    def commit(**claims: Any) -> ErrorCode:
        answer = wire.group_request(
            "offset_commit", 8, **committing(group, topic, {0: 1}, **claims)
        )
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    joined = wire.join(9, group)
    mine = {"member_id": joined.member_id}
    assert commit(**mine, generation_id_or_member_epoch=1) is ErrorCode.rebalance_in_progress
    wire.sync(5, group, joined, {})
    assert commit(**mine, generation_id_or_member_epoch=1) is ErrorCode.none
    assert commit(**mine, generation_id_or_member_epoch=2) is ErrorCode.illegal_generation
    assert commit(**mine) is ErrorCode.illegal_generation
    assert (
        commit(member_id="stranger", generation_id_or_member_epoch=1) is ErrorCode.unknown_member_id
    )
    assert commit() is ErrorCode.unknown_member_id
    assert commit(group_instance_id="nobody") is ErrorCode.unknown_member_id


def test_a_note_that_is_too_long_is_refused(wire: GroupWire, group: str, topic: str):
    request = committing(group, topic, {0: 1})
    request["topics"][0]["partitions"][0]["committed_metadata"] = "n" * 4097
    answer = wire.group_request("offset_commit", 8, **request)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.offset_metadata_too_large


def test_requests_of_a_connection_take_effect_in_the_order_they_were_sent(
    wire: GroupWire, group: str, topic: str
):
    member = wire.stable(group)
    claims = {"member_id": member.member_id, "generation_id_or_member_epoch": 1}
    committed = wire.begin("offset_commit", 8, **committing(group, topic, {0: 1}, **claims))
    left = wire.begin("leave_group", 1, group_id=group, member_id=member.member_id)
    beaten = wire.begin("heartbeat", 1, group_id=group, member_id=member.member_id, generation_id=1)
    answer = wire.receive(committed)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none
    assert wire.receive(left).error_code is ErrorCode.none
    assert wire.receive(beaten).error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_every_version(wire: GroupWire, group: str, version: int):
    member = wire.stable(group)
    answer = wire.group_request(
        "describe_groups",
        version,
        groups=[group, "no-such-group"],
        include_authorized_operations=True,
    )
    found, missing = answer.groups
    assert found.error_code is ErrorCode.none
    assert found.group_state == "Stable"
    assert (found.protocol_type, found.protocol_data) == ("consumer", "range")
    (described,) = found.members
    assert described.member_id == member.member_id
    assert (described.client_id, described.client_host) == ("wire", "/127.0.0.1")
    assert described.member_assignment == b"everything"
    if version >= 3:
        assert found.authorized_operations == ALL_OPERATIONS
    assert missing.group_state == "Dead"
    assert missing.error_code is (ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none)
    assert missing.members == ()


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(wire: GroupWire, group: str, topic: str, version: int):
    wire.stable(group)
    wire.group_request("offset_commit", 8, **committing(f"{group}-simple", topic, {0: 1}))

    def listed(**filters: list[str]) -> dict[str, Any]:
        answer = wire.group_request("list_groups", version, **filters)
        assert answer.error_code is ErrorCode.none
        return {one.group_id: one for one in answer.groups if one.group_id.startswith(group)}

    everything = listed()
    assert everything[group].protocol_type == "consumer"
    assert everything[f"{group}-simple"].protocol_type == ""
    if version >= 4:
        assert everything[group].group_state == "Stable"
        assert everything[f"{group}-simple"].group_state == "Empty"
        assert listed(states_filter=["stable"]).keys() == {group}
        assert listed(states_filter=["unheard-of"]) == {}
    if version >= 5:
        assert everything[group].group_type == "classic"
        assert listed(types_filter=["Classic"]) == everything
        assert listed(types_filter=["consumer"]) == {}


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_in_every_version(wire: GroupWire, group: str, topic: str, version: int):
    wire.stable(group)
    simple = f"{group}-simple"
    wire.group_request("offset_commit", 8, **committing(simple, topic, {0: 1}))
    answer = wire.group_request(
        "delete_groups", version, groups_names=[group, simple, "no-such-group"]
    )
    assert {one.group_id: one.error_code for one in answer.results} == {
        group: ErrorCode.non_empty_group,
        simple: ErrorCode.none,
        "no-such-group": ErrorCode.group_id_not_found,
    }


def test_offsets_in_topics_that_nobody_reads_are_deleted(
    wire: GroupWire, group: str, new_topic: TopicFactory
):
    read, unread = new_topic(), new_topic()
    metadata = b"\0\0\0\0\0\1" + len(read).to_bytes(2) + read.encode() + b"\xff\xff\xff\xff"
    for topic in (read, unread):
        wire.group_request("offset_commit", 8, **committing(group, topic, {0: 1}))
    wire.stable(group, protocols=[{"name": "range", "metadata": metadata}])

    def delete(asked_group: str, *topics: str) -> tuple[ErrorCode, dict[str, ErrorCode]]:
        answer = wire.group_request(
            "offset_delete",
            0,
            group_id=asked_group,
            topics=[{"name": one, "partitions": [{"partition_index": 0}]} for one in topics],
        )
        codes = {one.name: ErrorCode(one.partitions[0].error_code) for one in answer.topics}
        return ErrorCode(answer.error_code), codes

    assert delete(group, read, unread, "no-such-topic") == (
        ErrorCode.none,
        {
            read: ErrorCode.group_subscribed_to_topic,
            unread: ErrorCode.none,
            "no-such-topic": ErrorCode.unknown_topic_or_partition,
        },
    )
    assert delete("no-such-group", read) == (ErrorCode.group_id_not_found, {})
    assert delete("no-such-group", "no-such-topic") == (ErrorCode.group_id_not_found, {})
    assert delete("", read) == (ErrorCode.invalid_group_id, {})


def test_a_sync_must_name_the_protocol_in_its_newest_version(wire: GroupWire, group: str):
    joined = wire.join(9, group)
    request = syncing(group, joined, {joined.member_id: b"share"})
    for claim in (
        {"protocol_type": "connect"},
        {"protocol_name": "sticky"},
        {"protocol_type": None},
        {"protocol_name": None},
    ):
        answer = wire.group_request("sync_group", 5, **request | claim)
        assert answer.error_code is ErrorCode.inconsistent_group_protocol
        assert answer.assignment == b""
    assert wire.group_request("sync_group", 5, **request).error_code is ErrorCode.none
