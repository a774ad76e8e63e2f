"""Who may commit and delete offsets, and what a full disk does to them."""

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.messages import MemberProtocol
from headrace.broker.groups.entries import Committed, TopicPartition
from headrace.broker.groups.messages import Committer
from headrace.log.errors import StorageFull
from tests.broker.groups.refusals import refused
from tests.broker.groups.simulation import (
    GROUP,
    SESSION_MS,
    START_MS,
    Simulation,
    subscription,
)

ORDERS = TopicPartition("orders", 0)
CLICKS = TopicPartition("clicks", 3)
AT_42 = Committed(42, 7, "note", START_MS)


def commit(simulation: Simulation, committed: Committed = AT_42, **claims: object) -> ErrorCode:
    """Commit one offset on behalf of whoever the claims say."""
    committer = Committer(**{"group_id": GROUP, **claims})  # type: ignore[arg-type]
    return simulation.groups.commit_offsets(committer, {ORDERS: committed})[ORDERS]


async def test_a_member_commits_for_its_generation(simulation: Simulation):
    (member,) = await simulation.stable(1)
    code = commit(simulation, member_id=member.member_id, generation=member.generation)
    assert code is ErrorCode.none
    assert simulation.groups.fetch_offsets(GROUP) == {ORDERS: AT_42}


async def test_a_commit_shows_that_the_member_lives(simulation: Simulation):
    (member,) = await simulation.stable(1)
    for _ in range(3):
        await simulation.pass_time(SESSION_MS - 1)
        commit(simulation, member_id=member.member_id, generation=member.generation)
    simulation.heartbeat(member.member_id, member.generation)


async def test_a_commit_for_another_generation_is_refused(simulation: Simulation):
    (member,) = await simulation.stable(1)
    for generation in (0, 2, -1):
        with refused(ErrorCode.illegal_generation):
            commit(simulation, member_id=member.member_id, generation=generation)


async def test_a_commit_by_a_stranger_is_refused(simulation: Simulation):
    await simulation.stable(1)
    with refused(ErrorCode.unknown_member_id):
        commit(simulation, member_id="stranger", generation=1)
    with refused(ErrorCode.unknown_member_id):
        commit(simulation, instance_id="host-1", generation=1)


async def test_a_commit_by_a_fenced_process_is_refused(simulation: Simulation):
    first = await simulation.join(instance_id="host-1")
    await simulation.pass_time()
    await simulation.synced([await first])
    await simulation.join(instance_id="host-1")
    with refused(ErrorCode.fenced_instance_id):
        commit(simulation, member_id=(await first).member_id, instance_id="host-1", generation=1)


async def test_a_member_may_commit_what_it_did_while_the_next_generation_is_prepared(
    simulation: Simulation,
):
    (member,) = await simulation.stable(1)
    await simulation.join(await simulation.new_id())
    code = commit(simulation, member_id=member.member_id, generation=member.generation)
    assert code is ErrorCode.none


async def test_nobody_commits_for_a_generation_without_assignments(simulation: Simulation):
    (member,) = await simulation.joined(1)
    with refused(ErrorCode.rebalance_in_progress):
        commit(simulation, member_id=member.member_id, generation=member.generation)


async def test_a_consumer_without_membership_commits_and_so_makes_the_group(
    simulation: Simulation,
):
    assert commit(simulation) is ErrorCode.none
    description = simulation.groups.describe(GROUP)
    assert description.state == "Empty"
    assert description.protocol_type == ""


async def test_a_consumer_without_membership_may_not_interfere_with_members(
    simulation: Simulation,
):
    await simulation.stable(1)
    with refused(ErrorCode.unknown_member_id):
        commit(simulation)


async def test_a_member_of_a_group_that_does_not_exist_cannot_commit(simulation: Simulation):
    with refused(ErrorCode.group_id_not_found):
        commit(simulation, member_id="stranger", generation=1)
    assert simulation.groups.list_groups() == []


