"""From one generation to the next: syncing, sessions, and members that do not keep up."""

from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.state import GroupState
from tests.broker.groups.refusals import refusal, refused
from tests.broker.groups.simulation import GROUP, REBALANCE_MS, SESSION_MS, Simulation


async def test_followers_that_sync_first_wait_for_the_leader(simulation: Simulation):
    leader, follower = await simulation.joined(2)
    waiting = await simulation.sync(follower.member_id, 1)
    assert not waiting.done()
    shares = {leader.member_id: b"first half", follower.member_id: b"second half"}
    led = await simulation.sync(leader.member_id, 1, shares)
    assert (await led).assignment == b"first half"
    assert (await waiting).assignment == b"second half"
    assert (await waiting).protocol_name == "range"
    assert simulation.groups.describe(GROUP).state is GroupState.STABLE


async def test_followers_that_sync_later_are_answered_at_once(simulation: Simulation):
    leader, follower = await simulation.joined(2)
    await simulation.sync(leader.member_id, 1, {follower.member_id: b"all"})
    late = await simulation.sync(follower.member_id, 1)
    assert (await late).assignment == b"all"


async def test_a_member_that_the_leader_forgot_is_assigned_nothing_but_never_null(
    simulation: Simulation,
):
    leader, follower = await simulation.joined(2)
    await simulation.sync(leader.member_id, 1, {})
    assert (await (await simulation.sync(follower.member_id, 1))).assignment == b""


async def test_assignments_of_followers_are_ignored(simulation: Simulation):
    leader, follower = await simulation.joined(2)
    waiting = await simulation.sync(follower.member_id, 1, {leader.member_id: b"usurped"})
    assert not waiting.done()


async def test_a_sync_for_another_generation_is_refused(simulation: Simulation):
    (member,) = await simulation.joined(1)
    for generation in (0, 2):
        task = await simulation.sync(member.member_id, generation)
        assert await refusal(task) is ErrorCode.illegal_generation


async def test_a_sync_for_another_protocol_is_refused(simulation: Simulation):
    (member,) = await simulation.joined(1)
    wrong_type = await simulation.sync(member.member_id, 1, protocol_type="connect")
    assert await refusal(wrong_type) is ErrorCode.inconsistent_group_protocol
    wrong_name = await simulation.sync(member.member_id, 1, protocol_name="sticky")
    assert await refusal(wrong_name) is ErrorCode.inconsistent_group_protocol
    agreed = await simulation.sync(
        member.member_id, 1, protocol_type="consumer", protocol_name="range"
    )
    assert (await agreed).assignment == b""


async def test_a_sync_during_a_rebalance_sends_the_member_back_to_join(simulation: Simulation):
    leader, follower = await simulation.stable(2)
    await simulation.join(leader.member_id)
    task = await simulation.sync(follower.member_id, follower.generation)
    assert await refusal(task) is ErrorCode.rebalance_in_progress


async def test_strangers_can_neither_sync_nor_send_heartbeats(simulation: Simulation):
    assert await refusal(await simulation.sync("stranger", 1)) is ErrorCode.unknown_member_id
    with refused(ErrorCode.unknown_member_id):
        simulation.heartbeat("stranger", 1)
    await simulation.stable(1)
    assert await refusal(await simulation.sync("stranger", 1)) is ErrorCode.unknown_member_id
    with refused(ErrorCode.unknown_member_id):
        simulation.heartbeat("stranger", 1)
    handed_out = await simulation.new_id()
    with refused(ErrorCode.unknown_member_id):
        simulation.heartbeat(handed_out, 1)


async def test_a_heartbeat_for_another_generation_is_refused(simulation: Simulation):
    (member,) = await simulation.stable(1)
    with refused(ErrorCode.illegal_generation):
        simulation.heartbeat(member.member_id, member.generation + 1)


async def test_heartbeats_count_while_the_group_waits_for_assignments(simulation: Simulation):
    leader, follower = await simulation.joined(2)
    await simulation.keep_alive(3 * SESSION_MS, leader, follower)
    assert simulation.groups.describe(GROUP).state is GroupState.COMPLETING_REBALANCE


async def test_a_member_that_falls_silent_is_removed_and_the_others_take_over(
    simulation: Simulation,
):
    leader, silent = await simulation.stable(2)
    await simulation.pass_time(SESSION_MS - 1)
    simulation.heartbeat(leader.member_id, leader.generation)
    await simulation.pass_time(1)
    with refused(ErrorCode.unknown_member_id):
        simulation.heartbeat(silent.member_id, silent.generation)
    with refused(ErrorCode.rebalance_in_progress):
        simulation.heartbeat(leader.member_id, leader.generation)
    again = await (await simulation.join(leader.member_id))
    assert [each.member_id for each in again.members] == [leader.member_id]


async def test_when_the_leader_falls_silent_the_next_member_leads(simulation: Simulation):
    _, follower = await simulation.stable(2)
    await simulation.pass_time(SESSION_MS - 1)
    simulation.heartbeat(follower.member_id, follower.generation)
    await simulation.pass_time(1)
    again = await (await simulation.join(follower.member_id))
    assert again.leader == follower.member_id


