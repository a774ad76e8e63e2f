"""Joins that run for long, over the same keys again and again, keep no more than at first."""

from collections.abc import Iterator

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from headrace.streams.joins.lookup import Lookup
from headrace.streams.joins.sides import Side
from headrace.streams.joins.versions import VersionedLookup
from headrace.streams.joins.within import WithinJoin
from tests.streams.joins.bucket import JoinRun

EVENTS = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("t", pa.int64())])
TABLE = pa.schema(
    [("k", pa.int64()), ("v", pa.int64()), ("since", pa.int64()), ("_deleted", pa.bool_())]
)
SIDE = Side(EVENTS, ("k",), "t")
BATCHES = 120
ROWS = 2_000
KEYS = 500
STEP = 1_000


def moments(seed: int) -> "Iterator[tuple[int, pl.DataFrame]]":
    """Batches of events, each with the watermark that it reaches."""
    random = np.random.default_rng(seed)
    for batch in range(BATCHES):
        times = batch * STEP + random.integers(0, STEP, ROWS)
        keys = random.integers(0, KEYS, ROWS)
        yield batch * STEP, pl.DataFrame({"k": keys, "n": np.arange(ROWS), "t": times})


def flat(sizes: list[tuple[int, int]]) -> bool:
    """Whether neither rows nor bytes have grown since a third of the time had passed."""
    early, late = sizes[BATCHES // 3 : 2 * BATCHES // 3], sizes[2 * BATCHES // 3 :]
    return all(
        max(each[what] for each in late) <= 1.1 * max(each[what] for each in early)
        for what in (0, 1)
    )


@pytest.mark.parametrize("how", ["inner", "full"])
def test_a_join_within_a_bound_ends_with_as_much_as_it_had(how: str):
    operator = WithinJoin("join", SIDE, SIDE, how, 2 * STEP, 3 * STEP, "n % 50 = n_right % 50")
    run = JoinRun(operator, {"left": EVENTS, "right": EVENTS})
    sizes = []
    others = moments(1)
    for reached, events in moments(2):
        run.frames(reached, left=[events], right=[next(others)[1]])
        sizes.append((run.rows_kept(), run.bytes_kept()))
    assert flat(sizes)
    run.frames(1 << 61, left=[events.clear()], right=[events.clear()])
    assert run.rows_kept() == 0


def test_a_lookup_that_waits_ends_with_as_much_as_it_had():
    operator = Lookup("join", SIDE, TABLE, ("k",), {"k": "k"}, wait=2 * STEP)
    run = JoinRun(operator, {"events": EVENTS, "table": TABLE})
    sizes = []
    for reached, events in moments(3):
        run.frames(reached, events=[events], table=[_changes(events)])
        sizes.append((run.rows_kept(), run.bytes_kept()))
    assert flat(sizes)


def test_versions_end_with_as_much_as_they_had():
    operator = VersionedLookup("join", SIDE, TABLE, ("k",), "since", {"k": "k"}, "t", keep=3 * STEP)
    run = JoinRun(operator, {"events": EVENTS, "table": TABLE})
    sizes = []
    for reached, events in moments(4):
        run.frames(reached, events=[events], table=[_changes(events)])
        sizes.append((run.rows_kept(), run.bytes_kept()))
    assert flat(sizes)


def _changes(events: pl.DataFrame) -> pl.DataFrame:
    """Changes of some of the events' keys, every fifth of them a deletion."""
    return events.gather_every(20).select(
        "k", v=pl.col("n"), since=pl.col("t"), _deleted=pl.col("n") % 100 == 0
    )