async def test_a_note_that_is_too_long_is_refused_for_its_partition_alone(simulation: Simulation):
    longest = Committed(1, -1, "n" * 4_096, START_MS)
    too_long = Committed(1, -1, "n" * 4_097, START_MS)
    codes = simulation.groups.commit_offsets(
        Committer(group_id=GROUP), {ORDERS: too_long, CLICKS: longest}
    )
    assert codes == {ORDERS: ErrorCode.offset_metadata_too_large, CLICKS: ErrorCode.none}
    assert simulation.groups.fetch_offsets(GROUP) == {CLICKS: longest}


async def test_a_group_that_does_not_exist_has_no_offsets(simulation: Simulation):
    assert simulation.groups.fetch_offsets("unheard-of") == {}


async def test_a_commit_that_the_disk_refuses_has_not_happened(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
):
    commit(simulation)

    def full(payload: bytes) -> None:
        raise StorageFull("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(simulation.journal, "append", full)
        with refused(ErrorCode.coordinator_not_available):
            commit(simulation, Committed(43, -1, "", START_MS))
    assert simulation.groups.fetch_offsets(GROUP) == {ORDERS: AT_42}
    assert commit(simulation, Committed(44, -1, "", START_MS)) is ErrorCode.none


async def test_a_group_goes_on_without_a_disk_to_remember_it(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
):
    def full(payload: bytes) -> None:
        raise StorageFull("no space left")

    monkeypatch.setattr(simulation.journal, "append", full)
    (member,) = await simulation.stable(1)
    simulation.heartbeat(member.member_id, member.generation)


async def test_offsets_in_topics_that_nobody_reads_can_be_deleted(simulation: Simulation):
    commit(simulation)
    simulation.groups.commit_offsets(Committer(group_id=GROUP), {CLICKS: AT_42})
    await simulation.stable(1, protocols=subscription("clicks"))
    codes = simulation.groups.delete_offsets(GROUP, [ORDERS, CLICKS])
    assert codes == {ORDERS: ErrorCode.none, CLICKS: ErrorCode.group_subscribed_to_topic}
    assert simulation.groups.fetch_offsets(GROUP) == {CLICKS: AT_42}


async def test_every_offset_of_an_empty_group_can_be_deleted(simulation: Simulation):
    commit(simulation)
    codes = simulation.groups.delete_offsets(GROUP, [ORDERS, CLICKS])
    assert codes == {ORDERS: ErrorCode.none, CLICKS: ErrorCode.none}
    assert simulation.groups.fetch_offsets(GROUP) == {}


async def test_subscriptions_that_cannot_be_read_protect_every_topic(simulation: Simulation):
    commit(simulation)
    await simulation.stable(1, protocols=(MemberProtocol("range", b"gibberish"),))
    codes = simulation.groups.delete_offsets(GROUP, [ORDERS])
    assert codes == {ORDERS: ErrorCode.group_subscribed_to_topic}


async def test_offsets_of_other_kinds_of_groups_can_be_deleted_only_when_they_are_empty(
    simulation: Simulation,
):
    await simulation.stable(1, protocol_type="connect")
    with refused(ErrorCode.non_empty_group):
        simulation.groups.delete_offsets(GROUP, [ORDERS])


async def test_offsets_of_no_group_cannot_be_deleted(simulation: Simulation):
    with refused(ErrorCode.group_id_not_found):
        simulation.groups.delete_offsets(GROUP, [ORDERS])
    with refused(ErrorCode.invalid_group_id):
        simulation.groups.delete_offsets("", [ORDERS])


async def test_a_deleted_topic_takes_its_offsets_along(simulation: Simulation):
    commit(simulation)
    simulation.groups.commit_offsets(Committer(group_id="other"), {ORDERS: AT_42, CLICKS: AT_42})
    simulation.groups.forget_topic("orders")
    assert simulation.groups.fetch_offsets(GROUP) == {}
    assert simulation.groups.fetch_offsets("other") == {CLICKS: AT_42}
