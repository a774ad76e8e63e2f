"""DBLog's windows: whatever is written meanwhile, the topic ends as the table does."""

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.capture.changes import Column, ColumnType, Op, RowChange, Table, TableName, TypeKind
from headrace.capture.snapshot.windows import (
    Closed,
    Opened,
    Stale,
    Windows,
    high_mark,
    identity,
    low_mark,
)
from headrace.capture.source import Chunk

NAME = TableName("public", "t")
INT = ColumnType(TypeKind.INT32, "int4")
TABLE = Table(NAME, (Column("id", INT, nullable=False), Column("n", INT)), (0,))


def insert(key: int, n: int = 0) -> RowChange:
    return RowChange(Op.INSERT, TABLE, None, (key, n))


def chunk(*rows: tuple[int, int], unseen: tuple[str, ...] = ()) -> Chunk:
    last = (str(rows[-1][0]),) if rows else None
    return Chunk(TABLE, rows, last, complete=True, unseen=frozenset(unseen))


@pytest.fixture
def windows() -> Windows:
    found = Windows()
    found.expect("w", NAME)
    return found


def test_rows_that_changed_between_the_marks_are_left_out(windows: Windows) -> None:
    windows.changed(insert(1))
    assert windows.mark(low_mark("w")) == Opened("w")
    windows.changed(insert(2))
    windows.changed(RowChange(Op.UPDATE, TABLE, (3, None), (4, 0)))
    windows.changed(RowChange(Op.DELETE, TABLE, (5, None), None))
    windows.fill("w", chunk(*((key, 9) for key in range(1, 7))))
    closed = windows.mark(high_mark("w"))
    assert isinstance(closed, Closed)
    assert closed.rows == [(1, 9), (6, 9)]
    assert not windows.watching


def test_changes_of_other_tables_do_not_matter(windows: Windows) -> None:
    other = Table(TableName("public", "other"), TABLE.columns, (0,))
    windows.mark(low_mark("w"))
    windows.changed(RowChange(Op.INSERT, other, None, (1, 1)))
    windows.fill("w", chunk((1, 1)))
    closed = windows.mark(high_mark("w"))
    assert isinstance(closed, Closed)
    assert list(closed.rows) == [(1, 1)]


def test_a_table_that_was_emptied_meanwhile_leaves_nothing(windows: Windows) -> None:
    windows.mark(low_mark("w"))
    windows.emptied(NAME)
    windows.fill("w", chunk((1, 1)))
    closed = windows.mark(high_mark("w"))
    assert isinstance(closed, Closed)
    assert list(closed.rows) == []


def test_marks_of_an_earlier_run_mean_nothing(windows: Windows) -> None:
    assert windows.mark(low_mark("earlier")) is None
    assert windows.mark(high_mark("earlier")) is None
    assert windows.mark("hello") is None


def test_a_chunk_is_stale_if_it_missed_what_was_told_before_it(windows: Windows) -> None:
    windows.committed("7")
    windows.mark(low_mark("w"))
    windows.fill("w", chunk((1, 1), unseen=("7",)))
    assert windows.mark(high_mark("w")) == Stale("w")


def test_what_is_told_between_the_marks_may_be_missed(windows: Windows) -> None:
    windows.mark(low_mark("w"))
    windows.committed("7")
    windows.fill("w", chunk((1, 1), unseen=("7", "8")))
    assert isinstance(windows.mark(high_mark("w")), Closed)


def test_keys_that_are_not_equal_to_themselves_are_still_one_key() -> None:
    nan = float("nan")
    assert identity(TABLE, (float("nan"), 1)) == identity(TABLE, (nan, 2))
    assert identity(TABLE, ([1, [2]], 1)) == identity(TABLE, ([1, [2]], 1))


@dataclass
class Entry:
    """A transaction in the log: a change of one row, or a mark."""

    id: str
    key: int = 0
    n: int | None = None
    before: int | None = None
    """The key that it had, if that changed."""
    mark: str = ""


@dataclass
class Stored:
    """What a crash leaves."""

    topic: dict[int, int] = field(default_factory=dict)
    reached: int = 0
    low: int = -1
    done: bool = False
    recent: list[str] = field(default_factory=list)