async def test_every_member_has_a_session_timeout_of_its_own(simulation: Simulation):
    (patient,) = await simulation.joined(1, session_timeout_ms=30_000)
    hasty = await simulation.join(await simulation.new_id(), session_timeout_ms=6_000)
    again = await simulation.join(patient.member_id, session_timeout_ms=30_000)
    members = [await again, await hasty]
    await simulation.synced(members)
    await simulation.pass_time(6_000)
    assert [each.member_id for each in simulation.groups.describe(GROUP).members] == [
        patient.member_id
    ]


async def test_a_member_that_does_not_join_again_in_time_is_left_behind(simulation: Simulation):
    leader, slow = await simulation.stable(2)
    again = await simulation.join(leader.member_id)
    for _ in range(REBALANCE_MS // 5_000):
        assert not again.done()
        with refused(ErrorCode.rebalance_in_progress):
            simulation.heartbeat(slow.member_id, slow.generation)
        await simulation.pass_time(5_000)
    assert (await again).generation == 2
    assert [each.member_id for each in (await again).members] == [leader.member_id]
    with refused(ErrorCode.unknown_member_id):
        simulation.heartbeat(slow.member_id, slow.generation)


async def test_when_the_leader_is_left_behind_a_member_that_joined_leads(simulation: Simulation):
    leader, follower = await simulation.stable(2)
    newcomer = await simulation.join(await simulation.new_id())
    again = await simulation.join(follower.member_id)
    for _ in range(REBALANCE_MS // 5_000):
        with refused(ErrorCode.rebalance_in_progress):
            simulation.heartbeat(leader.member_id, leader.generation)
        await simulation.pass_time(5_000)
    assert (await again).leader == (await newcomer).leader == follower.member_id


async def test_whoever_waits_to_join_needs_no_heartbeats(simulation: Simulation):
    leader, slow = await simulation.stable(2)
    again = await simulation.join(leader.member_id)
    for _ in range(4):
        await simulation.pass_time(SESSION_MS - 1)
        with refused(ErrorCode.rebalance_in_progress):
            simulation.heartbeat(slow.member_id, slow.generation)
    await simulation.join(slow.member_id)
    assert len((await again).members) == 2


async def test_whoever_waits_for_an_assignment_needs_no_heartbeats(simulation: Simulation):
    leader, follower = await simulation.joined(2)
    waiting = await simulation.sync(follower.member_id, 1)
    await simulation.keep_alive(3 * SESSION_MS, leader)
    assert not waiting.done()
    await simulation.sync(leader.member_id, 1, {follower.member_id: b"share"})
    assert (await waiting).assignment == b"share"
    await simulation.pass_time(SESSION_MS)
    assert simulation.groups.describe(GROUP).members == (), "sessions count again afterwards"


async def test_members_that_never_sync_are_removed(simulation: Simulation):
    leader, follower = await simulation.joined(2)
    waiting = await simulation.sync(follower.member_id, 1)
    for _ in range(REBALANCE_MS // 5_000):
        simulation.heartbeat(leader.member_id, 1)
        await simulation.pass_time(5_000)
    assert await refusal(waiting) is ErrorCode.rebalance_in_progress
    with refused(ErrorCode.unknown_member_id):
        simulation.heartbeat(leader.member_id, 1)
    again = await (await simulation.join(follower.member_id))
    assert again.leader == follower.member_id


async def test_a_follower_that_never_syncs_is_removed_from_a_stable_group(simulation: Simulation):
    leader, lazy = await simulation.joined(2)
    await simulation.sync(leader.member_id, 1, {})
    await simulation.keep_alive(REBALANCE_MS - 1, leader, lazy)
    assert simulation.groups.describe(GROUP).state is GroupState.STABLE
    await simulation.pass_time(1)
    assert [each.member_id for each in simulation.groups.describe(GROUP).members] == [
        leader.member_id
    ]


async def test_a_stable_group_stays_stable_as_long_as_its_members_are_heard_from(
    simulation: Simulation,
):
    members = await simulation.stable(3)
    await simulation.keep_alive(10 * REBALANCE_MS, *members)
    assert simulation.groups.describe(GROUP).state is GroupState.STABLE


async def test_a_second_attempt_to_sync_takes_the_place_of_the_first(simulation: Simulation):
    leader, follower = await simulation.joined(2)
    first = await simulation.sync(follower.member_id, 1)
    second = await simulation.sync(follower.member_id, 1)
    assert await refusal(first) is ErrorCode.rebalance_in_progress
    await simulation.sync(leader.member_id, 1, {follower.member_id: b"share"})
    assert (await second).assignment == b"share"


async def test_a_generation_is_never_used_twice_even_after_a_restart(simulation: Simulation):
    (member,) = await simulation.stable(1)
    simulation.restart()
    with refused(ErrorCode.unknown_member_id):
        simulation.heartbeat(member.member_id, member.generation)
    rejoin = await simulation.join(member.member_id)
    assert await refusal(rejoin) is ErrorCode.unknown_member_id
    (again,) = await simulation.joined(1)
    assert again.generation == member.generation + 1
