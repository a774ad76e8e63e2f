"""Snapshot plus deltas is the view: random changes, disconnects, slow readers and restarts.

Everything is chosen by Hypothesis, so a failure comes with the steps that lead to it. The oracle
keeps the view of every sequence; after every event a subscriber must have exactly the rows of the
sequence that the event names.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.views.feeds.channel import Scope
from headrace.views.feeds.feed import Event, Feed
from headrace.views.feeds.hub import Hub
from headrace.views.feeds.tokens import Token
from headrace.views.filters import matches, parse_filter
from headrace.views.materialized.description import ViewDescription
from headrace.views.materialized.records import Incoming
from headrace.views.materialized.sqlite import SqliteStore
from headrace.views.materialized.store import AppliedBatch, StoreState

VIEW = ViewDescription("view", "topic")
HISTORY = 40
SCOPES = (Scope(), Scope(where=parse_filter("n >= 5")), Scope(key="k1"))

keys = st.sampled_from([f"k{number}" for number in range(6)])
rows = st.one_of(st.none(), st.integers(0, 9).map(lambda n: {"n": n}))
batches = st.lists(st.tuples(keys, rows), min_size=1, max_size=6)
somebody = st.integers(0, len(SCOPES) - 1)
applied = st.tuples(st.just("apply"), batches)
read = st.tuples(st.just("read"), somebody)
often = st.one_of(applied, applied, read, read, st.tuples(st.just("tick"), st.none()))
seldom = st.one_of(
    st.tuples(st.just("backlog"), batches),
    st.tuples(st.just("begin"), somebody),
    st.tuples(st.just("resume"), somebody),
    st.tuples(st.just("restart"), st.booleans()),
)
steps = st.lists(st.one_of(often, often, often, seldom), min_size=10, max_size=60)


class World:
    """A view with its hub, some subscribers, and what the view was at every sequence."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.states: dict[tuple[str, int], dict[str, Any]] = {}
        self.subscribers: list[Subscriber] = []
        self.open()

    def open(self) -> None:
        self.store = SqliteStore(self._path, history=HISTORY)
        self.state = self.store.open(VIEW)
        self.states.setdefault((self.state.handle, self.state.sequence), {})
        self.hub = Hub(self.store, "topic", asyncio.get_running_loop())
        self.hub.offer(AppliedBatch(self.state, (), history=False))

    def apply(self, batch: list[tuple[str, Any]], *, history: bool) -> None:
        view = dict(self.states[self.state.handle, self.state.sequence])
        offset = self.state.offsets.get(0, 0)
        incoming = [
            Incoming(key, None if row is None else orjson.dumps(row), 0, offset + number)
            for number, (key, row) in enumerate(batch)
        ]
        state = StoreState(**{**_fields(self.state), "complete": True})
        applied = self.store.apply(incoming, {0: offset + len(batch)}, state=state, history=history)
        for change in applied.changes:
            _put(view, change.key, change.after)
            self.states[applied.state.handle, change.sequence] = dict(view)
        for each in incoming:
            _put(view, each.key, each.row)
        self.state = applied.state
        self.states[self.state.handle, self.state.sequence] = view
        self.hub.offer(applied)

    async def restart(self, *, anew: bool) -> None:
        """The server ends, and comes back with its store, or with a new one."""
        tokens = [(each.scope, each.token) for each in self.subscribers]
        for each in self.subscribers:
            each.leave()
        self.store.close()
        before = self.states[self.state.handle, self.state.sequence]
        self.open()
        if anew:
            self.state = self.store.reset(VIEW, "the disk was lost")
            self.states[self.state.handle, 0] = {}
            self.hub.offer(AppliedBatch(self.state, (), history=False))
            rows = [(key, row) for key, row in before.items()]
            self.apply(rows, history=False)
        await asyncio.sleep(0.01)
        self.subscribers = [Subscriber(self, scope, token) for scope, token in tokens]


