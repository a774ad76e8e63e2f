"""The tests that every sink passes; derive from `SinkContract` to put yours to them.

    class TestMySink(SinkContract):
        @pytest.fixture
        def target(self) -> SinkTarget:
            return MyTarget()

A target makes sinks, turns numbers into rows for them and reads numbers back as a reader would.
`headrace.streams.sinks.contract` says what is promised and why.
"""

import itertools
import pickle
import random
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import pytest

from headrace.streams.sinks.contract import (
    Batch,
    Fenced,
    Outcome,
    Overtaken,
    PartitionsChanged,
    Place,
    Sink,
    Written,
)

if TYPE_CHECKING:
    import pyarrow as pa

_PATIENCE_SECONDS = 60.0


class SinkTarget(Protocol):
    """What a sink writes to, as its test sees it; empty at first, and used by one test."""

    @property
    def sink(self) -> Sink:
        """The sink under test."""
        ...

    def rows(self, numbers: Sequence[int]) -> "pa.RecordBatch":
        """Rows for the sink, each with one of the numbers in it."""
        ...

    def seen(self) -> list[int]:
        """The numbers of all rows that a reader sees now, repetitions included, in any order.

        Waits for what is committed but still on its way to readers, if there is such a time.
        """
        ...


class Attempt:
    """A task that writes a place and stops after its first rows until it is told to go on."""

    def __init__(self, target: SinkTarget, place: Place, numbers: Sequence[int]) -> None:
        self._target = target
        self._numbers = numbers
        self._underway = threading.Event()
        self._go_on = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        self._done: Future[Written] = self._thread.submit(
            lambda: copied(target.sink).write(place, self._rows())
        )

    def wait_until_underway(self) -> "Attempt":
        """Return once the sink has taken some of the rows."""
        self._done.add_done_callback(lambda _: self._underway.set())
        assert self._underway.wait(_PATIENCE_SECONDS), "the sink does not ask for rows"
        return self

    def finish(self) -> Written:
        """Let it go on to its end, and see what it says."""
        self._go_on.set()
        try:
            return self._done.result(_PATIENCE_SECONDS)
        finally:
            self._thread.shutdown()

    def _rows(self) -> "Iterator[pa.RecordBatch]":
        half = len(self._numbers) // 2
        yield self._target.rows(self._numbers[:half])
        self._underway.set()
        assert self._go_on.wait(_PATIENCE_SECONDS), "nobody told this attempt to go on"
        yield self._target.rows(self._numbers[half:])


class Crash(Exception):
    """What stops reading in the middle."""


