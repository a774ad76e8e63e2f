"""Static members (KIP-345): a process with a lasting name may restart without a rebalance."""

from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.messages import Departure, Joined, MemberProtocol
from headrace.broker.groups.classic.state import GroupState
from tests.broker.groups.refusals import refusal, refused
from tests.broker.groups.simulation import GROUP, REBALANCE_MS, SESSION_MS, Simulation


async def static_group(simulation: Simulation, *instances: str) -> list[Joined]:
    """A stable group of static members; the leader first."""
    tasks = [await simulation.join(instance_id=instance) for instance in instances]
    await simulation.pass_time()
    members = [await task for task in tasks]
    await simulation.synced(members)
    return members


async def test_a_static_member_joins_in_one_step(simulation: Simulation):
    (member,) = await static_group(simulation, "host-1")
    assert member.member_id.startswith("host-1-")
    assert member.members[0].instance_id == "host-1"


async def test_a_restarted_follower_takes_over_its_place_without_a_rebalance(
    simulation: Simulation,
):
    leader, follower = await static_group(simulation, "host-1", "host-2")
    restarted = await (await simulation.join(instance_id="host-2"))
    assert restarted.member_id != follower.member_id
    assert restarted.generation == follower.generation
    assert restarted.leader == leader.member_id
    assert restarted.members == ()
    assert not restarted.skip_assignment
    simulation.heartbeat(leader.member_id, leader.generation)
    synced = await (await simulation.sync(restarted.member_id, restarted.generation))
    assert synced.assignment == follower.member_id.encode()
    assert simulation.groups.describe(GROUP).state is GroupState.STABLE


async def test_a_restarted_leader_is_told_to_skip_the_assignment(simulation: Simulation):
    _, follower = await static_group(simulation, "host-1", "host-2")
    restarted = await (await simulation.join(instance_id="host-1"))
    assert restarted.leader == restarted.member_id
    assert restarted.skip_assignment
    assert {each.member_id for each in restarted.members} == {
        restarted.member_id,
        follower.member_id,
    }


async def test_a_restarted_leader_with_an_older_client_is_not_told_that_it_leads(
    simulation: Simulation,
):
    leader, _ = await static_group(simulation, "host-1", "host-2")
    restarted = await (await simulation.join(instance_id="host-1", may_skip_assignment=False))
    assert restarted.leader == leader.member_id
    assert restarted.members == ()
    assert not restarted.skip_assignment
    synced = await (await simulation.sync(restarted.member_id, restarted.generation))
    assert synced.assignment == leader.member_id.encode()


async def test_the_process_that_was_replaced_is_fenced(simulation: Simulation):
    (member,) = await static_group(simulation, "host-1")
    await simulation.join(instance_id="host-1")
    with refused(ErrorCode.fenced_instance_id):
        simulation.heartbeat(member.member_id, member.generation, "host-1")
    with refused(ErrorCode.unknown_member_id):
        simulation.heartbeat(member.member_id, member.generation)
    rejoin = await simulation.join(member.member_id, instance_id="host-1")
    assert await refusal(rejoin) is ErrorCode.fenced_instance_id
    sync = await simulation.sync(member.member_id, member.generation, instance_id="host-1")
    assert await refusal(sync) is ErrorCode.fenced_instance_id
    (left,) = simulation.groups.leave(GROUP, [Departure(member.member_id, "host-1")])
    assert left.code is ErrorCode.fenced_instance_id


async def test_a_name_that_nobody_has_is_unknown(simulation: Simulation):
    (member,) = await static_group(simulation, "host-1")
    with refused(ErrorCode.unknown_member_id):
        simulation.heartbeat(member.member_id, member.generation, "host-9")
    rejoin = await simulation.join("made-up", instance_id="host-9")
    assert await refusal(rejoin) is ErrorCode.unknown_member_id


async def test_a_restart_that_changes_the_chosen_protocol_rebalances(simulation: Simulation):
    both = (MemberProtocol("range", b""), MemberProtocol("sticky", b""))
    task = await simulation.join(instance_id="host-1", protocols=both)
    await simulation.pass_time()
    member = await task
    await simulation.synced([member])
    restarted = await (await simulation.join(instance_id="host-1", protocols=both[::-1]))
    assert restarted.generation == member.generation + 1
    assert restarted.protocol_name == "sticky"


async def test_a_restart_while_the_group_waits_for_assignments_rebalances(simulation: Simulation):
    tasks = [await simulation.join(instance_id=name) for name in ("host-1", "host-2")]
    await simulation.pass_time()
    leader, follower = [await task for task in tasks]
    waiting = await simulation.sync(follower.member_id, follower.generation)
    restarted = await simulation.join(instance_id="host-2")
    assert await refusal(waiting) is ErrorCode.fenced_instance_id
    leader_again = await simulation.join(leader.member_id, instance_id="host-1")
    assert (await restarted).generation == (await leader_again).generation == 2