class Subscriber:
    """Applies what it is told, and compares."""

    def __init__(self, world: World, scope: Scope, token: Token | None = None) -> None:
        self.world = world
        self.scope = scope
        self.token = token
        self.rows: dict[str, Any] = {}
        if token is not None and token.key is None:
            self.rows = self.expected(token)
        elif token is not None:
            told = self.expected(token._replace(key=None))
            self.rows = {key: row for key, row in told.items() if key <= str(token.key)}
        self.feed = Feed(lambda: world.hub, scope, token)
        self._coming: asyncio.Task[Event] | None = None

    def expected(self, token: Token) -> dict[str, Any]:
        view = self.world.states[token.handle, token.sequence]
        if self.scope.key is not None:
            return {key: row for key, row in view.items() if key == self.scope.key}
        return {key: row for key, row in view.items() if matches(self.scope.where, row)}

    async def read(self, seconds: float = 0.004) -> bool:
        """Take one event; False if none has come by then."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self.feed.next())
        done, _ = await asyncio.wait([self._coming], timeout=seconds)
        if not done:
            return False
        event, self._coming = self._coming.result(), None
        self.take(event)
        return True

    def leave(self) -> None:
        """Go away, whatever is on its way."""
        if self._coming is not None:
            self._coming.cancel()
        self.feed.close()

    def take(self, event: Event) -> None:
        for raw in event.data:
            data = json.loads(raw)
            if event.name == "must-refetch" or data.get("first"):
                self.rows = {}
            for each in data.get("rows", ()):
                self.rows[each["key"]] = each["row"]
            for each in data.get("changes", ()):
                assert (each["op"] == "insert") == (each["key"] not in self.rows), each
                _put(self.rows, each["key"], orjson.dumps(each["row"]) if "row" in each else None)
        self.token = event.token
        if event.name != "must-refetch" and event.token.key is None:
            assert self.rows == self.expected(event.token), event


def _put(view: dict[str, Any], key: str, row: bytes | None) -> None:
    if row is None:
        view.pop(key, None)
    else:
        view[key] = orjson.loads(row)


def _fields(state: StoreState) -> dict[str, Any]:
    return {each: getattr(state, each) for each in state.__slots__}


async def _live(path: Path, script: list[tuple[str, Any]]) -> None:
    world = World(path)
    try:
        world.apply([("k0", {"n": 7}), ("k3", {"n": 2}), ("k4", {"n": 5})], history=True)
        world.subscribers = [Subscriber(world, scope) for scope in SCOPES]
        for step, value in script:
            match step:
                case "apply" | "backlog":
                    world.apply(value, history=step == "apply")
                case "tick":
                    await asyncio.sleep(0.001)
                case "read":
                    await world.subscribers[value].read()
                case "begin" | "resume":
                    gone = world.subscribers[value]
                    gone.leave()
                    token = gone.token if step == "resume" else None
                    world.subscribers[value] = Subscriber(world, gone.scope, token)
                case "restart":
                    await world.restart(anew=value)
        await asyncio.sleep(0.01)
        end = Token(world.state.handle, world.state.sequence)
        for each in world.subscribers:
            while await each.read() or (each.rows != each.expected(end) and await each.read(10)):
                pass
            assert each.token is not None
            assert each.token.handle == world.state.handle
            assert each.rows == each.expected(end)
    finally:
        for each in world.subscribers:
            each.leave()
        world.store.close()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So little at hand that every way of telling is taken: pages, frames and squashed changes."""
    monkeypatch.setattr("headrace.views.feeds.hub._LEAST_SECONDS", 0.0005)
    monkeypatch.setattr("headrace.views.feeds.feed._PAGE_ROWS", 2)
    monkeypatch.setattr("headrace.views.feeds.feed._SQUASHED_CHANGES", 5)
    monkeypatch.setattr("headrace.views.feeds.feed._EVENT_BYTES", 250)
    monkeypatch.setattr("headrace.views.feeds.channel.FRAME_BYTES", 80)
    monkeypatch.setattr("headrace.views.feeds.channel.RING_BYTES", 700)


@pytest.fixture
def fresh_path(tmp_path: Path) -> Callable[[], Path]:
    numbers = iter(range(1_000_000))
    return lambda: tmp_path / f"{next(numbers)}.sqlite"


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps)
def test_a_subscriber_always_has_the_view_at_its_token(
    fresh_path: Callable[[], Path], script: list[tuple[str, Any]]
):
    asyncio.run(_live(fresh_path(), script))


def test_a_subscriber_that_was_away_for_long_is_told_the_latest_rows_only(tmp_path: Path):
    async def live() -> None:
        world = World(tmp_path / "view.sqlite")
        world.apply([("k0", {"n": 1})], history=True)
        slow = Subscriber(world, Scope())
        while await slow.read():
            pass
        slow.leave()
        for number in range(30):
            world.apply([("k0", {"n": number}), ("k1", {"n": 0}), ("k1", None)], history=True)
        world.apply([("k0", {"n": 2})], history=True)
        await asyncio.sleep(0.02)
        again = Subscriber(world, Scope(), slow.token)
        event = await again.feed.next()
        (data,) = map(json.loads, event.data)
        assert event.name == "must-refetch"
        while await again.read():
            pass
        again.leave()
        recent = Token(world.state.handle, world.state.sequence - 12)
        late = Subscriber(world, Scope(), recent)
        event = await late.feed.next()
        (data,) = map(json.loads, event.data)
        assert data["squashed"]
        assert [each["key"] for each in data["changes"]] == ["k0"]
        late.take(event)
        late.leave()
        world.store.close()

    asyncio.run(live())
