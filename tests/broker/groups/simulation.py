"""A group coordinator in a world without time or sockets, for tests that decide what happens when.

Time passes only in `Simulation.pass_time`, which fires the timers that are due in order.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from headrace.broker.groups.classic.messages import (
    Joined,
    JoinRequest,
    MemberProtocol,
    Synced,
    SyncRequest,
)
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.errors import MemberIdRequired
from headrace.broker.groups.offsets import OffsetStore
from headrace.broker.groups.settings import GroupSettings
from headrace.clock import ManualClock
from headrace.log import Journal

GROUP = "billing"
START_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = (MemberProtocol("range", b"r"),)


class ManualTimer:
    """A callback that waits for its time."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> None:
        if self._callback is not None:
            self._callback()


class ManualTimers:
    """Timers that fire when the test lets time pass."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._order = itertools.count()
        self._due: list[tuple[float, int, ManualTimer]] = []

    def call_later(self, delay: float, callback: Callable[[], object], /) -> ManualTimer:
        timer = ManualTimer(callback)
        heapq.heappush(self._due, (self._clock.monotonic() + delay, next(self._order), timer))
        return timer

    def forget(self) -> None:
        """Nothing is due any more: whoever would be called is gone."""
        self._due.clear()

    def advance(self, seconds: float) -> None:
        """Move the clock, firing what falls due on the way at its own time."""
        end = self._clock.monotonic() + seconds
        while self._due and self._due[0][0] <= end:
            due, _, timer = heapq.heappop(self._due)
            self._clock.advance(max(due - self._clock.monotonic(), 0))
            timer.fire()
        self._clock.advance(end - self._clock.monotonic())


async def let_tasks_run() -> None:
    """Let everything that can go on without time passing go on."""
    for _ in range(10):
        await asyncio.sleep(0)


@dataclass
class SimulatedTopic:
    """A topic with partitions that hold nothing."""

    name: str
    partitions: range
    id: UUID = field(default_factory=uuid4)


class SimulatedTopics:
    """Topics that come and go as the test says."""

    def __init__(self) -> None:
        self.version = 0
        self._topics: dict[str, SimulatedTopic] = {}

    def __iter__(self) -> Iterator[SimulatedTopic]:
        return iter(self._topics.values())

    def get(self, name: str) -> SimulatedTopic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: UUID) -> SimulatedTopic | None:
        return next((topic for topic in self if topic.id == topic_id), None)

    def put(self, name: str, partitions: int) -> UUID:
        """Make a topic, or let one grow."""
        topic = self._topics.setdefault(name, SimulatedTopic(name, range(0)))
        topic.partitions = range(partitions)
        self.version += 1
        return topic.id

    def delete(self, name: str) -> None:
        del self._topics[name]
        self.version += 1


class Simulation:
    """One coordinator, its clock, and clients as tasks."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.clock = ManualClock(START_MS)
        self.timers = ManualTimers(self.clock)
        self.journal = Journal.open(directory / "groups.journal")
        self.offsets = OffsetStore.open(self.journal)
        self.settings = GroupSettings(**settings)
        self.topics = SimulatedTopics()
        self.groups = self._coordinator()
        self._tasks: list[asyncio.Task[Any]] = []

    def restart(self) -> None:
        """A new coordinator over the same journal, as after a crash."""
        self.timers.forget()
        self.offsets = OffsetStore.open(self.journal)
        self.groups = self._coordinator()

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            clock=self.clock,
            timers=self.timers,
            offsets=self.offsets,
            settings=self.settings,
            topics=self.topics,
        )

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.journal.close()

    async def pass_time(self, milliseconds: int = 0) -> None:
        """Let time pass; 0 fires what is due now, such as the first rebalance of a new group."""
        self.timers.advance(milliseconds / 1000)
        await let_tasks_run()

    async def join(self, member_id: str = "", **changes: Any) -> "asyncio.Task[Joined]":
        """Send a request to join; the task ends with its answer."""
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": member_id,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": RANGE,
        }
        return await self._begin(self.groups.join(JoinRequest(**fields | changes)))

    async def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        **more: Any,
    ) -> "asyncio.Task[Synced]":
        """Send a request to sync; the task ends with its answer."""
        request = SyncRequest(
            group_id=GROUP,
            member_id=member_id,
            generation=generation,
            assignments=tuple((assignments or {}).items()),
            **more,
        )
        return await self._begin(self.groups.sync(request))

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> None:
        self.groups.heartbeat(GROUP, member_id, instance_id, generation)

    async def new_id(self, **changes: Any) -> str:
        """Ask to join without an id, and be given one."""
        try:
            await (await self.join(**changes))
        except MemberIdRequired as error:
            return error.member_id
        raise AssertionError("a newcomer was admitted without an id")

    async def joined(self, count: int, **changes: Any) -> list[Joined]:
        """Let newcomers form the first generation; the leader comes first."""
        ids = [await self.new_id(**changes) for _ in range(count)]
        tasks = [await self.join(member_id, **changes) for member_id in ids]
        await self.pass_time()
        return [await task for task in tasks]

    async def stable(self, count: int, **changes: Any) -> list[Joined]:
        """Let newcomers form a group whose members have their assignments; the leader first."""
        members = await self.joined(count, **changes)
        await self.synced(members)
        return members

    async def synced(self, members: list[Joined]) -> list[Synced]:
        """Let everybody sync; each is assigned its own id."""
        shares = {member.member_id: member.member_id.encode() for member in members}
        tasks = [
            await self.sync(
                member.member_id,
                member.generation,
                shares if member.member_id == member.leader else None,
            )
            for member in members
        ]
        return [await task for task in tasks]

    async def keep_alive(self, milliseconds: int, *members: Joined) -> None:
        """Let time pass while members send heartbeats."""
        step = SESSION_MS // 2
        for _ in range(milliseconds // step):
            await self.pass_time(step)
            for member in members:
                self.heartbeat(member.member_id, member.generation)
        await self.pass_time(milliseconds % step)

    async def _begin(self, request: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.create_task(request)
        self._tasks.append(task)
        await let_tasks_run()
        return task


def subscription(*topics: str) -> tuple[MemberProtocol, ...]:
    """The protocols of a consumer that reads these topics."""
    names = b"".join(len(name).to_bytes(2) + name.encode() for name in topics)
    return (
        MemberProtocol("range", b"\0\3" + len(topics).to_bytes(4) + names + b"\xff\xff\xff\xff"),
    )
