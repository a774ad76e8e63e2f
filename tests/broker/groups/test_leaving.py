"""Leaving: one member or many, and what that means for those who stay."""

from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.messages import Departure
from headrace.broker.groups.classic.state import GroupState
from tests.broker.groups.refusals import refusal, refused
from tests.broker.groups.simulation import GROUP, Simulation


async def test_the_others_take_over_at_once_when_a_member_leaves(simulation: Simulation):
    leader, follower = await simulation.stable(2)
    (left,) = simulation.groups.leave(GROUP, [Departure(follower.member_id)])
    assert left.code is ErrorCode.none
    with refused(ErrorCode.rebalance_in_progress):
        simulation.heartbeat(leader.member_id, leader.generation)
    again = await (await simulation.join(leader.member_id))
    assert [each.member_id for each in again.members] == [leader.member_id]


async def test_a_group_that_everybody_left_is_empty_at_once(simulation: Simulation):
    members = await simulation.stable(2)
    simulation.groups.leave(GROUP, [Departure(member.member_id) for member in members])
    assert simulation.groups.describe(GROUP).state is GroupState.EMPTY
    with refused(ErrorCode.unknown_member_id):
        simulation.heartbeat(members[0].member_id, members[0].generation)


async def test_each_departure_succeeds_or_fails_by_itself(simulation: Simulation):
    leader, follower, _ = await simulation.stable(3)
    left = simulation.groups.leave(
        GROUP,
        [
            Departure(leader.member_id),
            Departure("stranger"),
            Departure(leader.member_id),
            Departure("", "nobody"),
            Departure(""),
            Departure(follower.member_id),
        ],
    )
    assert [code for _, code in left] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
        ErrorCode.none,
    ]
    assert len(simulation.groups.describe(GROUP).members) == 1


async def test_nobody_leaves_a_group_that_does_not_exist(simulation: Simulation):
    (left,) = simulation.groups.leave(GROUP, [Departure("stranger")])
    assert left.code is ErrorCode.unknown_member_id
    with refused(ErrorCode.invalid_group_id):
        simulation.groups.leave("", [Departure("stranger")])


async def test_strangers_do_not_disturb_a_stable_group(simulation: Simulation):
    (member,) = await simulation.stable(1)
    simulation.groups.leave(GROUP, [Departure("stranger")])
    simulation.heartbeat(member.member_id, member.generation)


async def test_a_member_that_leaves_while_it_waits_is_told(simulation: Simulation):
    leader, follower = await simulation.stable(2)
    waiting = await simulation.join(leader.member_id)
    simulation.groups.leave(GROUP, [Departure(leader.member_id)])
    assert await refusal(waiting) is ErrorCode.unknown_member_id
    again = await (await simulation.join(follower.member_id))
    assert again.leader == follower.member_id


async def test_a_member_that_is_removed_while_it_waits_for_its_share_is_told(
    simulation: Simulation,
):
    _, follower = await simulation.joined(2)
    waiting = await simulation.sync(follower.member_id, 1)
    simulation.groups.leave(GROUP, [Departure(follower.member_id)])
    assert await refusal(waiting) is ErrorCode.unknown_member_id


async def test_the_last_one_missing_leaves_and_the_rebalance_goes_on(simulation: Simulation):
    leader, follower = await simulation.stable(2)
    again = await simulation.join(leader.member_id)
    simulation.groups.leave(GROUP, [Departure(follower.member_id)])
    assert (await again).generation == 2


async def test_an_unused_id_can_be_given_back_without_disturbing_anybody(simulation: Simulation):
    (member,) = await simulation.stable(1)
    unused = await simulation.new_id()
    (left,) = simulation.groups.leave(GROUP, [Departure(unused)])
    assert left.code is ErrorCode.none
    simulation.heartbeat(member.member_id, member.generation)
    assert await refusal(await simulation.join(unused)) is ErrorCode.unknown_member_id


async def test_an_unused_id_that_is_given_back_no_longer_holds_a_rebalance_up(
    simulation: Simulation,
):
    (member,) = await simulation.stable(1)
    unused = await simulation.new_id()
    again = await simulation.join(member.member_id)
    assert not again.done()
    simulation.groups.leave(GROUP, [Departure(unused)])
    assert (await again).generation == 2


async def test_everybody_leaving_before_the_first_generation_leaves_an_empty_group(
    simulation: Simulation,
):
    member_id = await simulation.new_id()
    waiting = await simulation.join(member_id)
    simulation.groups.leave(GROUP, [Departure(member_id)])
    assert await refusal(waiting) is ErrorCode.unknown_member_id
    await simulation.pass_time()
    assert simulation.groups.describe(GROUP).state is GroupState.EMPTY