class SinkContract:
    """What a sink promises, test by test."""

    seeds: Sequence[int] = range(5)
    """Where the random histories begin; more of them find more."""

    @pytest.fixture
    def target(self) -> SinkTarget:
        """Override this: a new target for each test."""
        raise NotImplementedError("override the fixture `target`")

    def test_rows_are_seen_once_they_are_written(self, target: SinkTarget) -> None:
        """The plain case, with several places and several batches."""
        query = new_query()
        for batch in (Batch(query, 0, 2), Batch(query, 1, 2)):
            target.sink.begin(batch)
            for partition in range(2):
                numbers = range(
                    partition * 100 + batch.id * 10, partition * 100 + batch.id * 10 + 5
                )
                written = write(target, batch.place(partition), numbers)
                assert (written.outcome, written.rows) == (Outcome.WRITTEN, 5)
        assert sorted(target.seen()) == [
            start + number for start in (0, 10, 100, 110) for number in range(5)
        ]

    def test_a_place_is_written_once_however_often_it_comes(self, target: SinkTarget) -> None:
        """A batch that failed elsewhere, or after its end, comes again as a whole."""
        batch = begun(target, Batch(new_query(), 3, 2))
        assert write(target, batch.place(0), range(10)).outcome is Outcome.WRITTEN
        for _ in range(3):
            begun(target, batch)
            assert write(target, batch.place(0), range(10)) == Written(Outcome.REPEATED)
        assert write(target, batch.place(1), range(10, 20)).outcome is Outcome.WRITTEN
        assert sorted(target.seen()) == list(range(20))

    def test_an_older_batch_writes_nothing_and_says_so(self, target: SinkTarget) -> None:
        """Somebody whose time is over must notice, and must not believe that it has written."""
        query = new_query()
        for number in (0, 1):
            batch = begun(target, Batch(query, number, 1))
            write(target, batch.place(0), [number])
        assert write(target, Batch(query, 0, 1).place(0), [7]) == Written(Outcome.OVERTAKEN)
        with pytest.raises(Overtaken):
            target.sink.begin(Batch(query, 0, 1))
        assert sorted(target.seen()) == [0, 1]

    def test_a_batch_cut_differently_is_refused(self, target: SinkTarget) -> None:
        """Its rows are in other places, so that what was written cannot be recognised."""
        batch = begun(target, Batch(new_query(), 4, 2))
        write(target, batch.place(0), [1, 2])
        with pytest.raises(PartitionsChanged, match="begun with 2 partitions"):
            target.sink.begin(Batch(batch.query, 4, 3))
        with pytest.raises(PartitionsChanged):
            write(target, Batch(batch.query, 4, 3).place(0), [1, 2])
        assert sorted(target.seen()) == [1, 2]

    def test_a_batch_cut_differently_is_refused_before_it_writes_anything(
        self, target: SinkTarget
    ) -> None:
        """Even if the place that comes first was not written the first time."""
        batch = begun(target, Batch(new_query(), 4, 2))
        write(target, batch.place(1), [1, 2])
        with pytest.raises(PartitionsChanged):
            target.sink.begin(Batch(batch.query, 4, 1))

    def test_the_next_batch_may_be_cut_differently(self, target: SinkTarget) -> None:
        """Numbers of partitions change with the size of batches."""
        query = new_query()
        for number, partitions in enumerate((3, 1, 2)):
            batch = begun(target, Batch(query, number, partitions))
            for partition in range(partitions):
                write(target, batch.place(partition), [number * 10 + partition])
        assert sorted(target.seen()) == [0, 1, 2, 10, 20, 21]

    def test_queries_do_not_know_of_each_other(self, target: SinkTarget) -> None:
        """The same numbers in the same place are other rows if the query is another."""
        for number in range(2):
            batch = begun(target, Batch(new_query(), 0, 1))
            assert write(target, batch.place(0), [number]).outcome is Outcome.WRITTEN
        assert sorted(target.seen()) == [0, 1]

    def test_a_place_without_rows_is_no_trouble(self, target: SinkTarget) -> None:
        """There may be more partitions than rows."""
        batch = begun(target, Batch(new_query(), 0, 1))
        for _ in range(2):
            written = target.sink.write(batch.place(0), iter([target.rows([])]))
            assert written.rows == 0
        assert target.seen() == []

    def test_rows_are_seen_all_at_once(self, target: SinkTarget) -> None:
        """Nobody sees the first half of a place."""
        batch = begun(target, Batch(new_query(), 0, 1))
        attempt = Attempt(target, batch.place(0), range(10)).wait_until_underway()
        assert target.seen() == []
        attempt.finish()
        assert sorted(target.seen()) == list(range(10))

    def test_what_fails_in_the_middle_has_written_nothing(self, target: SinkTarget) -> None:
        """The rows come from a computation, which may fail."""
        batch = begun(target, Batch(new_query(), 0, 1))
        with pytest.raises(Crash):
            target.sink.write(batch.place(0), broken(target, range(10)))
        assert target.seen() == []
        assert write(target, batch.place(0), range(10)).outcome is Outcome.WRITTEN
        assert sorted(target.seen()) == list(range(10))

    def test_a_slow_attempt_is_fenced_by_the_one_that_replaces_it(self, target: SinkTarget) -> None:
        """Spark believed it lost, or started a second one because it was slow."""
        batch = begun(target, Batch(new_query(), 0, 1))
        zombie = Attempt(target, batch.place(0), range(10)).wait_until_underway()
        assert write(target, batch.place(0), range(10)).outcome is Outcome.WRITTEN
        with pytest.raises(Fenced):
            zombie.finish()
        assert sorted(target.seen()) == list(range(10))

    def test_a_zombie_cannot_write_after_later_batches(self, target: SinkTarget) -> None:
        """It may wake up at any time."""
        query = new_query()
        batch = begun(target, Batch(query, 0, 1))
        zombie = Attempt(target, batch.place(0), range(10)).wait_until_underway()
        write(target, batch.place(0), range(10))
        write(target, begun(target, Batch(query, 1, 1)).place(0), range(10, 20))
        with pytest.raises(Fenced):
            zombie.finish()
        assert sorted(target.seen()) == list(range(20))

    def test_attempts_at_the_same_moment_write_once(self, target: SinkTarget) -> None:
        """Whichever wins, one does, and at most the last one to begin can have been first."""
        batch = begun(target, Batch(new_query(), 0, 1))

        def attempt(_: int) -> Outcome | None:
            try:
                return write(target, batch.place(0), range(10)).outcome
            except Fenced:
                return None

        with ThreadPoolExecutor(4) as threads:
            outcomes = list(threads.map(attempt, range(8)))
        if Outcome.WRITTEN not in outcomes:
            # Fenced after its transaction was accepted: written, but never told.
            assert write(target, batch.place(0), range(10)).outcome is Outcome.REPEATED
        assert outcomes.count(Outcome.WRITTEN) <= 1
        assert sorted(target.seen()) == list(range(10))

    def test_random_histories_write_everything_once(self, target: SinkTarget) -> None:
        """Writes, repetitions, failures, zombies and their awakening in any order."""
        expected: set[int] = set()
        numbers = itertools.count()
        for seed in self.seeds:
            chance = random.Random(seed)  # noqa: S311
            expected |= History(target, chance, numbers).run()
        assert sorted(target.seen()) == sorted(expected)


