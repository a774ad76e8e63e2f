"""Static members of consumer groups: they keep their place while they are away."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.messages import Departure
from tests.broker.groups.consumers import SimulatedConsumer, described, settle
from tests.broker.groups.refusals import refused
from tests.broker.groups.simulation import GROUP, Simulation

AWAY = -2


@pytest.fixture(autouse=True)
def orders(simulation: Simulation) -> UUID:
    return simulation.topics.put("orders", 4)


def static(simulation: Simulation) -> SimulatedConsumer:
    return SimulatedConsumer(simulation, "orders", instance_id="till-1")


async def test_it_comes_back_to_its_partitions_and_nobody_else_notices(simulation: Simulation):
    old, other = static(simulation), SimulatedConsumer(simulation, "orders")
    settle(old, other)
    share, epoch = old.working, other.epoch
    old.leave(AWAY)
    settle(other)
    new = static(simulation)
    settle(new, other)
    assert new.working == share
    assert other.epoch == new.epoch == epoch
    assert not other.lost & other.working


async def test_it_comes_back_under_the_same_id_too(simulation: Simulation):
    old = static(simulation)
    settle(old)
    share = old.working
    old.leave(AWAY)
    new = static(simulation)
    new.member_id = old.member_id
    new.beat()
    assert new.working == share


async def test_its_partitions_are_shared_out_if_it_stays_away(simulation: Simulation):
    old, other = static(simulation), SimulatedConsumer(simulation, "orders")
    settle(old, other)
    old.leave(AWAY)
    for _ in range(9):
        await simulation.pass_time(5_000)
        other.beat()
    settle(other)
    assert len(other.working) == 4


async def test_two_processes_with_one_name_do_not_live_together(simulation: Simulation):
    old, new = static(simulation), static(simulation)
    old.beat()
    with refused(ErrorCode.unreleased_instance_id):
        new.send()
    with refused(ErrorCode.fenced_instance_id):
        new.send(epoch=old.epoch)
    with refused(ErrorCode.fenced_instance_id):
        new.send(epoch=AWAY)
    old.leave(AWAY)
    new.beat()
    with refused(ErrorCode.fenced_instance_id):
        old.send()


async def test_while_it_is_away_its_old_epoch_is_fenced(simulation: Simulation):
    old = static(simulation)
    old.beat()
    epoch = old.epoch
    old.leave(AWAY)
    with refused(ErrorCode.fenced_member_epoch):
        old.send(epoch=epoch)


async def test_an_unknown_name_is_refused(simulation: Simulation):
    SimulatedConsumer(simulation, "orders").beat()
    with refused(ErrorCode.unknown_member_id):
        static(simulation).send(epoch=1)


async def test_an_administrator_removes_members_by_name_or_id(simulation: Simulation):
    named, other = static(simulation), SimulatedConsumer(simulation, "orders")
    settle(named, other)
    departed = simulation.groups.leave(
        GROUP, [Departure("", "till-1"), Departure(other.member_id), Departure("nobody")]
    )
    assert [each.code for each in departed] == [
        ErrorCode.none,
        ErrorCode.none,
        ErrorCode.unknown_member_id,
    ]
    assert described(simulation).members == ()
