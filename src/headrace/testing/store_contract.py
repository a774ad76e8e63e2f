"""The tests that every store passes; derive from `StoreContract` to put yours to them.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def target(self) -> StoreTarget:
            return MyTarget()

They are those of all sinks (`headrace.testing.sink_contract`), and what is promised of tables: rows
that replace each other, deletions, columns that come later, rows that are refused, and a process
that is killed between any two steps. `headrace.views.stores.contract` says what is promised, and
why.
"""

import os
import random
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from headrace.streams.sinks.contract import Batch, Outcome, Overtaken, Sink
from headrace.streams.sinks.storing import StoreSink
from headrace.testing.sink_contract import SinkContract, SinkTarget, new_query
from headrace.views.stores import RowRefused, Store

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    import pyarrow as pa

KEYED = "people"
"""The table of the tests whose rows have keys."""

ADDED = "numbers"
"""The table of the tests whose rows are only added."""

_USED = ("headrace.views.stores.sessions", "headrace.views.stores.staging", "pyarrow.acero")
"""What is imported while a sink writes, so that it need not be by each of many processes."""

Change = tuple[int, str | None]
"""A key and the name that it has from now on; None deletes it."""


class StoreTarget(SinkTarget, Protocol):
    """A store as its test sees it; empty at first, and used by one test."""

    @property
    def store(self) -> Store:
        """The store under test."""
        ...

    def contents(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table as a reader sees them, in any order; none if there is no table."""
        ...

    def limit(self, table: str) -> bool:
        """Make the store refuse rows of a table whose `name` is longer than 10 characters.

        The table is there already. False if there is no way to make it refuse anything.
        """
        ...

    def steps(self) -> Sequence[str]:
        """What a writer does that others may see: "module:Class.method" or "module:function".

        A process is killed before each call of one of these.
        """
        ...


class NumberedStore:
    """The half of a target that every store shares: numbers as rows of a table."""

    store: Store
    contents: Callable[[str], list[dict[str, Any]]]

    @property
    def sink(self) -> Sink:
        """A sink that adds rows."""
        return StoreSink(self.store, ADDED)

    def rows(self, numbers: Sequence[int]) -> "pa.RecordBatch":
        """Rows with numbers."""
        return numbered_rows(numbers)

    def seen(self) -> list[int]:
        """The numbers of all rows."""
        return [int(each["number"]) for each in self.contents(ADDED)]


class StoreContract(SinkContract):
    """What a store promises, test by test."""

    atomic = True
    """Whether all rows of a place are seen at the same moment; a store without transactions shows
    them one after the other, and what it had shown before a failure stays."""

    killed_batches = 2
    """How many batches are written by processes that are killed; fewer take less long."""

    @pytest.fixture
    def target(self) -> StoreTarget:
        """Override this: a new target for each test."""
        raise NotImplementedError("override the fixture `target`")

    def test_rows_are_seen_all_at_once(self, target: SinkTarget) -> None:
        """Nobody sees the first half of a place, if the store can keep that promise."""
        if not self.atomic:
            pytest.skip("this store shows rows one by one")
        super().test_rows_are_seen_all_at_once(target)

    def test_the_last_row_of_a_key_counts(self, target: StoreTarget) -> None:
        """Within a piece, across pieces, across places and across batches."""
        writer = Writer(target.store)
        writer.write([(1, "ann"), (2, "bob"), (1, "anna")], [(2, "rob"), (3, "cyd")])
        assert people(target) == {1: "anna", 2: "rob", 3: "cyd"}
        writer.write([(3, "sid"), (4, "dan")])
        assert people(target) == {1: "anna", 2: "rob", 3: "sid", 4: "dan"}

    def test_deleted_rows_are_gone_until_they_are_written_again(self, target: StoreTarget) -> None:
        """Also if they never were, and if both happens in one batch."""
        writer = Writer(target.store)
        writer.write([(1, "ann"), (2, "bob"), (3, "cyd")])
        writer.write([(1, None), (9, None)])
        assert people(target) == {2: "bob", 3: "cyd"}
        writer.write([(2, None), (2, "bob"), (3, "sid"), (3, None)], [(1, "new"), (2, None)])
        assert people(target) == {1: "new"}

    def test_a_batch_that_comes_again_changes_nothing(self, target: StoreTarget) -> None:
        """Not even back to what was there before a later one."""
        writer = Writer(target.store)
        writer.write([(1, "old"), (2, "two")])
        writer.write([(1, "new"), (2, None)])
        writer.batch_id -= 1
        writer.write([(1, "new"), (2, None)], outcome=Outcome.REPEATED)
        assert people(target) == {1: "new"}

    def test_nulls_and_every_type_are_kept(self, target: StoreTarget) -> None:
        """What comes out is what went in, as far as a store has such a type."""
        from headrace.testing.typed_rows import typed_rows

        batch = Batch(new_query(), 0, 1)
        sink = StoreSink(target.store, "typed", ("id",))
        sink.begin(batch)
        rows = typed_rows()
        assert sink.write(batch.place(0), iter([rows])).rows == rows.num_rows
        found = sorted(target.contents("typed"), key=lambda row: int(row["id"]))
        assert [row["text"] for row in found] == rows.column("text").to_pylist()
        assert [row.get("whole") is None for row in found] == [
            each is None for each in rows.column("whole").to_pylist()
        ]
        for name in ("whole", "tiny"):
            values = [row.get(name) for row in found]
            assert [None if each is None else int(each) for each in values] == (
                rows.column(name).to_pylist()
            )
        decimals = [row.get("price") for row in found]
        assert [None if each is None else str(each) for each in decimals] == [
            None if each is None else str(each) for each in rows.column("price").to_pylist()
        ]

    def test_columns_that_come_later_are_added(self, target: StoreTarget) -> None:
        """Rows that were there have no value in them, and those that lack one are no error."""
        writer = Writer(target.store)
        writer.write([(1, "ann"), (2, "bob")])
        writer.write([(2, "rob"), (3, "cyd")], extra="city")
        found = {int(row["id"]): row.get("city") for row in target.contents(KEYED)}
        assert found == {1: None, 2: "city of rob", 3: "city of cyd"}
        # Whoever still writes the old columns leaves the new one alone.
        writer.write([(4, "dan")])
        assert people(target) == {1: "ann", 2: "rob", 3: "cyd", 4: "dan"}

    def test_a_row_without_a_key_is_refused(self, target: StoreTarget) -> None:
        """Nobody could say which row it replaces."""
        import pyarrow as pa

        rows = pa.RecordBatch.from_pydict(
            {"id": pa.array([1, None], pa.int64()), "name": ["ann", "nobody"]}
        )
        batch = Batch(new_query(), 0, 1)
        sink = StoreSink(target.store, KEYED, ("id",))
        sink.begin(batch)
        with pytest.raises(RowRefused, match="id is null"):
            sink.write(batch.place(0), iter([rows]))
        assert people(target) == {}

    def test_refused_rows_are_told_and_nothing_else_is_written(self, target: StoreTarget) -> None:
        """Without dead letters one row that is refused stops the batch, and says why."""
        writer = Writer(target.store)
        writer.write([(1, "ann")])
        if not target.limit(KEYED):
            pytest.skip("this store refuses nothing")
        with pytest.raises(RowRefused, match="much too long"):
            writer.write([(1, "anna"), (2, "much too long"), (3, "cyd")])
        assert people(target) == {1: "ann"}

    def test_rows_are_refused_one_by_one(self, target: StoreTarget) -> None:
        """Of a thousand rows exactly those are found that the store does not take."""
        writer = Writer(target.store)
        writer.write([(0, "first")])
        if not target.limit(KEYED):
            pytest.skip("this store refuses nothing")
        refused = {7, 400, 401, 999}
        changes: list[Change] = [
            (number, "much too long" if number in refused else "short") for number in range(1, 1000)
        ]
        changes[500] = (0, None)
        found = applied(target.store, changes)
        assert sorted(changes[row][0] for row in found) == sorted(refused)
        expected = {key: name for key, name in changes if key not in refused and name is not None}
        assert people(target) == expected

    def test_random_changes_lead_to_the_last_state(self, target: StoreTarget) -> None:
        """Whatever comes in whichever batches, with repetitions: the store is what a dict is."""
        for seed in self.seeds:
            chance = random.Random(seed)  # noqa: S311
            writer = Writer(target.store, table=f"{KEYED}_{seed}")
            expected: dict[int, str] = {}
            for number in range(6):
                changes = [_change(chance, number) for _ in range(chance.randint(0, 40))]
                _integrate(expected, changes)
                writer.write(changes)
                if chance.random() < 0.3 and changes:
                    writer.batch_id -= 1
                    writer.write(changes, outcome=Outcome.REPEATED)
            assert people(target, writer.table) == expected, f"seed {seed}"

    @pytest.mark.timeout(300)
    def test_a_process_killed_between_any_two_steps_leaves_nothing_twice(
        self, target: StoreTarget
    ) -> None:
        """The next one goes on, and the store ends as if nothing had happened."""
        batches: list[list[Change]] = [
            [(1, "ann"), (2, "bob"), (3, "cyd")],
            [(2, None), (3, "sid"), (4, "dan")],
        ]
        expected: dict[int, str] = {}
        batches = batches[: self.killed_batches]
        for changes in batches:
            _integrate(expected, changes)
        steps = Killed(target.store, target.steps(), batches, new_query()).at_every_step()
        assert steps > 5, "too few steps to have killed anybody between them"
        for step in range(steps + 1):
            assert people(target, f"{KEYED}_{step}") == expected, f"killed at step {step}"
            rows = target.contents(f"{ADDED}_{step}")
            numbers = sorted(int(row["number"]) for row in rows)
            assert numbers == list(range(10 * len(batches))), f"killed at step {step}"


@dataclass
class Writer:
    """A query that writes batch after batch of changes, each place with what it is given."""

    store: Store
    table: str = KEYED
    query: str = ""
    batch_id: int = 0

    def write(
        self,
        *pieces: Sequence[Change],
        outcome: Outcome = Outcome.WRITTEN,
        extra: str | None = None,
    ) -> None:
        """Write one place of one batch, in pieces."""
        self.query = self.query or new_query()
        sink = StoreSink(self.store, self.table, ("id",))
        batch = Batch(self.query, self.batch_id, 1)
        sink.begin(batch)
        rows = [changed_rows(each, extra) for each in pieces if each]
        written = sink.write(batch.place(0), iter(rows))
        assert written.outcome is outcome or not rows
        self.batch_id += 1


@dataclass(frozen=True)
class Killed:
    """Processes that write the same batches to tables of their own, and are killed."""

    store: Store
    steps: Sequence[str]
    batches: list[list[Change]]
    query: str

    def at_every_step(self) -> int:
        """Kill one at its first step, one at its second and so on; how many were killed.

        After each comes another that finishes its work.
        """
        # From a process of its own, which has no connections and no threads that forks could hurt.
        context = get_context("forkserver")
        modules = [each.partition(":")[0] for each in self.steps]
        context.set_forkserver_preload([__name__, *_USED, *dict.fromkeys(modules)])
        here, there = context.Pipe()
        process = context.Process(target=self._kill_at_every_step, args=[there])
        process.start()
        there.close()
        try:
            return int(here.recv())
        except EOFError:
            raise AssertionError("a process failed; it has said why") from None
        finally:
            process.join()

    def _kill_at_every_step(self, told: "Connection") -> None:
        step = 0
        while self._forked(step, step):
            assert not self._forked(step, None)
            step += 1
        told.send(step)

    def _forked(self, table: int, step: int | None) -> bool:
        """Run in a process of its own; whether it was killed."""
        child = os.fork()
        if child == 0:
            try:
                self._run(table, Countdown(step))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status in (0, signal.SIGKILL), f"it ended with {status}"
        return status != 0

    def _run(self, table: int, counter: "Countdown") -> None:
        for each in self.steps:
            counter.watch(each)
        keyed = StoreSink(self.store, f"{KEYED}_{table}", ("id",))
        added = StoreSink(self.store, f"{ADDED}_{table}")
        for number, changes in enumerate(self.batches):
            numbers = numbered_rows(range(number * 10, number * 10 + 10))
            for sink, rows in ((keyed, changed_rows(changes)), (added, numbers)):
                if not rows.num_rows:
                    continue
                batch = Batch(f"{self.query}.{sink.table}", number, 1)
                with suppress(Overtaken):
                    sink.begin(batch)
                    sink.write(batch.place(0), iter([rows]))
                counter.mark()


class Countdown:
    """Kills this process when something has happened so many times."""

    def __init__(self, steps: int | None) -> None:
        self._left = steps

    def mark(self) -> None:
        """One more has happened."""
        if self._left is None:
            return
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    def watch(self, step: str) -> None:
        """Count every call of a function, before it is made."""
        module, _, path = step.partition(":")
        *owners, name = path.split(".")
        owner = reduce(getattr, owners, import_module(module))
        function = getattr(owner, name)

        def counted(*args: Any, **named: Any) -> Any:
            self.mark()
            return function(*args, **named)

        setattr(owner, name, counted)


def numbered_rows(numbers: Sequence[int]) -> "pa.RecordBatch":
    """Rows without a key, each with a number."""
    import pyarrow as pa

    columns = [
        pa.array(list(numbers), pa.int64()),
        pa.array([f"n{each}" for each in numbers], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["number", "name"])


def people(target: StoreTarget, table: str = KEYED) -> dict[int, str]:
    """The names by key, each of which is there once."""
    rows = target.contents(table)
    found = {int(row["id"]): row["name"] for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def changed_rows(changes: Sequence[Change], extra: str | None = None) -> "pa.RecordBatch":
    """Changes as a flow's table tells them."""
    import pyarrow as pa

    columns: dict[str, Any] = {
        "id": pa.array([key for key, _ in changes], pa.int64()),
        "name": pa.array([name for _, name in changes], pa.string()),
    }
    if extra is not None:
        columns[extra] = pa.array([f"{extra} of {name}" for _, name in changes])
    columns["_deleted"] = pa.array([name is None for _, name in changes])
    return pa.RecordBatch.from_pydict(columns)


def applied(store: Store, changes: Sequence[Change]) -> list[int]:
    """Apply changes to a lane of their own; the rows that were refused."""
    from headrace.views.stores import Lane, Position, Shape
    from headrace.views.stores.staging import Staged

    rows = changed_rows(changes)
    shape = Shape(KEYED, rows.schema.remove(2), ("id",))
    refused: list[int] = []
    session = store.session()
    try:
        session.prepare(shape)
        claim = session.claim(Lane(new_query(), "0"))
        with Staged([rows], ("id",)) as staged:
            session.apply(
                claim,
                Position(0),
                shape,
                staged.chunks(),
                lambda found: refused.extend(each.row for each in found),
            )
    finally:
        session.close()
    return refused


def _change(chance: random.Random, number: int) -> Change:
    name = None if chance.random() < 0.3 else f"{number}-{chance.randrange(1000)}"
    return chance.randrange(12), name


def _integrate(state: dict[int, str], changes: Sequence[Change]) -> None:
    for key, name in changes:
        if name is None:
            state.pop(key, None)
        else:
            state[key] = name