class History:
    """A query whose driver and tasks fail at random, but which goes on until the end."""

    batches = 4
    partitions = 2

    def __init__(
        self, target: SinkTarget, chance: random.Random, numbers: "itertools.count[int]"
    ) -> None:
        self._target = target
        self._chance = chance
        self._numbers = numbers
        self._query = new_query()
        self._zombies: list[Attempt] = []

    def run(self) -> set[int]:
        """Run it; what should be seen in the end."""
        expected: set[int] = set()
        for number in range(self.batches):
            batch = Batch(self._query, number, self.partitions)
            rows = [
                [next(self._numbers) for _ in range(self._chance.randint(2, 6))]
                for _ in range(self.partitions)
            ]
            while not self._batch(batch, rows):
                pass
            expected.update(*rows)
        while self._zombies:
            self._wake_zombie()
        return expected

    def _batch(self, batch: Batch, rows: list[list[int]]) -> bool:
        """Try a batch; False if the driver died before it could note that it was done."""
        begun(self._target, batch)
        for partition, numbers in enumerate(rows):
            place = batch.place(partition)
            while self._chance.random() < 0.4:
                self._go_wrong(place, numbers)
            if self._chance.random() < 0.15:
                return False
            write(self._target, place, numbers)
        return self._chance.random() > 0.3

    def _go_wrong(self, place: Place, numbers: list[int]) -> None:
        match self._chance.choice(("crash", "zombie", "wake", "older")):
            case "crash":
                try:
                    written = self._target.sink.write(place, broken(self._target, numbers))
                except Crash:
                    return
                assert written.outcome is Outcome.REPEATED
            case "zombie":
                attempt = Attempt(self._target, place, numbers)
                self._zombies.append(attempt.wait_until_underway())
            case "wake" if self._zombies:
                self._wake_zombie()
            case "older" if place.batch_id > 0:
                older = Place(place.query, place.batch_id - 1, place.partition, place.partitions)
                assert write(self._target, older, [-1]).outcome is not Outcome.WRITTEN

    def _wake_zombie(self) -> None:
        zombie = self._zombies.pop(self._chance.randrange(len(self._zombies)))
        with suppress(Fenced):
            zombie.finish()


def new_query() -> str:
    """The name of a query that never ran."""
    return f"contract-{uuid.uuid4().hex[:12]}"


def begun(target: SinkTarget, batch: Batch) -> Batch:
    """The batch, after a driver has begun it."""
    copied(target.sink).begin(batch)
    return batch


def write(target: SinkTarget, place: Place, numbers: Sequence[int]) -> Written:
    """Write a place from beginning to end, in two pieces, as a task does."""
    half = len(numbers) // 2
    rows = [target.rows(numbers[:half]), target.rows(numbers[half:])]
    return copied(target.sink).write(place, iter(rows))


def broken(target: SinkTarget, numbers: Sequence[int]) -> "Iterator[pa.RecordBatch]":
    """Rows that fail when half of them are read."""
    yield target.rows(numbers[: len(numbers) // 2])
    raise Crash


def copied(sink: Sink) -> Sink:
    """The sink as it arrives in an executor."""
    found: Sink = pickle.loads(pickle.dumps(sink))  # noqa: S301
    return found
