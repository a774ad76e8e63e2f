"""Looking at groups from outside, deleting them, and stopping the coordinator."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.messages import Departure
from headrace.broker.groups.classic.state import GroupState
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.entries import Committed, TopicPartition
from headrace.broker.groups.messages import Committer
from headrace.broker.groups.settings import GroupSettings
from tests.broker.groups.refusals import refusal, refused
from tests.broker.groups.simulation import GROUP, START_MS, Simulation

ORDERS = {TopicPartition("orders", 0): Committed(1, -1, "", START_MS)}


async def test_a_stable_group_is_described_with_what_its_members_agreed_on(
    simulation: Simulation,
):
    leader, follower = await simulation.stable(2)
    description = simulation.groups.describe(GROUP)
    assert description.state is GroupState.STABLE
    assert description.protocol_type == "consumer"
    assert description.protocol_name == "range"
    first, second = description.members
    assert first.member_id == leader.member_id
    assert first.client_id == "client"
    assert first.client_host == "/127.0.0.1"
    assert first.metadata == b"r"
    assert second.assignment == follower.member_id.encode()


async def test_a_rebalancing_group_is_described_without_metadata(simulation: Simulation):
    leader, _ = await simulation.stable(2)
    await simulation.join(leader.member_id)
    description = simulation.groups.describe(GROUP)
    assert description.state is GroupState.PREPARING_REBALANCE
    assert description.protocol_name == ""
    assert {member.metadata for member in description.members} == {b""}


async def test_assignments_are_void_once_a_generation_was_interrupted(simulation: Simulation):
    (member,) = await simulation.stable(1)
    newcomer = await simulation.join(await simulation.new_id())
    await (await simulation.join(member.member_id))
    simulation.groups.leave(GROUP, [Departure((await newcomer).member_id)])
    (described,) = simulation.groups.describe(GROUP).members
    assert described.assignment == b""


async def test_a_group_that_does_not_exist_cannot_be_described(simulation: Simulation):
    with refused(ErrorCode.group_id_not_found):
        simulation.groups.describe(GROUP)


async def test_groups_are_listed_by_state_and_type_in_any_letter_case(simulation: Simulation):
    await simulation.stable(1)
    simulation.groups.commit_offsets(Committer(group_id="simple"), ORDERS)

    def listed(**filters: list[str]) -> list[str]:
        return [group.group_id for group in simulation.groups.list_groups(**filters)]

    assert listed() == [GROUP, "simple"]
    assert listed(states=["stable"]) == [GROUP]
    assert listed(states=["Stable", "EMPTY"]) == [GROUP, "simple"]
    assert listed(states=["Dead"]) == []
    assert listed(types=["Classic"]) == [GROUP, "simple"]
    assert listed(types=["consumer"]) == []


async def test_an_empty_group_is_deleted_with_its_offsets(simulation: Simulation):
    simulation.groups.commit_offsets(Committer(group_id=GROUP), ORDERS)
    simulation.groups.delete(GROUP)
    assert simulation.groups.fetch_offsets(GROUP) == {}
    assert simulation.groups.list_groups() == []
    simulation.restart()
    assert simulation.groups.list_groups() == []


async def test_a_group_with_members_cannot_be_deleted(simulation: Simulation):
    (member,) = await simulation.stable(1)
    with refused(ErrorCode.non_empty_group):
        simulation.groups.delete(GROUP)
    simulation.groups.leave(GROUP, [Departure(member.member_id)])
    simulation.groups.delete(GROUP)


async def test_a_group_that_does_not_exist_cannot_be_deleted(simulation: Simulation):
    with refused(ErrorCode.group_id_not_found):
        simulation.groups.delete(GROUP)


async def test_an_id_handed_out_by_a_deleted_group_is_unknown(simulation: Simulation):
    member_id = await simulation.new_id()
    simulation.groups.delete(GROUP)
    assert await refusal(await simulation.join(member_id)) is ErrorCode.unknown_member_id


async def test_a_restart_keeps_groups_their_type_and_their_offsets(simulation: Simulation):
    (member,) = await simulation.stable(1)
    committer = Committer(group_id=GROUP, member_id=member.member_id, generation=1)
    simulation.groups.commit_offsets(committer, ORDERS)
    simulation.restart()
    (group,) = simulation.groups.list_groups()
    assert group.group_id == GROUP
    assert group.state is GroupState.EMPTY
    assert group.protocol_type == "consumer"
    assert simulation.groups.fetch_offsets(GROUP) == ORDERS


async def test_a_shutdown_sends_everybody_who_waits_away(simulation: Simulation):
    leader, follower = await simulation.joined(2)
    syncing = await simulation.sync(follower.member_id, leader.generation)
    joining = await simulation.join(await simulation.new_id(group_id="other"), group_id="other")
    simulation.groups.close()
    assert await refusal(syncing) is ErrorCode.not_coordinator
    assert await refusal(joining) is ErrorCode.not_coordinator


async def test_after_a_shutdown_every_request_is_told_to_look_elsewhere(simulation: Simulation):
    (member,) = await simulation.stable(1)
    simulation.groups.close()
    assert await refusal(await simulation.join()) is ErrorCode.coordinator_not_available
    with refused(ErrorCode.coordinator_not_available):
        simulation.heartbeat(member.member_id, member.generation)
    with refused(ErrorCode.coordinator_not_available):
        simulation.groups.fetch_offsets(GROUP)
    with refused(ErrorCode.coordinator_not_available):
        simulation.groups.commit_offsets(Committer(group_id=GROUP), ORDERS)
    with refused(ErrorCode.coordinator_not_available):
        simulation.groups.list_groups()


async def test_nothing_happens_after_a_shutdown(simulation: Simulation):
    await simulation.stable(2)
    await simulation.new_id()
    simulation.groups.start()
    simulation.groups.close()
    written = simulation.journal.entry_count
    await simulation.pass_time(10**9)
    assert simulation.journal.entry_count == written


async def test_a_client_that_is_cut_off_during_a_shutdown_leaves_no_complaint(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
):
    joining = await simulation.join(await simulation.new_id())
    simulation.groups.close()
    joining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await joining
    del joining
    assert caplog.records == []


async def test_an_event_loop_can_be_the_timers(simulation: Simulation):
    groups = GroupCoordinator(
        clock=simulation.clock,
        timers=asyncio.get_running_loop(),
        offsets=simulation.offsets,
        settings=GroupSettings(),
        topics=simulation.topics,
    )
    groups.start()
    simulation.groups = groups
    (member,) = await asyncio.wait_for(simulation.stable(1), 5)
    assert member.generation == 1
    groups.close()