async def test_a_restart_while_the_old_process_waits_to_join_fences_it(simulation: Simulation):
    (dynamic,) = await simulation.stable(1)
    first = await simulation.join(instance_id="host-1")
    second = await simulation.join(instance_id="host-1")
    assert await refusal(first) is ErrorCode.fenced_instance_id
    again = await simulation.join(dynamic.member_id)
    assert (await second).generation == (await again).generation == 2
    assert len((await again).members) == 2


async def test_a_static_member_that_misses_a_rebalance_keeps_its_place_while_its_session_lasts(
    simulation: Simulation,
):
    leader, slow = await static_group(simulation, "host-1", "host-2")
    again = await simulation.join(leader.member_id, instance_id="host-1")
    for _ in range(REBALANCE_MS // 5_000):
        with refused(ErrorCode.rebalance_in_progress):
            simulation.heartbeat(slow.member_id, slow.generation, "host-2")
        await simulation.pass_time(5_000)
    joined = await again
    assert {each.instance_id for each in joined.members} == {"host-1", "host-2"}


async def test_a_group_whose_members_are_all_absent_waits_for_them(simulation: Simulation):
    leader, _ = await static_group(simulation, "host-1", "host-2")
    gone = await simulation.join(instance_id="host-3", rebalance_timeout_ms=1_000)
    simulation.groups.leave(GROUP, [Departure("", "host-3")])
    assert await refusal(gone) is ErrorCode.unknown_member_id
    await simulation.pass_time(SESSION_MS - 1)
    description = simulation.groups.describe(GROUP)
    assert description.state is GroupState.PREPARING_REBALANCE
    assert len(description.members) == 2
    await simulation.pass_time(1)
    assert simulation.groups.describe(GROUP).state is GroupState.EMPTY
    assert leader.generation == 1


async def test_an_administrator_removes_a_static_member_by_its_name(simulation: Simulation):
    leader, _ = await static_group(simulation, "host-1", "host-2")
    (left,) = simulation.groups.leave(GROUP, [Departure("", "host-2")])
    assert left.code is ErrorCode.none
    with refused(ErrorCode.rebalance_in_progress):
        simulation.heartbeat(leader.member_id, leader.generation, "host-1")


async def test_a_restarted_process_must_also_fetch_its_share_in_time(simulation: Simulation):
    tasks = [await simulation.join(instance_id=name) for name in ("host-1", "host-2")]
    await simulation.pass_time()
    leader, follower = [await task for task in tasks]
    await (await simulation.sync(leader.member_id, 1, {follower.member_id: b"share"}))
    restarted = await (await simulation.join(instance_id="host-2"))
    for _ in range(REBALANCE_MS // 5_000):
        for member in (leader, restarted):
            simulation.heartbeat(member.member_id, 1)
        await simulation.pass_time(5_000)
    assert [each.instance_id for each in simulation.groups.describe(GROUP).members] == ["host-1"]


async def test_a_static_member_that_does_not_come_back_is_dropped(simulation: Simulation):
    leader, _ = await static_group(simulation, "host-1", "host-2")
    await simulation.pass_time(SESSION_MS - 1)
    simulation.heartbeat(leader.member_id, leader.generation, "host-1")
    await simulation.pass_time(1)
    assert [each.instance_id for each in simulation.groups.describe(GROUP).members] == ["host-1"]


async def test_a_rebalance_that_nobody_came_to_is_tried_again(simulation: Simulation):
    leader, slow = await static_group(simulation, "host-1", "host-2")
    visitor = await simulation.join(await simulation.new_id())
    visitor.cancel()
    simulation.groups.leave(GROUP, [Departure(dynamic_member(simulation))])

    async def only_heartbeats(milliseconds: int, *members: Joined) -> None:
        for _ in range(milliseconds // 5_000):
            for member in members:
                with refused(ErrorCode.rebalance_in_progress):
                    simulation.heartbeat(member.member_id, member.generation)
            await simulation.pass_time(5_000)

    await only_heartbeats(REBALANCE_MS, leader, slow)
    late = await simulation.join(leader.member_id, instance_id="host-1")
    assert not late.done()
    await only_heartbeats(REBALANCE_MS, slow)
    assert (await late).generation == 2


def dynamic_member(simulation: Simulation) -> str:
    """The id of the only member that is not static."""
    members = simulation.groups.describe(GROUP).members
    return next(member.member_id for member in members if member.instance_id is None)
