"""Groups under random joins, departures, crashes, restarts and slow members.

Clients behave as real ones do; what they do when is random but repeatable. Whatever happens, a
generation has one leader, one protocol and disjoint assignments, and once the chaos ends the living
share all the work.
"""

import asyncio
import random
import uuid
from pathlib import Path
from typing import Final

import pytest
from kio.schema.errors import ErrorCode

from headrace.broker.groups.classic.messages import (
    Departure,
    Joined,
    JoinRequest,
    MemberProtocol,
    SyncRequest,
)
from headrace.broker.groups.classic.state import GroupState
from headrace.broker.groups.entries import Committed, TopicPartition
from headrace.broker.groups.errors import GroupError, MemberIdRequired
from headrace.broker.groups.messages import Committer
from tests.broker.groups.simulation import GROUP, Simulation, let_tasks_run

PARTITIONS: Final = range(12)
SESSION_MS: Final = 10_000
HEARTBEAT_MS: Final = 3_000
REASONS_TO_JOIN_AGAIN: Final = (ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation)
PREFERENCES: Final = (
    (MemberProtocol("range", b"r"), MemberProtocol("sticky", b"s")),
    (MemberProtocol("sticky", b"s"), MemberProtocol("range", b"r")),
    (MemberProtocol("range", b"r"),),
)


class Ledger:
    """What every generation was told, checked as it is told."""

    def __init__(self) -> None:
        self._agreed: dict[int, tuple[str, str | None]] = {}
        self._owners: dict[tuple[int, int], str] = {}

    def joined(self, answer: Joined) -> None:
        # A static leader that restarts goes on leading under another id.
        leading_client = answer.leader[: -len(f"-{uuid.UUID(int=0)}")]
        agreed = (leading_client, answer.protocol_name)
        assert self._agreed.setdefault(answer.generation, agreed) == agreed

    def assigned(self, generation: int, who: str, partitions: bytes) -> None:
        for partition in partitions:
            assert self._owners.setdefault((generation, partition), who) == who


class Client:
    """A consumer that lives in simulated time."""

    def __init__(self, world: "World", name: str, *, static: bool) -> None:
        self.name = name
        self._world = world
        self._static = static
        self._protocols = world.random.choice(PREFERENCES)
        self.member_id = ""
        self.generation = -1
        self.partitions: bytes | None = None
        self.fenced = False
        self.slow = False
        self.task = asyncio.ensure_future(self._run())

    @property
    def instance_id(self) -> str | None:
        return self.name if self._static else None

    async def _run(self) -> None:
        while not self.fenced:
            try:
                await self._live_through_a_generation()
            except MemberIdRequired as error:
                self.member_id = error.member_id
            except GroupError as error:
                self.partitions = None
                if error.code is ErrorCode.fenced_instance_id:
                    self.fenced = True
                elif error.code is ErrorCode.unknown_member_id:
                    self.member_id = ""
                elif error.code not in REASONS_TO_JOIN_AGAIN:
                    raise

    async def _live_through_a_generation(self) -> None:
        groups, world = self._world.simulation.groups, self._world
        joined = await groups.join(
            JoinRequest(
                group_id=GROUP,
                member_id=self.member_id,
                instance_id=self.instance_id,
                client_id=self.name,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=30_000,
                protocol_type="consumer",
                protocols=self._protocols,
            )
        )
        world.ledger.joined(joined)
        self.member_id, self.generation = joined.member_id, joined.generation
        synced = await groups.sync(
            SyncRequest(
                group_id=GROUP,
                member_id=self.member_id,
                generation=self.generation,
                instance_id=self.instance_id,
                protocol_type=joined.protocol_type,
                protocol_name=joined.protocol_name,
                assignments=() if joined.skip_assignment else _share_out(joined),
            )
        )
        self.partitions = synced.assignment
        world.ledger.assigned(self.generation, self.instance_id or self.member_id, self.partitions)
        while True:
            await world.sleep(HEARTBEAT_MS * (5 if self.slow else 1))
            groups.heartbeat(GROUP, self.member_id, self.instance_id, self.generation)
            self._commit()

    def _commit(self) -> None:
        committer = Committer(
            group_id=GROUP,
            member_id=self.member_id,
            instance_id=self.instance_id,
            generation=self.generation,
        )
        now_ms = self._world.simulation.clock.now_ms()
        self._world.simulation.groups.commit_offsets(
            committer, {TopicPartition("orders", 0): Committed(self.generation, -1, "", now_ms)}
        )


