"""The conversation between a member and its coordinator, answer by answer."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from kio.schema.errors import ErrorCode

from tests.clients.librdkafka import eventually
from tests.clients.raw_members import RawMember, await_coordinator
from tests.clients.wire import Wire
from tests.clusters import Cluster

Enrol = Callable[..., RawMember]


@pytest.fixture
def enrol(cluster: Cluster, group: str) -> Iterator[Enrol]:
    """Makes members of the group, each with a connection of its own."""
    with ExitStack() as connections:

        def make(instance: str | None = None) -> RawMember:
            member = RawMember.connect(cluster, group, instance)
            connections.callback(member.wire.close)
            return member

        yield make


@pytest.fixture
def stable(enrol: Enrol) -> RawMember:
    """The only member of a stable group."""
    member = enrol()
    member.join_fully()
    assert member.sync({member.member_id: b"everything"}).assignment == b"everything"
    return member


def test_a_member_gets_its_id_before_it_may_join(enrol: Enrol):
    member = enrol()
    first = member.join()
    assert first.error_code is ErrorCode.member_id_required
    assert first.member_id.startswith("wire-")
    second = member.join()
    assert (second.error_code, second.generation_id) == (ErrorCode.none, 1)
    assert second.member_id == first.member_id == second.leader
    assert [one.member_id for one in second.members] == [first.member_id]
    assert [one.metadata for one in second.members] == [b"metadata"]


def test_the_coordinator_chooses_a_protocol_that_all_members_know(enrol: Enrol):
    one, other = enrol(), enrol()
    assert one.join_fully(protocols=("cooperative", "range")).protocol_name == "cooperative"
    one.sync({one.member_id: b""})
    assert other.join(protocols=("range", "other")).error_code is ErrorCode.member_id_required
    joining = other.send_join(protocols=("range", "other"))
    eventually(lambda: one.heartbeat() is ErrorCode.rebalance_in_progress)
    answer = one.join(protocols=("cooperative", "range"))
    assert answer.protocol_name == other.receive_join(joining).protocol_name == "range"


def test_a_rebalance_makes_a_new_generation_that_everybody_joins(enrol: Enrol, stable: RawMember):
    newcomer = enrol()
    newcomer.join()
    joining = newcomer.send_join()
    eventually(lambda: stable.heartbeat() is ErrorCode.rebalance_in_progress)
    leading = stable.join()
    following = newcomer.receive_join(joining)
    assert leading.generation_id == following.generation_id == 2
    assert leading.leader == following.leader == stable.member_id
    assert {one.member_id for one in leading.members} == {stable.member_id, newcomer.member_id}
    assert following.members == ()
    waiting = newcomer.wire.send(
        "sync_group",
        3,
        group_id=newcomer.group,
        generation_id=2,
        member_id=newcomer.member_id,
        group_instance_id=None,
        assignments=[],
    )
    shares = {stable.member_id: b"mine", newcomer.member_id: b"yours"}
    assert stable.sync(shares).assignment == b"mine"
    assert newcomer.wire.receive(waiting).assignment == b"yours"
    assert stable.heartbeat() is newcomer.heartbeat() is ErrorCode.none


def test_an_assignment_can_be_asked_for_again(stable: RawMember):
    assert stable.sync().assignment == b"everything"


def test_a_member_that_leaves_starts_a_rebalance_for_the_rest(enrol: Enrol, stable: RawMember):
    newcomer = enrol()
    newcomer.join()
    joining = newcomer.send_join()
    eventually(lambda: stable.heartbeat() is ErrorCode.rebalance_in_progress)
    stable.join()
    newcomer.receive_join(joining)
    stable.sync({stable.member_id: b"", newcomer.member_id: b""})
    left = newcomer.leave()
    assert (left.error_code, left.members[0].error_code) == (ErrorCode.none, ErrorCode.none)
    eventually(lambda: stable.heartbeat() is ErrorCode.rebalance_in_progress)
    assert [one.member_id for one in stable.join().members] == [stable.member_id]


def test_strangers_and_the_outdated_are_told_apart(stable: RawMember, topic: str):
    stranger = RawMember(stable.wire, stable.group, None, "nobody", stable.generation)
    outdated = RawMember(stable.wire, stable.group, None, stable.member_id, stable.generation + 7)
    outsider = RawMember(stable.wire, stable.group)
    assert stranger.heartbeat() is ErrorCode.unknown_member_id
    assert stranger.sync().error_code is ErrorCode.unknown_member_id
    assert stranger.commit(topic, 5) is ErrorCode.unknown_member_id
    assert stranger.join().error_code is ErrorCode.unknown_member_id
    assert stranger.leave().members[0].error_code is ErrorCode.unknown_member_id
    assert outdated.heartbeat() is ErrorCode.illegal_generation
    assert outdated.sync().error_code is ErrorCode.illegal_generation
    assert outdated.commit(topic, 5) is ErrorCode.illegal_generation
    assert outsider.commit(topic, 5) is ErrorCode.unknown_member_id
    assert stable.heartbeat() is ErrorCode.none
    assert stable.commit(topic, 5) is ErrorCode.none


def test_a_group_without_members_takes_commits_from_anybody(
    cluster: Cluster, group: str, topic: str
):
    with Wire(cluster) as wire:
        await_coordinator(wire, group)
        assert RawMember(wire, group).commit(topic, 5) is ErrorCode.none
        found = wire.ask(
            "offset_fetch", 5, group_id=group, topics=[{"name": topic, "partition_indexes": [0, 1]}]
        )
    offsets = {one.partition_index: one.committed_offset for one in found.topics[0].partitions}
    assert offsets == {0: 5, 1: -1}
    assert {one.error_code for one in found.topics[0].partitions} == {ErrorCode.none}


def test_a_group_that_is_not_there_knows_nobody(cluster: Cluster, group: str):
    with Wire(cluster) as wire:
        await_coordinator(wire, group)
        nobody = RawMember(wire, group, None, "nobody", 1)
        assert nobody.heartbeat() is ErrorCode.unknown_member_id
        assert nobody.sync().error_code is ErrorCode.unknown_member_id
        assert nobody.leave().members[0].error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize("seconds", [5.9, 1_801])
def test_a_session_that_is_too_short_or_too_long_is_refused(enrol: Enrol, seconds: float):
    answer = enrol().join(session_seconds=seconds)
    assert answer.error_code is ErrorCode.invalid_session_timeout


def test_members_must_have_a_protocol_in_common(enrol: Enrol, stable: RawMember):
    assert enrol().join(protocols=("other",)).error_code is ErrorCode.inconsistent_group_protocol
    assert enrol().join(protocol_type="connect").error_code is (
        ErrorCode.inconsistent_group_protocol
    )
    assert enrol().join(protocols=()).error_code is ErrorCode.inconsistent_group_protocol


def test_other_kinds_of_groups_are_served_too(enrol: Enrol, group: str, cluster: Cluster):
    worker = enrol()
    worker.join_fully(protocol_type="connect", protocols=("sessioned",), metadata=b"\x00\x01")
    worker.sync({worker.member_id: b"\xff"})
    with Wire(cluster) as wire:
        (found,) = wire.ask("describe_groups", 0, groups=[group]).groups
    assert (found.protocol_type, found.protocol_data) == ("connect", "sessioned")
    assert found.members[0].member_metadata == b"\x00\x01"
    assert found.members[0].member_assignment == b"\xff"


def test_a_group_needs_a_name(cluster: Cluster, group: str):
    with Wire(cluster) as wire:
        await_coordinator(wire, group)
        nameless = RawMember(wire, "")
        assert nameless.join().error_code is ErrorCode.invalid_group_id
        assert nameless.heartbeat() is ErrorCode.invalid_group_id


def test_a_static_member_that_rejoins_keeps_its_place_and_fences_its_former_self(
    enrol: Enrol, topic: str
):
    former, present = enrol("named"), enrol("named")
    first = former.join()
    assert (first.error_code, first.generation_id) == (ErrorCode.none, 1)
    former.sync({former.member_id: b"share"})
    second = present.join()
    assert (second.error_code, second.generation_id) == (ErrorCode.none, 1)
    assert second.member_id != first.member_id
    assert present.sync().assignment == b"share"
    assert former.heartbeat() is ErrorCode.fenced_instance_id
    assert former.commit(topic, 5) is ErrorCode.fenced_instance_id
    assert former.sync().error_code is ErrorCode.fenced_instance_id
    assert former.join().error_code is ErrorCode.fenced_instance_id
    assert former.leave().members[0].error_code is ErrorCode.fenced_instance_id
    assert present.heartbeat() is ErrorCode.none


def test_while_a_generation_waits_for_its_leader_members_are_told_to_wait(enrol: Enrol, topic: str):
    member = enrol()
    member.join_fully()
    assert member.heartbeat() is ErrorCode.none
    assert member.commit(topic, 5) is ErrorCode.rebalance_in_progress
    member.sync({member.member_id: b""})
    assert member.commit(topic, 5) is ErrorCode.none


def test_members_that_join_all_at_once_are_never_forgotten(cluster: Cluster, group: str):
    everybody_joined = threading.Event()
    settled: set[str] = set()
    expected = {ErrorCode.none, ErrorCode.rebalance_in_progress}

    def take_part(_: int) -> None:
        member = RawMember.connect(cluster, group)
        try:
            while not everybody_joined.is_set():
                leading = member.join_fully()
                shares = {one.member_id: b"share" for one in leading.members}
                answer = member.sync(shares)
                assert answer.error_code in expected
                while answer.error_code is ErrorCode.none:
                    if (code := member.heartbeat()) is not ErrorCode.none:
                        assert code in expected
                        break
                    settled.add(member.member_id)
                    if len(leading.members) == 8 or everybody_joined.wait(0.02):
                        everybody_joined.set()
                        break
        finally:
            member.wire.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(take_part, range(8)))
    assert len(settled) == 8


def test_describing_what_is_not_there(cluster: Cluster, group: str):
    with Wire(cluster) as wire:
        await_coordinator(wire, group)
        (older,) = wire.ask(
            "describe_groups", 5, groups=[group], include_authorized_operations=False
        ).groups
        (newer,) = wire.ask(
            "describe_groups", 6, groups=[group], include_authorized_operations=False
        ).groups
    assert (older.error_code, older.group_state) == (ErrorCode.none, "Dead")
    assert (newer.error_code, newer.group_state) == (ErrorCode.group_id_not_found, "Dead")


def test_the_coordinators_of_many_groups_are_found_at_once(cluster: Cluster, group: str):
    names = [f"{group}-{letter}" for letter in "abc"]
    with Wire(cluster) as wire:
        await_coordinator(wire, group)
        found = wire.ask("find_coordinator", 4, key_type=0, coordinator_keys=names)
    assert [one.key for one in found.coordinators] == names
    assert {(one.host, one.port) for one in found.coordinators} == {(cluster.host, cluster.port)}
    assert {one.error_code for one in found.coordinators} == {ErrorCode.none}
