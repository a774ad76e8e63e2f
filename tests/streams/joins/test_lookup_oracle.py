"""Random events and changes, joined batch by batch, equal what a plain computation gives."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.streams.joins.lookup import Lookup
from headrace.streams.joins.sides import Side
from tests.streams.joins.bucket import JoinRun, Row

EVENTS = pa.schema([("k", pa.string()), ("n", pa.int64()), ("t", pa.int64())])
TABLE = pa.schema([("k", pa.string()), ("v", pa.int64()), ("_deleted", pa.bool_())])

KEYS = st.sampled_from(["a", "b", "c", None])
events = st.lists(
    st.fixed_dictionaries({"k": KEYS, "t": st.one_of(st.integers(0, 60), st.none())}), max_size=6
)
changes = st.lists(
    st.fixed_dictionaries(
        {"k": KEYS, "v": st.integers(0, 3), "_deleted": st.sampled_from([False, False, None, True])}
    ),
    max_size=4,
)
batches = st.lists(
    st.tuples(events, changes, st.one_of(st.none(), st.integers(0, 70)), st.booleans()), max_size=8
)


class Model:
    """The table as it is, and who waits for a row."""

    def __init__(self, how: str, wait: int | None) -> None:
        self.how, self.wait = how, wait
        self.table: dict[Any, int] = {}
        self.waiting: list[Row] = []
        self.watermark: int | None = None
        self.unmatched = 0

    def batch(self, events: list[Row], changes: list[Row], watermark: int | None) -> list[Any]:
        for row in changes:
            self.table.pop(row["k"], None)
            if not row["_deleted"]:
                self.table[row["k"]] = row["v"]
        if watermark is not None:
            self.watermark = max(watermark, self.watermark or watermark)
        told: list[Any] = []
        still = []
        for row in [*self.waiting, *events]:
            if row["k"] is not None and row["k"] in self.table:
                told.append((row["n"], self.table[row["k"]]))
            elif self._patient(row):
                still.append(row)
            elif row in events:
                told += self._without(row)
        given_up = [row for row in self.waiting if row not in still and row["k"] not in self.table]
        for row in sorted(given_up, key=lambda each: (each["t"], each["n"])):
            told += self._without(row)
        self.waiting = still
        return told

    def _patient(self, row: Row) -> bool:
        if self.wait is None or row["k"] is None or row["t"] is None:
            return False
        return self.watermark is None or row["t"] + self.wait >= self.watermark

    def _without(self, row: Row) -> list[Any]:
        if self.how == "left":
            return [(row["n"], None)]
        self.unmatched += self.wait is not None
        return []


@pytest.mark.parametrize("how", ["left", "inner"])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(planned=batches, wait=st.one_of(st.none(), st.integers(0, 20)))
def test_what_is_told_equals_a_plain_computation_in_order(
    how: str, planned: list[Any], wait: int | None
):
    operator = Lookup("join", Side(EVENTS, ("k",), "t"), TABLE, ("k",), {"k": "k"}, how, wait)
    run, model = JoinRun(operator, {"events": EVENTS, "table": TABLE}), Model(how, wait)
    number = 0
    for given_rows, changed, watermark, restarts in [*planned, ([], [], 1_000_000, True)]:
        rows = [{**row, "n": number + at} for at, row in enumerate(given_rows)]
        number += len(rows)
        if restarts:
            run.restart()
        told = run.batch(watermark, events=rows, table=changed)
        assert [(row["n"], row["v"]) for row in told] == model.batch(rows, changed, watermark)
    assert run.counts == ({"unmatched": model.unmatched} if model.unmatched else {})
    assert run.rows_kept() == len([key for key in model.table if key is not None])


@settings(max_examples=30, deadline=None)
@given(planned=batches)
def test_with_the_table_first_batches_do_not_matter(planned: list[Any]):
    operator = Lookup("join", Side(EVENTS, ("k",), "t"), TABLE, ("k",), {"k": "k"})
    runs = [JoinRun(operator, {"events": EVENTS, "table": TABLE}) for _ in range(2)]
    rows = [{**row, "n": 0} for batch in planned for row in batch[0]]
    changed = [row for batch in planned for row in batch[1]]
    runs[0].batch(events=rows, table=changed)
    for row in changed:
        runs[1].batch(table=[row])
    for row in rows:
        runs[1].batch(events=[row])
    counts = [Counter(tuple(row.values()) for row in run.told) for run in runs]
    assert counts[0] == counts[1]