def _share_out(joined: Joined) -> tuple[tuple[str, bytes], ...]:
    """What the leader decides: every partition for exactly one member."""
    ids = [member.member_id for member in joined.members]
    return tuple(
        (member_id, bytes(PARTITIONS[index :: len(ids)])) for index, member_id in enumerate(ids)
    )


class World:
    """The clients of one group and what befalls them."""

    def __init__(self, simulation: Simulation, seed: int) -> None:
        self.simulation = simulation
        self.random = random.Random(seed)
        self.ledger = Ledger()
        self.living: list[Client] = []
        self._names = 0

    async def sleep(self, milliseconds: int) -> None:
        awake = asyncio.Event()
        self.simulation.timers.call_later(milliseconds / 1000, awake.set)
        await awake.wait()

    async def step(self) -> None:
        """Let something happen, then some time pass."""
        event = self.random.choices(
            [self.arrive, self.crash, self.depart, self.restart, self.hesitate, self.nothing],
            [4, 2, 2, 2, 1, 6],
        )[0]
        event()
        await let_tasks_run()
        await self.simulation.pass_time(self.random.choice([0, 0, 100, 1_000, 5_000, 20_000]))
        for client in self.living:
            if client.task.done():
                client.task.result()
        self.living = [client for client in self.living if not client.fenced]

    def arrive(self) -> None:
        if len(self.living) < 8:
            self._names += 1
            static = self.random.random() < 0.4
            self.living.append(Client(self, f"client-{self._names}", static=static))

    def crash(self) -> None:
        if self.living:
            self._take().task.cancel()

    def depart(self) -> None:
        if self.living:
            client = self._take()
            client.task.cancel()
            self.simulation.groups.leave(GROUP, [Departure(client.member_id, client.instance_id)])

    def restart(self) -> None:
        """A new process with the same name, while the old one may still be running."""
        static = [client for client in self.living if client.instance_id is not None]
        if static:
            old = self.random.choice(static)
            if self.random.random() < 0.5:
                self.living.remove(old)
                old.task.cancel()
            self.living.append(Client(self, old.name, static=True))

    def hesitate(self) -> None:
        if self.living:
            client = self.random.choice(self.living)
            client.slow = not client.slow

    def nothing(self) -> None:
        pass

    def _take(self) -> Client:
        return self.living.pop(self.random.randrange(len(self.living)))

    async def calm_down(self) -> None:
        """Nothing more befalls anybody, for long enough to sort everything out."""
        for client in self.living:
            client.slow = False
        for _ in range(300):
            await self.simulation.pass_time(1_000)
        self.living = [client for client in self.living if not client.fenced]


@pytest.mark.parametrize("delay", [0, 3_000])
@pytest.mark.parametrize("seed", range(20))
async def test_after_any_chaos_the_living_share_all_the_work(tmp_path: Path, seed: int, delay: int):
    simulation = Simulation(tmp_path, initial_rebalance_delay_ms=delay)
    world = World(simulation, seed)
    for _ in range(150):
        await world.step()
    world.arrive()
    await world.calm_down()

    group = simulation.groups.describe(GROUP)
    assert group.state is GroupState.STABLE
    assert {member.member_id for member in group.members} == {
        client.member_id for client in world.living
    }
    assert len({client.generation for client in world.living}) == 1
    shares = sorted(b"".join(client.partitions or b"" for client in world.living))
    assert shares == list(PARTITIONS)

    for client in world.living:
        client.task.cancel()
    await simulation.close()
