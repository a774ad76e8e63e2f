"""When offsets expire (KIP-211), also across restarts."""

from headrace.broker.groups.classic.messages import Departure
from headrace.broker.groups.entries import Committed, TopicPartition
from headrace.broker.groups.messages import Committer
from tests.broker.groups.simulation import GROUP, Simulation, subscription

ORDERS = TopicPartition("orders", 0)
CLICKS = TopicPartition("clicks", 0)
DAY_MS = 24 * 60 * 60 * 1000
CHECK_MS = 600_000


def commit(simulation: Simulation, expires_in_ms: int | None = None, **claims: object) -> None:
    """Commit an offset in two topics."""
    now_ms = simulation.clock.now_ms()
    expires_at_ms = None if expires_in_ms is None else now_ms + expires_in_ms
    committed = Committed(42, -1, "", now_ms, expires_at_ms)
    committer = Committer(**{"group_id": GROUP, **claims})  # type: ignore[arg-type]
    simulation.groups.commit_offsets(committer, {ORDERS: committed, CLICKS: committed})


def exists(simulation: Simulation) -> bool:
    return any(group.group_id == GROUP for group in simulation.groups.list_groups())


async def test_offsets_without_members_expire_a_week_after_their_commit(simulation: Simulation):
    simulation.groups.start()
    commit(simulation)
    await simulation.pass_time(7 * DAY_MS - CHECK_MS)
    assert len(simulation.groups.fetch_offsets(GROUP)) == 2
    await simulation.pass_time(CHECK_MS)
    assert simulation.groups.fetch_offsets(GROUP) == {}
    assert not exists(simulation), "nothing is left of the group"


async def test_a_new_commit_gives_an_offset_another_week(simulation: Simulation):
    simulation.groups.start()
    commit(simulation)
    await simulation.pass_time(5 * DAY_MS)
    commit(simulation)
    await simulation.pass_time(5 * DAY_MS)
    assert exists(simulation)


async def test_offsets_of_members_stay_for_as_long_as_the_members_do(simulation: Simulation):
    (member,) = await simulation.stable(1, protocols=subscription("orders", "clicks"))
    commit(simulation, member_id=member.member_id, generation=1)
    simulation.clock.advance(30 * DAY_MS / 1000)
    simulation.heartbeat(member.member_id, 1)
    simulation.groups.start()
    await simulation.pass_time(0)
    simulation.heartbeat(member.member_id, 1)
    await simulation.keep_alive(CHECK_MS, member)
    assert len(simulation.groups.fetch_offsets(GROUP)) == 2


async def test_offsets_in_topics_that_members_stopped_reading_expire(simulation: Simulation):
    (member,) = await simulation.stable(1, protocols=subscription("orders"))
    commit(simulation, member_id=member.member_id, generation=1)
    simulation.clock.advance(7 * DAY_MS / 1000)
    simulation.heartbeat(member.member_id, 1)
    simulation.groups.start()
    await simulation.keep_alive(CHECK_MS, member)
    assert simulation.groups.fetch_offsets(GROUP).keys() == {ORDERS}


async def test_offsets_of_a_group_that_became_empty_expire_a_week_later(simulation: Simulation):
    (member,) = await simulation.stable(1)
    commit(simulation, member_id=member.member_id, generation=1)
    await simulation.keep_alive(DAY_MS // 10, member)
    simulation.groups.leave(GROUP, [Departure(member.member_id)])
    simulation.groups.start()
    await simulation.pass_time(7 * DAY_MS - CHECK_MS)
    assert len(simulation.groups.fetch_offsets(GROUP)) == 2
    await simulation.pass_time(CHECK_MS)
    assert not exists(simulation)


async def test_a_restart_does_not_expire_what_members_were_still_using(simulation: Simulation):
    (member,) = await simulation.stable(1)
    commit(simulation, member_id=member.member_id, generation=1)
    simulation.clock.advance(30 * DAY_MS / 1000)
    simulation.restart()
    simulation.groups.start()
    await simulation.pass_time(6 * DAY_MS)
    assert len(simulation.groups.fetch_offsets(GROUP)) == 2, "the members may still come back"
    await simulation.pass_time(DAY_MS)
    assert not exists(simulation)


async def test_a_restart_does_not_give_an_empty_group_another_week(simulation: Simulation):
    (member,) = await simulation.stable(1)
    commit(simulation, member_id=member.member_id, generation=1)
    simulation.groups.leave(GROUP, [Departure(member.member_id)])
    simulation.clock.advance(7 * DAY_MS / 1000)
    simulation.restart()
    simulation.groups.start()
    await simulation.pass_time(CHECK_MS)
    assert not exists(simulation)


async def test_a_client_may_ask_for_a_shorter_retention(simulation: Simulation):
    simulation.groups.start()
    commit(simulation, expires_in_ms=DAY_MS)
    await simulation.pass_time(DAY_MS)
    assert not exists(simulation)


async def test_a_group_that_never_got_beyond_handing_out_an_id_is_forgotten(
    simulation: Simulation,
):
    simulation.groups.start()
    await simulation.new_id()
    assert exists(simulation)
    await simulation.pass_time(CHECK_MS)
    assert not exists(simulation)


async def test_a_group_is_not_forgotten_while_somebody_is_about_to_join_it(
    simulation: Simulation,
):
    simulation.groups.start()
    await simulation.pass_time(CHECK_MS - 1)
    member_id = await simulation.new_id()
    await simulation.pass_time(1)
    joining = await simulation.join(member_id)
    await simulation.pass_time()
    assert (await joining).generation == 1
