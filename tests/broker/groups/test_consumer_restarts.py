"""Consumer groups after a crash of the broker, and while its disk is full."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.groups import offsets as offsets_module
from headrace.broker.groups.consumer.messages import ConsumerGroupState
from headrace.log.errors import StorageError
from tests.broker.groups.consumers import SimulatedConsumer, described, settle
from tests.broker.groups.refusals import refused
from tests.broker.groups.simulation import GROUP, Simulation


@pytest.fixture(autouse=True)
def orders(simulation: Simulation) -> UUID:
    return simulation.topics.put("orders", 4)


async def test_members_go_on_where_they_were(simulation: Simulation):
    members = [SimulatedConsumer(simulation, "orders") for _ in range(3)]
    settle(*members)
    before = described(simulation)
    simulation.restart()
    assert described(simulation) == before
    shares = [each.working for each in members]
    settle(*members)
    assert [each.working for each in members] == shares
    assert described(simulation) == before


async def test_a_rebalance_goes_on_where_it_was(simulation: Simulation):
    first, second = (SimulatedConsumer(simulation, "orders") for _ in range(2))
    first.beat()
    first.busy = True
    second.beat()
    first.beat()
    simulation.restart()
    second.beat()
    assert second.working == frozenset(), "the first member is still at work there"
    first.busy = False
    first.adapt()
    settle(first, second)
    assert [len(first.working), len(second.working)] == [2, 2]


async def test_members_that_died_with_the_broker_are_dropped(simulation: Simulation):
    SimulatedConsumer(simulation, "orders").beat()
    simulation.restart()
    await simulation.pass_time(44_999)
    assert len(described(simulation).members) == 1
    await simulation.pass_time(1)
    assert described(simulation).state is ConsumerGroupState.EMPTY
    simulation.restart()
    assert described(simulation).state is ConsumerGroupState.EMPTY


async def test_a_member_stuck_in_a_rebalance_is_dropped_after_a_restart_too(simulation: Simulation):
    stuck, other = (SimulatedConsumer(simulation, "orders") for _ in range(2))
    stuck.beat()
    stuck.busy = True
    settle(other, stuck)
    simulation.restart()
    await simulation.pass_time(30_000)
    settle(other)
    assert len(other.working) == 4


async def test_topics_that_came_while_the_broker_was_down_are_shared_out(simulation: Simulation):
    member = SimulatedConsumer(simulation, "orders")
    member.beat()
    simulation.topics.put("orders", 6)
    simulation.restart()
    member.beat()
    assert len(member.working) == 6


async def test_a_compacted_journal_tells_the_same(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
):
    members = [SimulatedConsumer(simulation, "orders", instance_id=str(n)) for n in range(3)]
    settle(*members)
    members[0].leave()
    settle(*members[1:])
    simulation.groups.configs.configure(GROUP, {"consumer.session.timeout.ms": "20000"})
    before = described(simulation)
    monkeypatch.setattr(offsets_module, "COMPACTION_FLOOR", 0)
    assert simulation.offsets.compact_if_due()
    simulation.restart()
    assert described(simulation) == before
    assert simulation.groups.configs.times(GROUP).session_timeout_ms == 20_000


async def test_what_the_disk_refuses_is_not_told_and_stored_later(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
):
    first, second = (SimulatedConsumer(simulation, "orders") for _ in range(2))
    first.beat()

    def full(_: bytes) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(simulation.journal, "append", full)
        with refused(ErrorCode.coordinator_not_available):
            second.send()
    settle(first, second)
    simulation.restart()
    settle(first, second)
    assert [len(first.working), len(second.working)] == [2, 2]
