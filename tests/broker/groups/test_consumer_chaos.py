"""Consumer groups under random joins, departures, crashes, restarts, slow members, lost answers and
topics that come and go.

Whatever happens, no two members work on the same partition; once the chaos ends, every partition
that is read has one member that works on it, and the shares are balanced.
"""

import itertools
import random
from pathlib import Path
from typing import Final

import pytest

from headrace.broker.groups.consumer.messages import ConsumerGroupState, ConsumerMemberDescription
from headrace.broker.groups.consumer.partitions import PartitionId
from headrace.broker.groups.settings import ConsumerTimes
from tests.broker.groups.consumers import REBALANCE_MS, SimulatedConsumer, described
from tests.broker.groups.simulation import Simulation

TOPICS: Final = ("orders", "orders-eu", "payments", "returns")
SESSION_MS: Final = 10_000
HEARTBEAT_MS: Final = 3_000


class World:
    """The clients of one group and what befalls them."""

    def __init__(self, simulation: Simulation, seed: int, assignor: str | None) -> None:
        self.simulation = simulation
        self.random = random.Random(seed)
        self.assignor = assignor
        self.living: list[SimulatedConsumer] = []
        self.names = itertools.count()
        for topic in TOPICS[:2]:
            simulation.topics.put(topic, 3)

    async def step(self) -> None:
        chances = {
            self.arrive: 5,
            self.crash: 2,
            self.depart: 2,
            self.return_static: 2,
            self.change_mind: 2,
            self.hesitate: 2,
            self.lose_an_answer: 3,
            self.change_topics: 2,
            self.simulation.restart: 1,
        }
        event = self.random.choices(list(chances), list(chances.values()))[0]
        event()
        self.check()
        await self.pass_time(self.random.choice([0, HEARTBEAT_MS, HEARTBEAT_MS, 4 * HEARTBEAT_MS]))

    async def pass_time(self, milliseconds: int) -> None:
        """Let time pass, during which the living send their heartbeats."""
        for _ in range(milliseconds // HEARTBEAT_MS):
            await self.simulation.pass_time(HEARTBEAT_MS)
            for client in self.random.sample(self.living, len(self.living)):
                client.beat()
                self.check()

    def check(self) -> None:
        """Nobody works on what another member works on; those not heard of in time do not count."""
        members = {member.member_id: member for member in self.members()}
        at_work = [client for client in self.living if client.member_id in members]
        for one, other in itertools.combinations(at_work, 2):
            assert not one.working & other.working
        for client in at_work:
            assert all(
                not client.working & other.assignment
                for other in members.values()
                if other.member_id != client.member_id
            )

    def members(self) -> tuple[ConsumerMemberDescription, ...]:
        return described(self.simulation).members if self.simulation.groups.list_groups() else ()

    def arrive(self) -> None:
        if len(self.living) < 7:
            static = self.random.random() < 0.3
            client = SimulatedConsumer(
                self.simulation,
                *self.random.sample(TOPICS, self.random.randint(1, len(TOPICS))),
                expression=self.random.choice([None, None, "orders.*"]),
                instance_id=f"static-{next(self.names)}" if static else None,
                assignor=self.assignor,
            )
            client.beat()
            self.living.append(client)

    def crash(self) -> None:
        if self.living:
            self.take()

    def depart(self) -> None:
        if self.living:
            client = self.take()
            if client.epoch > 0 and self.is_known(client):
                client.leave()

    def return_static(self) -> None:
        """A static member's process stops, tells so, and starts again under another id."""
        static = [each for each in self.living if each.instance_id and self.is_known(each)]
        if static:
            old = self.random.choice(static)
            old.leave(-2)
            self.living.remove(old)
            new = SimulatedConsumer(
                self.simulation, *old.topics, instance_id=old.instance_id, assignor=self.assignor
            )
            new.beat()
            self.living.append(new)

    def change_mind(self) -> None:
        if self.living:
            topics = self.random.sample(TOPICS, self.random.randint(0, len(TOPICS)))
            self.random.choice(self.living).subscribe(*topics)

    def hesitate(self) -> None:
        """A client is busy for a while, maybe for so long that it is dropped."""
        if self.living:
            client = self.random.choice(self.living)
            client.busy = not client.busy

    def lose_an_answer(self) -> None:
        if self.living:
            self.random.choice(self.living).beat(hears_the_answer=False)

    def change_topics(self) -> None:
        name = self.random.choice(TOPICS)
        topic = self.simulation.topics.get(name)
        if topic is not None and self.random.random() < 0.3:
            self.simulation.topics.delete(name)
        elif topic is None or len(topic.partitions) < 12:
            grown = len(topic.partitions) + 1 if topic else self.random.randint(1, 6)
            self.simulation.topics.put(name, grown)

    def take(self) -> SimulatedConsumer:
        return self.living.pop(self.random.randrange(len(self.living)))

    def is_known(self, client: SimulatedConsumer) -> bool:
        return any(
            member.member_id == client.member_id and member.epoch == client.epoch
            for member in self.members()
        )

    async def calm_down(self) -> None:
        """Nothing more befalls anybody, for long enough to sort everything out."""
        for client in self.living:
            client.busy = False
        await self.pass_time(2 * REBALANCE_MS + 2 * SESSION_MS)

    def readers(self, name: str) -> list[SimulatedConsumer]:
        matches = name.startswith("orders")
        return [
            each for each in self.living if name in each.topics or (each.expression and matches)
        ]


@pytest.mark.parametrize("assignor", [None, "range"])
@pytest.mark.parametrize("seed", range(20))
async def test_after_any_chaos_every_partition_has_one_owner(
    tmp_path: Path, seed: int, assignor: str | None
):
    times = ConsumerTimes(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS)
    simulation = Simulation(tmp_path, consumer_times=times)
    world = World(simulation, seed, assignor)
    for _ in range(120):
        await world.step()
    world.arrive()
    await world.calm_down()

    assert described(simulation).state is ConsumerGroupState.STABLE
    assert {each.member_id for each in world.members()} == {each.member_id for each in world.living}
    for topic in simulation.topics:
        readers = world.readers(topic.name)
        for number in topic.partitions:
            where = PartitionId(topic.id, number)
            owners = [client for client in world.living if where in client.working]
            assert len(owners) == bool(readers), f"{topic.name}-{number}"
            assert all(owner in readers for owner in owners)
        if assignor is None:
            check_balance(readers, topic.id)
        else:
            check_range(readers, topic.id, len(topic.partitions))
    await simulation.close()


def check_balance(readers: list[SimulatedConsumer], topic_id: object) -> None:
    """Nobody has two partitions more than somebody who could take one of them."""
    lightest = min((len(each.working) for each in readers), default=0)
    for each in readers:
        if any(where.topic_id == topic_id for where in each.working):
            assert len(each.working) <= lightest + 1


def check_range(readers: list[SimulatedConsumer], topic_id: object, count: int) -> None:
    """In the order of their names, everybody has a range, and the first ones the larger ones."""
    order = sorted(
        readers, key=lambda each: (each.instance_id is None, each.instance_id or each.member_id)
    )
    ranges = [sorted(n for topic, n in each.working if topic == topic_id) for each in order]
    assert list(itertools.chain.from_iterable(ranges)) == list(range(count if readers else 0))
    sizes = [len(each) for each in ranges]
    assert sizes == sorted(sizes, reverse=True)
    assert not sizes or sizes[0] - sizes[-1] <= 1