class Simulation:
    """A database, a log and a capture, which take steps in any order that is possible.

    A transaction is in the log a while before others see it, as in a real database. The topic is
    written in transactions that group several steps, and a crash takes back the open one.
    """

    KEYS = 8
    LIMIT = 3

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.committed: dict[int, int] = dict.fromkeys(range(0, self.KEYS, 2), 0)
        self.visible = dict(self.committed)
        self.becoming: list[Entry] = []
        self.log: list[Entry] = []
        self.stored = Stored()
        self.number = 0
        self.seen: Counter[str] = Counter()
        self.start()

    def start(self) -> None:
        self.topic = dict(self.stored.topic)
        self.reached, self.low, self.done = (
            self.stored.reached,
            self.stored.low,
            self.stored.done,
        )
        self.windows = Windows(self.stored.recent)
        self.window = ""
        self.phase = "done" if self.done else "ready"
        self.next = self.low

    def crash(self) -> None:
        self.seen[f"crash {self.phase}"] += 1
        self.start()

    def flush(self) -> None:
        recent = self.windows.last_told()
        self.stored = Stored(dict(self.topic), self.reached, self.low, self.done, recent)

    def write(self) -> None:
        self.number += 1
        key, kind = self.chance.randrange(self.KEYS), self.chance.random()
        if any(key == each.key or key == each.before for each in self.becoming):
            return  # its row is locked until others see the change
        entry = Entry(str(self.number), key, self.number)
        if kind < 0.3 and key in self.committed:
            entry.n = None
        elif kind < 0.5 and key in self.committed:
            free = [each for each in range(self.KEYS) if each not in self.committed]
            locked = {each.key for each in self.becoming}
            free = [each for each in free if each not in locked]
            if free:
                entry.before, entry.key = key, self.chance.choice(free)
        _apply(self.committed, entry)
        self.log.append(entry)
        self.becoming.append(entry)

    def show(self) -> None:
        if self.becoming:
            # Not in the order of the log: that is how commits become visible.
            entry = self.becoming.pop(self.chance.randrange(len(self.becoming)))
            _apply(self.visible, entry)

    def read(self) -> None:
        """The reader's next step."""
        if self.phase == "ready":
            self.number += 1
            self.window = f"w{self.number}"
            self.windows.expect(self.window, NAME)
            self.log.append(Entry(f"m{self.number}", mark=low_mark(self.window)))
            self.phase = "marked low"
        elif self.phase == "marked low":
            keys = sorted(key for key in self.visible if key > self.next)[: self.LIMIT]
            rows = [(key, self.visible[key]) for key in keys]
            unseen = frozenset(each.id for each in self.becoming)
            last = (str(keys[-1]),) if keys else None
            found = Chunk(TABLE, rows, last, len(keys) < self.LIMIT, unseen=unseen)
            self.windows.fill(self.window, found)
            self.phase = "read"
        elif self.phase == "read":
            self.log.append(Entry(f"m{self.number} high", mark=high_mark(self.window)))
            self.phase = "marked high"

    def follow(self) -> None:
        """The stream's next transaction."""
        if self.reached == len(self.log):
            return
        entry = self.log[self.reached]
        self.reached += 1
        if entry.mark:
            self.mark(entry.mark)
        else:
            for key in (entry.before, entry.key):
                if key is not None:
                    self.windows.changed(RowChange(Op.UPDATE, TABLE, None, (key, 0)))
            _apply(self.topic, entry)
        self.windows.committed(entry.id)

    def mark(self, mark: str) -> None:
        outcome = self.windows.mark(mark)
        if isinstance(outcome, Stale):
            self.seen["stale"] += 1
            self.phase = "ready"
        elif isinstance(outcome, Closed):
            for key, n in outcome.rows:
                self.topic[key] = n
            self.seen["left out"] += len(outcome.chunk.rows) - len(outcome.rows)
            if outcome.chunk.last is not None:
                self.low = self.next = int(outcome.chunk.last[0])
            self.done = outcome.chunk.complete
            self.phase = "done" if self.done else "ready"

    def run(self, steps: int) -> None:
        moves = [self.write, self.show, self.read, self.follow, self.flush, self.crash]
        for _ in range(steps):
            self.chance.choices(moves, (30, 20, 30, 30, 6, 3))[0]()
        while self.becoming:
            self.show()
        while not self.done or self.reached < len(self.log):
            self.read()
            self.follow()


def _apply(rows: dict[int, int], entry: Entry) -> None:
    if entry.before is not None:
        rows.pop(entry.before, None)
    if entry.n is None:
        rows.pop(entry.key, None)
    else:
        rows[entry.key] = entry.n


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 120))
def test_the_topic_ends_as_the_table_does(chance: random.Random, steps: int) -> None:
    simulation = Simulation(chance)
    simulation.run(steps)
    assert simulation.topic == simulation.committed


def test_the_simulation_crashes_in_every_state_of_a_window() -> None:
    seen: Counter[str] = Counter()
    for seed in range(200):
        simulation = Simulation(random.Random(seed))
        simulation.run(120)
        assert simulation.topic == simulation.committed, seed
        seen += simulation.seen
    states = {"ready", "marked low", "read", "marked high", "done"}
    assert {f"crash {state}" for state in states} | {"stale", "left out"} <= seen.keys()
