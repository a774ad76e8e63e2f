"""What members of a consumer group are told, heartbeat by heartbeat."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.groups.consumer.messages import ConsumerGroupState
from headrace.broker.groups.consumer.partitions import PartitionId, Share
from tests.broker.groups.consumers import REBALANCE_MS, SimulatedConsumer, described, settle
from tests.broker.groups.refusals import refused
from tests.broker.groups.simulation import GROUP, Simulation

SESSION_MS = 45_000


@pytest.fixture
def orders(simulation: Simulation) -> UUID:
    return simulation.topics.put("orders", 4)


def places(topic: UUID, *numbers: int) -> Share:
    return frozenset(PartitionId(topic, number) for number in numbers)


async def keep_alive(simulation: Simulation, milliseconds: int, *alive: SimulatedConsumer) -> None:
    """Let time pass while members send heartbeats."""
    for _ in range(milliseconds // 5_000):
        await simulation.pass_time(5_000)
        for each in alive:
            each.beat()


async def test_the_first_member_gets_everything_at_once(simulation: Simulation, orders: UUID):
    answer = SimulatedConsumer(simulation, "orders").send()
    assert answer.assignment == places(orders, 0, 1, 2, 3)
    assert answer.heartbeat_interval_ms == 5_000
    assert described(simulation).state is ConsumerGroupState.STABLE


async def test_a_member_is_told_its_partitions_only_when_they_change(
    simulation: Simulation, orders: UUID
):
    member = SimulatedConsumer(simulation, "orders")
    member.beat()
    answer = member.send()
    assert answer.assignment is None
    assert not answer.stored, "a heartbeat that changes nothing costs no write"


async def test_a_partition_is_given_on_only_after_it_was_given_up(
    simulation: Simulation, orders: UUID
):
    first, second = (SimulatedConsumer(simulation, "orders") for _ in range(2))
    first.beat()
    first.busy = True
    second.beat()
    assert second.assigned == frozenset()

    first.beat()
    assert len(first.assigned) == 2
    second.beat()
    assert second.assigned == frozenset(), "the first member is still at work there"

    first.busy = False
    first.adapt()
    second.beat()
    assert second.assigned == frozenset(), "the first member has not said that it stopped"
    first.beat()
    second.beat()
    assert second.assigned == places(orders, 0, 1, 2, 3) - first.assigned
    assert described(simulation).state is ConsumerGroupState.STABLE


async def test_whoever_keeps_a_partition_is_never_asked_to_stop(
    simulation: Simulation, orders: UUID
):
    simulation.topics.put("orders", 11)
    members = [SimulatedConsumer(simulation, "orders") for _ in range(4)]
    for count in (1, 2, 3, 4, 3, 2, 1):
        if count < len(members):
            for gone in members[count:]:
                if gone.epoch:
                    gone.leave()
                    gone.epoch = 0
        for each in members:
            each.lost.clear()
        settle(*members[:count])
        for each in members[:count]:
            assert not each.lost & each.working
        assert sum(len(each.working) for each in members) == 11


async def test_states_tell_how_far_a_group_has_come(simulation: Simulation, orders: UUID):
    first, second = (SimulatedConsumer(simulation, "orders") for _ in range(2))
    settle(first)
    assert described(simulation).state is ConsumerGroupState.STABLE
    second.beat()
    assert described(simulation).state is ConsumerGroupState.RECONCILING
    settle(first, second)
    second.leave()
    assert described(simulation).state is ConsumerGroupState.ASSIGNING
    settle(first)
    first.leave()
    assert described(simulation).state is ConsumerGroupState.EMPTY


async def test_new_partitions_and_new_topics_are_shared_out(simulation: Simulation, orders: UUID):
    member = SimulatedConsumer(simulation, expression="orders.*")
    member.beat()
    simulation.topics.put("orders", 5)
    returns = simulation.topics.put("orders-returned", 1)
    simulation.topics.put("payments", 1)
    member.beat()
    assert member.working == places(orders, 0, 1, 2, 3, 4) | places(returns, 0)


async def test_deleted_topics_are_given_up(simulation: Simulation, orders: UUID):
    returns = simulation.topics.put("returns", 1)
    member = SimulatedConsumer(simulation, "orders", "returns")
    member.beat()
    simulation.topics.delete("orders")
    settle(member)
    assert member.working == places(returns, 0)
    again = simulation.topics.put("orders", 1)
    settle(member)
    assert member.working == places(returns, 0) | places(again, 0)


async def test_other_topics_of_other_groups_change_no_epoch(simulation: Simulation, orders: UUID):
    member = SimulatedConsumer(simulation, "orders")
    member.beat()
    epoch = member.epoch
    simulation.topics.put("payments", 3)
    settle(member)
    assert member.epoch == epoch


async def test_a_silent_member_is_dropped(simulation: Simulation, orders: UUID):
    silent, other = (SimulatedConsumer(simulation, "orders") for _ in range(2))
    settle(silent, other)
    await keep_alive(simulation, SESSION_MS, other)
    settle(other)
    assert other.working == places(orders, 0, 1, 2, 3)
    with refused(ErrorCode.unknown_member_id):
        silent.send()


async def test_a_member_that_does_not_give_up_in_time_is_dropped(
    simulation: Simulation, orders: UUID
):
    stuck, other = (SimulatedConsumer(simulation, "orders") for _ in range(2))
    stuck.beat()
    stuck.busy = True
    settle(other, stuck)
    await keep_alive(simulation, REBALANCE_MS - 5_000, stuck, other)
    assert len(other.working) == 0
    await simulation.pass_time(5_000)
    settle(other)
    assert other.working == places(orders, 0, 1, 2, 3)
    stuck.beat()
    assert stuck.epoch == 0, "it must join again"


async def test_a_lost_answer_is_made_up_for(simulation: Simulation, orders: UUID):
    first, second = (SimulatedConsumer(simulation, "orders") for _ in range(2))
    first.beat(hears_the_answer=False)
    first.beat()
    assert first.working == places(orders, 0, 1, 2, 3)
    second.beat()
    first.beat(hears_the_answer=False)
    settle(first, second)
    second.leave()
    first.beat(hears_the_answer=False)
    first.beat()
    assert first.working == places(orders, 0, 1, 2, 3)


async def test_epochs_that_cannot_be_are_fenced(simulation: Simulation, orders: UUID):
    member = SimulatedConsumer(simulation, "orders")
    member.beat()
    with refused(ErrorCode.fenced_member_epoch):
        member.send(epoch=member.epoch + 1)
    with refused(ErrorCode.fenced_member_epoch):
        member.send(epoch=member.epoch - 1)
    with refused(ErrorCode.fenced_member_epoch):
        member.send(epoch=member.epoch - 1, owned=None)


async def test_a_fenced_member_that_joins_again_keeps_its_place(
    simulation: Simulation, orders: UUID
):
    member = SimulatedConsumer(simulation, "orders")
    member.beat()
    epoch = member.epoch
    again = SimulatedConsumer(simulation, "orders")
    again.member_id = member.member_id
    again.beat()
    assert again.epoch == epoch
    assert again.working == places(orders, 0, 1, 2, 3)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"rebalance_timeout_ms": None}, ErrorCode.invalid_request),
        ({"owned": None}, ErrorCode.invalid_request),
        ({"topic_names": None}, ErrorCode.invalid_request),
        ({"epoch": -3}, ErrorCode.invalid_request),
        ({"epoch": -2}, ErrorCode.invalid_request),
        ({"assignor": "sticky"}, ErrorCode.unsupported_assignor),
        ({"topic_expression": "(["}, ErrorCode.invalid_regular_expression),
        ({"topic_expression": "(?=orders)"}, ErrorCode.invalid_regular_expression),
        ({"topic_expression": r"(o)\1"}, ErrorCode.invalid_regular_expression),
        ({"epoch": 5}, ErrorCode.group_id_not_found),
        ({"epoch": -1}, ErrorCode.group_id_not_found),
    ],
)
async def test_heartbeats_that_make_no_sense_are_refused(
    simulation: Simulation, changes: dict[str, object], code: ErrorCode
):
    with refused(code):
        SimulatedConsumer(simulation, "orders").send(**changes)
    assert simulation.groups.list_groups() == []


@pytest.mark.parametrize("simulation", [{"consumer_max_size": 1}], indirect=True)
async def test_a_full_group_takes_no_more(simulation: Simulation, orders: UUID):
    member = SimulatedConsumer(simulation, "orders")
    member.beat()
    with refused(ErrorCode.group_max_size_reached):
        SimulatedConsumer(simulation, "orders").send()
    member.beat()


async def test_the_assignor_that_most_members_prefer_is_used(simulation: Simulation, orders: UUID):
    payments = simulation.topics.put("payments", 4)
    members = [
        SimulatedConsumer(simulation, "orders", "payments", assignor="range") for _ in range(2)
    ]
    settle(*members)
    assert described(simulation).assignor == "range"
    for each in members:
        numbers = {number for _, number in each.working}
        assert each.working == places(orders, *numbers) | places(payments, *numbers)


async def test_a_group_is_listed_with_its_kind(simulation: Simulation, orders: UUID):
    SimulatedConsumer(simulation, "orders").beat()
    (listed,) = simulation.groups.list_groups(["stable"], ["Consumer"])
    assert (listed.group_id, listed.kind, listed.protocol_type) == (GROUP, "consumer", "consumer")
    assert simulation.groups.list_groups(types=["classic"]) == []
