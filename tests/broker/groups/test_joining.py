"""Joining: member ids, protocols, the leader, and what a join means in each state."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.messages import Departure, MemberProtocol
from headrace.broker.groups.classic.state import GroupState
from tests.broker.groups.refusals import refusal, refused
from tests.broker.groups.simulation import GROUP, RANGE, SESSION_MS, Simulation, let_tasks_run

BOTH = (MemberProtocol("range", b"r"), MemberProtocol("sticky", b"s"))
STICKY_FIRST = (MemberProtocol("sticky", b"s"), MemberProtocol("range", b"r"))


async def test_a_newcomer_is_given_an_id_and_must_come_back_with_it(simulation: Simulation):
    member_id = await simulation.new_id(client_id="reader")
    assert member_id.startswith("reader-")
    task = await simulation.join(member_id)
    await simulation.pass_time()
    joined = await task
    assert joined.member_id == member_id
    assert joined.generation == 1


async def test_an_old_client_joins_in_one_step(simulation: Simulation):
    task = await simulation.join(requires_member_id=False)
    await simulation.pass_time()
    assert (await task).generation == 1


async def test_the_first_to_join_leads_and_alone_learns_who_is_in_the_group(simulation: Simulation):
    leader, follower = await simulation.joined(2)
    assert leader.leader == follower.leader == leader.member_id
    assert [(each.member_id, each.metadata) for each in leader.members] == [
        (leader.member_id, b"r"),
        (follower.member_id, b"r"),
    ]
    assert follower.members == ()
    assert leader.protocol_type == "consumer"
    assert leader.protocol_name == "range"


async def test_a_member_id_that_the_group_does_not_know_is_refused(simulation: Simulation):
    assert await refusal(await simulation.join("made-up")) is ErrorCode.unknown_member_id
    await simulation.stable(1)
    assert await refusal(await simulation.join("made-up")) is ErrorCode.unknown_member_id


async def test_a_group_needs_a_name(simulation: Simulation):
    assert await refusal(await simulation.join(group_id="")) is ErrorCode.invalid_group_id


@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001])
async def test_a_session_timeout_outside_the_limits_is_refused(
    simulation: Simulation, session_timeout_ms: int
):
    task = await simulation.join(session_timeout_ms=session_timeout_ms)
    assert await refusal(task) is ErrorCode.invalid_session_timeout


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol_type": "connect"},
        {"protocols": (MemberProtocol("sticky", b""),)},
        {"protocols": ()},
    ],
)
async def test_a_member_that_shares_no_protocol_with_the_group_is_refused(
    simulation: Simulation, changes: dict[str, Any]
):
    await simulation.stable(1)
    task = await simulation.join(**changes)
    assert await refusal(task) is ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize("changes", [{"protocol_type": ""}, {"protocols": ()}])
async def test_the_first_member_must_name_a_protocol(
    simulation: Simulation, changes: dict[str, Any]
):
    task = await simulation.join(**changes)
    assert await refusal(task) is ErrorCode.inconsistent_group_protocol


async def test_a_member_without_protocols_is_refused_even_while_the_group_has_no_others(
    simulation: Simulation,
):
    (member,) = await simulation.stable(1)
    await simulation.new_id()
    simulation.groups.leave(GROUP, [Departure(member.member_id)])
    assert simulation.groups.describe(GROUP).state is GroupState.PREPARING_REBALANCE
    task = await simulation.join(protocols=())
    assert await refusal(task) is ErrorCode.inconsistent_group_protocol


async def test_an_empty_group_may_change_its_type(simulation: Simulation):
    (member,) = await simulation.stable(1)
    simulation.groups.leave(GROUP, [Departure(member.member_id)])
    (worker,) = await simulation.joined(1, protocol_type="connect")
    assert worker.protocol_type == "connect"
    assert worker.generation == 3


async def test_the_protocol_with_most_votes_among_those_that_all_support_wins(
    simulation: Simulation,
):
    preferences = [BOTH, STICKY_FIRST, STICKY_FIRST]
    ids = [await simulation.new_id(protocols=each) for each in preferences]
    tasks = [
        await simulation.join(member_id, protocols=each)
        for member_id, each in zip(ids, preferences, strict=True)
    ]
    await simulation.pass_time()
    assert {(await task).protocol_name for task in tasks} == {"sticky"}
    assert [each.metadata for each in (await tasks[0]).members] == [b"s", b"s", b"s"]


async def test_a_protocol_that_one_member_lacks_cannot_win(simulation: Simulation):
    preferences = [STICKY_FIRST, STICKY_FIRST, RANGE]
    ids = [await simulation.new_id(protocols=each) for each in preferences]
    tasks = [
        await simulation.join(member_id, protocols=each)
        for member_id, each in zip(ids, preferences, strict=True)
    ]
    await simulation.pass_time()
    assert {(await task).protocol_name for task in tasks} == {"range"}


async def test_a_newcomer_makes_a_stable_group_rebalance(simulation: Simulation):
    (member,) = await simulation.stable(1)
    newcomer = await simulation.join(await simulation.new_id())
    assert simulation.groups.describe(GROUP).state is GroupState.PREPARING_REBALANCE
    assert not newcomer.done()
    again = await simulation.join(member.member_id)
    assert (await newcomer).generation == (await again).generation == 2
    assert (await newcomer).leader == member.member_id


async def test_a_follower_that_joins_again_unchanged_learns_the_current_generation(
    simulation: Simulation,
):
    _, follower = await simulation.stable(2)
    again = await (await simulation.join(follower.member_id))
    assert again == follower
    assert simulation.groups.describe(GROUP).state is GroupState.STABLE


async def test_a_leader_that_joins_again_makes_the_group_rebalance(simulation: Simulation):
    leader, follower = await simulation.stable(2)
    again = await simulation.join(leader.member_id)
    with refused(ErrorCode.rebalance_in_progress):
        simulation.heartbeat(follower.member_id, follower.generation)
    follower_again = await simulation.join(follower.member_id)
    assert (await again).generation == (await follower_again).generation == 2
    assert (await again).leader == leader.member_id


async def test_a_member_with_new_metadata_makes_the_group_rebalance(simulation: Simulation):
    leader, follower = await simulation.stable(2)
    changed = (MemberProtocol("range", b"other topics"),)
    again = await simulation.join(follower.member_id, protocols=changed)
    assert not again.done()
    told = await (await simulation.join(leader.member_id))
    assert [each.metadata for each in told.members] == [b"r", b"other topics"]


async def test_a_lost_answer_is_repeated_while_the_group_waits_for_assignments(
    simulation: Simulation,
):
    leader, follower = await simulation.joined(2)
    assert await (await simulation.join(leader.member_id)) == leader
    assert await (await simulation.join(follower.member_id)) == follower


async def test_new_metadata_while_the_group_waits_for_assignments_starts_over(
    simulation: Simulation,
):
    leader, follower = await simulation.joined(2)
    waiting = await simulation.sync(follower.member_id, follower.generation)
    changed = (MemberProtocol("range", b"other topics"),)
    again = await simulation.join(leader.member_id, protocols=changed)
    assert await refusal(waiting) is ErrorCode.rebalance_in_progress
    follower_again = await simulation.join(follower.member_id)
    assert (await again).generation == (await follower_again).generation == 2


async def test_a_second_attempt_to_join_takes_the_place_of_the_first(simulation: Simulation):
    member_id = await simulation.new_id()
    first = await simulation.join(member_id)
    second = await simulation.join(member_id)
    assert await refusal(first) is ErrorCode.rebalance_in_progress
    await simulation.pass_time()
    assert (await second).generation == 1


async def test_an_id_that_was_handed_out_holds_a_rebalance_up_until_its_session_expires(
    simulation: Simulation,
):
    (member,) = await simulation.stable(1)
    newcomer_id = await simulation.new_id()
    again = await simulation.join(member.member_id)
    await simulation.pass_time(SESSION_MS - 1)
    assert not again.done()
    await simulation.pass_time(1)
    assert (await again).generation == 2
    assert await refusal(await simulation.join(newcomer_id)) is ErrorCode.unknown_member_id


@pytest.mark.parametrize("simulation", [{"max_group_size": 2}], indirect=True)
async def test_a_full_group_admits_nobody(simulation: Simulation):
    members = await simulation.stable(2)
    assert await refusal(await simulation.join()) is ErrorCode.group_max_size_reached
    again = [await simulation.join(member.member_id) for member in members]
    assert [(await task).generation for task in again] == [2, 2]


@pytest.mark.parametrize("simulation", [{"max_group_size": 2}], indirect=True)
async def test_a_group_that_fills_up_while_ids_are_out_turns_their_owners_away(
    simulation: Simulation,
):
    ids = [await simulation.new_id() for _ in range(3)]
    tasks = [await simulation.join(member_id) for member_id in ids]
    assert await refusal(tasks[2]) is ErrorCode.group_max_size_reached
    await simulation.pass_time()
    assert len((await tasks[0]).members) == 2


@pytest.mark.parametrize("simulation", [{"initial_rebalance_delay_ms": 3_000}], indirect=True)
async def test_a_new_group_waits_for_more_members_and_longer_when_more_come(
    simulation: Simulation,
):
    first = await simulation.join(await simulation.new_id())
    await simulation.pass_time(2_000)
    second = await simulation.join(await simulation.new_id())
    await simulation.pass_time(1_000)
    assert not first.done(), "a second member came within the first delay"
    await simulation.pass_time(3_000)
    assert len((await first).members) == 2
    assert (await second).generation == 1


@pytest.mark.parametrize("simulation", [{"initial_rebalance_delay_ms": 3_000}], indirect=True)
async def test_a_new_group_waits_no_longer_than_its_members_allow(simulation: Simulation):
    tasks = [await simulation.join(await simulation.new_id(), rebalance_timeout_ms=7_000)]
    for _ in range(3):
        await simulation.pass_time(2_500)
        tasks.append(await simulation.join(await simulation.new_id()))
    assert (await tasks[0]).generation == 1


async def test_members_of_any_protocol_type_can_form_a_group(simulation: Simulation):
    workers = await simulation.stable(
        2, protocol_type="connect", protocols=(MemberProtocol("sessioned", b"\0url"),)
    )
    assert workers[0].protocol_type == "connect"
    assert [each.metadata for each in workers[0].members] == [b"\0url", b"\0url"]


async def test_a_join_that_nobody_waits_for_any_more_still_counts_until_its_session_expires(
    simulation: Simulation,
):
    gone_id, stays_id = await simulation.new_id(), await simulation.new_id()
    gone, stays = await simulation.join(gone_id), await simulation.join(stays_id)
    gone.cancel()
    await simulation.pass_time()
    first = await stays
    assert first.leader == gone_id
    synced = await simulation.sync(stays_id, 1)
    await simulation.pass_time(SESSION_MS)
    assert await refusal(synced) is ErrorCode.rebalance_in_progress
    again = await (await simulation.join(stays_id))
    assert again.leader == stays_id
    assert again.generation == 2


async def test_a_newcomer_that_waits_for_too_long_is_dropped(simulation: Simulation):
    (member,) = await simulation.stable(1, rebalance_timeout_ms=1_000_000)
    newcomer = await simulation.join(await simulation.new_id())
    for _ in range(300_000 // 5_000):
        assert not newcomer.done()
        await simulation.pass_time(5_000)
        with refused(ErrorCode.rebalance_in_progress):
            simulation.heartbeat(member.member_id, member.generation)
    assert await refusal(newcomer) is ErrorCode.unknown_member_id


async def test_a_newcomer_that_goes_away_while_it_joins_is_not_waited_for(simulation: Simulation):
    (member,) = await simulation.stable(1)
    newcomer = await simulation.new_id()
    joining = await simulation.join(newcomer)
    joining.cancel()
    rejoined = await simulation.join(member.member_id, protocols=RANGE)
    await simulation.pass_time()
    answer = await rejoined
    assert [each.member_id for each in answer.members] == [member.member_id]


async def test_the_only_newcomer_of_a_group_that_goes_away_leaves_it_empty(simulation: Simulation):
    joining = await simulation.join(await simulation.new_id())
    joining.cancel()
    await let_tasks_run()
    await simulation.pass_time()
    assert simulation.groups.describe(GROUP).state is GroupState.EMPTY


async def test_a_member_that_loses_its_connection_while_it_joins_again_keeps_its_place(
    simulation: Simulation,
):
    first, second = await simulation.stable(2)
    rejoining = await simulation.join(first.member_id)
    rejoining.cancel()
    again = await simulation.join(first.member_id)
    other = await simulation.join(second.member_id)
    await simulation.pass_time()
    assert (await again).generation == (await other).generation == first.generation + 1
