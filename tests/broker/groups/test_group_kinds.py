"""Groups of two kinds under one roof: who may join what, and what survives a change of kind."""

import logging
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.messages import Departure
from headrace.broker.groups.entries import Committed, TopicPartition
from headrace.broker.groups.messages import Committer, GroupKind
from tests.broker.groups.consumers import SimulatedConsumer, described, settle
from tests.broker.groups.refusals import refusal, refused
from tests.broker.groups.simulation import GROUP, START_MS, Simulation, subscription

WHERE = TopicPartition("orders", 0)
COMMITTED = Committed(7, -1, "", START_MS)


@pytest.fixture(autouse=True)
def orders(simulation: Simulation) -> None:
    simulation.topics.put("orders", 2)


def kind(simulation: Simulation) -> GroupKind:
    (listed,) = simulation.groups.list_groups()
    return listed.kind


def commit(
    simulation: Simulation, member_id: str = "", epoch: int = -1, **more: Any
) -> dict[TopicPartition, ErrorCode]:
    committer = Committer(group_id=GROUP, member_id=member_id, generation=epoch, **more)
    return simulation.groups.commit_offsets(committer, {WHERE: COMMITTED})


async def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "headrace.broker")
    (member,) = await simulation.stable(1)
    commit(simulation, member.member_id, member.generation)
    consumer = SimulatedConsumer(simulation, "orders")
    with refused(ErrorCode.group_id_not_found):
        consumer.send()
    assert f"in group {GROUP!r}: it has classic members" in caplog.text
    simulation.groups.leave(GROUP, [Departure(member.member_id)])
    consumer.beat()
    assert kind(simulation) is GroupKind.CONSUMER
    assert simulation.groups.fetch_offsets(GROUP) == {WHERE: COMMITTED}
    simulation.restart()
    assert kind(simulation) is GroupKind.CONSUMER
    assert simulation.groups.fetch_offsets(GROUP) == {WHERE: COMMITTED}


async def test_an_empty_consumer_group_becomes_a_classic_group_and_keeps_its_offsets(
    simulation: Simulation,
):
    consumer = SimulatedConsumer(simulation, "orders")
    consumer.beat()
    commit(simulation, consumer.member_id, consumer.epoch)
    assert await refusal(await simulation.join()) is ErrorCode.inconsistent_group_protocol
    consumer.leave()
    assert await refusal(await simulation.join("somebody")) is ErrorCode.unknown_member_id
    (member,) = await simulation.stable(1)
    assert member.generation == 1
    assert kind(simulation) is GroupKind.CLASSIC
    simulation.restart()
    assert kind(simulation) is GroupKind.CLASSIC
    assert simulation.groups.fetch_offsets(GROUP) == {WHERE: COMMITTED}


async def test_offsets_without_a_member_make_a_group_that_can_become_either(
    simulation: Simulation,
):
    commit(simulation)
    SimulatedConsumer(simulation, "orders").beat()
    assert kind(simulation) is GroupKind.CONSUMER


async def test_a_consumer_group_is_none_to_those_who_ask_for_a_classic_one(
    simulation: Simulation,
):
    SimulatedConsumer(simulation, "orders").beat()
    with refused(ErrorCode.group_id_not_found):
        simulation.groups.describe(GROUP)
    with refused(ErrorCode.unknown_member_id):
        simulation.heartbeat("somebody", 1)
    assert await refusal(await simulation.sync("somebody", 1)) is ErrorCode.unknown_member_id


async def test_a_classic_group_is_none_to_those_who_ask_for_a_consumer_group(
    simulation: Simulation,
):
    await simulation.stable(1)
    with refused(ErrorCode.group_id_not_found):
        described(simulation)
    with refused(ErrorCode.group_id_not_found):
        SimulatedConsumer(simulation, "orders").send(epoch=1)


async def test_members_commit_and_fetch_in_their_epoch(simulation: Simulation):
    first, second = (SimulatedConsumer(simulation, "orders") for _ in range(2))
    first.beat()
    early = first.epoch
    settle(first, second)
    mine, other = first.member_id, second.member_id
    assert commit(simulation, mine, first.epoch) == {WHERE: ErrorCode.none}
    assert commit(simulation, mine, early) == {WHERE: ErrorCode.none}, "it has kept the partition"
    for member_id, epoch in ((mine, early - 1), (mine, first.epoch + 1), (mine, -1)):
        with refused(ErrorCode.stale_member_epoch):
            commit(simulation, member_id, epoch)
    with refused(ErrorCode.stale_member_epoch):
        commit(simulation, other, early)
    with refused(ErrorCode.unknown_member_id):
        commit(simulation)
    with refused(ErrorCode.unsupported_version):
        commit(simulation, mine, first.epoch, knows_epochs=False)

    assert simulation.groups.fetch_offsets(GROUP, mine, first.epoch) == {WHERE: COMMITTED}
    with refused(ErrorCode.stale_member_epoch):
        simulation.groups.fetch_offsets(GROUP, mine, early)
    with refused(ErrorCode.unknown_member_id):
        simulation.groups.fetch_offsets(GROUP, "nobody", 1)


async def test_offsets_of_topics_that_members_read_stay(simulation: Simulation):
    consumer = SimulatedConsumer(simulation, "orders")
    consumer.beat()
    commit(simulation, consumer.member_id, consumer.epoch)
    assert simulation.groups.delete_offsets(GROUP, [WHERE]) == {
        WHERE: ErrorCode.group_subscribed_to_topic
    }
    with refused(ErrorCode.non_empty_group):
        simulation.groups.delete(GROUP)
    consumer.leave()
    assert simulation.groups.delete_offsets(GROUP, [WHERE]) == {WHERE: ErrorCode.none}
    simulation.groups.delete(GROUP)
    assert simulation.groups.list_groups() == []
    simulation.restart()
    assert simulation.groups.list_groups() == []


@pytest.mark.parametrize(
    "simulation", [{"offsets_retention_ms": 100_000, "retention_check_ms": 1_000}], indirect=True
)
async def test_offsets_expire_after_a_consumer_group_became_empty(simulation: Simulation):
    simulation.groups.start()
    consumer = SimulatedConsumer(simulation, "orders")
    consumer.beat()
    commit(simulation, consumer.member_id, consumer.epoch)
    for _ in range(30):
        await simulation.pass_time(5_000)
        consumer.beat()
    assert simulation.groups.fetch_offsets(GROUP), "the group still reads the topic"
    consumer.leave()
    await simulation.pass_time(99_000)
    assert simulation.groups.fetch_offsets(GROUP)
    await simulation.pass_time(2_000)
    assert simulation.groups.list_groups() == []


async def test_a_classic_consumer_of_the_same_topics_is_refused_all_the_same(
    simulation: Simulation,
):
    SimulatedConsumer(simulation, "orders").beat()
    task = await simulation.join(protocols=subscription("orders"))
    assert await refusal(task) is ErrorCode.inconsistent_group_protocol
