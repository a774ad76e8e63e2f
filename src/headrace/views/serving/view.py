"""One view while it is served: its store, who fills it, its feeds, and what it reflects."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from headrace.clock import Clock, SystemClock
from headrace.kafka.cluster import Cluster
from headrace.kafka.positions import Partition
from headrace.views.errors import ViewsError
from headrace.views.feeds.hub import Hub
from headrace.views.materialized.description import ViewDescription
from headrace.views.materialized.following import Follower
from headrace.views.materialized.store import AppliedBatch, Snapshot, Store, StoreState
from headrace.views.positions import Offsets, format_positions, is_reflected
from headrace.views.registry import Note

T = TypeVar("T")


class PositionUnknown(ViewsError):
    """A position of a topic that a view is not made of."""


class NotReflected(ViewsError):
    """A view did not get as far as was asked for in the time that was given."""


class NotOpened(ViewsError):
    """The store of a view cannot be read yet."""


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """How a view stands."""

    name: str
    topic: str
    flow: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    building: bool
    """Whether not everything that was in the topic at first has been applied yet."""

    rows: int | None
    position: str
    lag: int
    """Records that are in the topic and not applied yet."""

    behind_ms: int
    """The age of the last record that was applied, if there are later ones."""

    progress: float
    """The part of the topic that is applied."""

    subscribers: int
    sequence: int
    rejected: int
    rejection: str
    error: str
    rebuilt: str


class View:
    """A view of a topic; made in the event loop that serves it."""

    def __init__(
        self,
        description: ViewDescription,
        store: Store,
        cluster: Cluster,
        loop: asyncio.AbstractEventLoop,
        *,
        history: int,
        clock: Clock | None = None,
    ) -> None:
        self.description = description
        self.notes: Iterable[Note] = ()
        """Batches of the flow that writes the topic, the latest last."""
        self._clock = clock or SystemClock()
        self._loop = loop
        self._waiting: list[asyncio.Future[None]] = []
        self._store = store
        self.hub = Hub(store, description.topic, loop)
        self._follower = Follower(
            description, store, cluster, history=history, tell=self._applied, clock=clock
        )

    def start(self) -> None:
        """Begin to fill it."""
        self._follower.start()

    def stop(self) -> None:
        """End that; not in the event loop, for it may take a moment."""
        self._follower.stop()

    def drop(self) -> None:
        """End it, and remove its rows."""
        self._follower.stop()
        self._store.drop()

    @property
    def is_open(self) -> bool:
        """Whether it can be read."""
        return self._follower.wait_open(0)

    def require_open(self) -> None:
        """Raise NotOpened, which says why, if it cannot be read."""
        if not self.is_open:
            now = self._follower.now
            raise NotOpened(
                f"View {self.description.name} is not ready: "
                f"{now.error or 'it is being opened'}. Try again in a moment."
            )

    @property
    def topics(self) -> set[str]:
        """The topics whose positions it can be asked for."""
        return {self.description.topic} | {each.topic for each in self.reached}

    @property
    def reached(self) -> dict[Partition, int]:
        """The position that it reflects at this moment."""
        return self.reflected(self._follower.now.state.offsets)

    @property
    def batches(self) -> list[Note]:
        """The batches of its flow that it reflects, the latest first."""
        applied = self._follower.now.state.offsets
        return [each for each in reversed(list(self.notes)) if each.is_reflected(applied)]

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns, as far as they are known."""
        return self._follower.now.state.columns

    async def read(self, look: Callable[[Snapshot], T]) -> T:
        """What `look` finds in the store, at one moment."""
        self.require_open()
        return await self._loop.run_in_executor(None, self._store.read, look)

    def reflected(self, offsets: Mapping[int, int]) -> dict[Partition, int]:
        """The position of a view that has applied so much of its topic, that of its sources too."""
        found = {
            Partition(self.description.topic, number): offset for number, offset in offsets.items()
        }
        for note in reversed(list(self.notes)):
            if note.is_reflected(offsets):
                found.update(note.sources)
                break
        return found

    def position(self, state: StoreState) -> str:
        """The same, as it travels."""
        return format_positions(self.reflected(state.offsets))

    async def wait(self, required: Offsets, seconds: float) -> None:
        """Return when everything required is reflected; NotReflected after so many seconds."""
        deadline = self._loop.time() + seconds
        while True:
            reached = self.reflected(self._follower.now.state.offsets)
            self._require_known(required, reached)
            if is_reflected(required, reached):
                return
            left = deadline - self._loop.time()
            if left <= 0:
                raise NotReflected(
                    f"View {self.description.name} does not reflect {_shown(required)} yet; it is "
                    f"at {_reached(required, reached)}. Ask again, or give it more time with "
                    "timeout=30s."
                )
            await self._progress(left)

    def wake(self) -> None:
        """Let those who wait look again; in the loop."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def status(self) -> ViewStatus:
        """How it stands."""
        now = self._follower.now
        rows = await self.read(lambda store: store.count(None)) if self.is_open else None
        total = sum(now.ends.values())
        behind = self._clock.now_ms() - now.applied_ms if now.lag and now.applied_ms else 0
        return ViewStatus(
            name=self.description.name,
            topic=self.description.topic,
            flow=self.description.flow,
            key=self.description.key,
            columns=now.state.columns,
            building=not now.state.complete,
            rows=rows,
            position=self.position(now.state),
            lag=now.lag,
            behind_ms=max(behind, 0),
            progress=1.0 if not total else max(0.0, 1 - now.lag / total),
            subscribers=self.hub.subscribers,
            sequence=now.state.sequence,
            rejected=now.state.rejected,
            rejection=now.state.rejection,
            error=now.error,
            rebuilt=now.rebuilt,
        )

    def _require_known(self, required: Offsets, reached: Offsets) -> None:
        topics = {self.description.topic} | {each.topic for each in reached}
        wrong = sorted({each.topic for each in required} - topics)
        if wrong and (not self.description.flow or len(topics) > 1):
            raise PositionUnknown(
                f"View {self.description.name} is not made of {wrong[0]}; give positions of "
                f"{', '.join(sorted(topics))}."
            )

    async def _progress(self, seconds: float) -> None:
        waiter = self._loop.create_future()
        self._waiting.append(waiter)
        timer = self._loop.call_later(
            seconds, lambda: None if waiter.done() else waiter.set_result(None)
        )
        try:
            await waiter
        finally:
            timer.cancel()

    def _applied(self, applied: AppliedBatch) -> None:
        self.hub.offer(applied)
        if self._waiting:
            self._loop.call_soon_threadsafe(self.wake)


def _shown(required: Offsets) -> str:
    return format_positions(required)


def _reached(required: Offsets, reached: Offsets) -> str:
    return format_positions({each: reached.get(each, 0) for each in required}) or "the beginning"
