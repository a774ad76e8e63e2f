"""Random events and versions, joined batch by batch, equal what a plain computation gives."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.streams.joins.sides import Side
from headrace.streams.joins.versions import VersionedLookup
from tests.streams.joins.bucket import JoinRun, Row

EVENTS = pa.schema([("k", pa.string()), ("n", pa.int64()), ("t", pa.int64())])
TABLE = pa.schema(
    [("k", pa.string()), ("v", pa.int64()), ("since", pa.int64()), ("_deleted", pa.bool_())]
)
SCHEMAS = {"events": EVENTS, "table": TABLE}
FOREVER = 1_000_000

KEYS = st.sampled_from(["a", "b", None])
TIMES = st.one_of(st.integers(0, 60), st.integers(0, 60), st.none())
events = st.lists(st.fixed_dictionaries({"k": KEYS, "t": TIMES}), max_size=6)
changes = st.lists(
    st.fixed_dictionaries(
        {
            "k": KEYS,
            "v": st.integers(0, 9),
            "since": TIMES,
            "_deleted": st.sampled_from([False, False, None, True]),
        }
    ),
    max_size=5,
)
batches = st.lists(
    st.tuples(events, changes, st.one_of(st.none(), st.integers(0, 70)), st.booleans()), max_size=8
)


class Model:
    """All versions there ever were, and the events that wait."""

    def __init__(self, how: str, keep: int | None, waits: bool) -> None:
        self.how, self.keep, self.waits = how, keep, waits
        self.versions: dict[tuple[str, int], int | None] = {}
        self.waiting: list[Row] = []
        self.watermark: int | None = None
        self.counts = {"too_old": 0, "no_time": 0}

    def batch(self, events: list[Row], changes: list[Row], watermark: int | None) -> list[Any]:
        for row in changes:
            if row["k"] is not None and row["since"] is not None:
                value = None if row["_deleted"] else row["v"]
                self.versions[row["k"], row["since"]] = value
        before = self.watermark
        if watermark is not None:
            self.watermark = max(watermark, self.watermark or watermark)
        asking = [*self.waiting, *events]
        if self.waits:
            self.waiting = [each for each in asking if not self._due(each)]
            asking = [each for each in asking if self._due(each)]
            asking.sort(key=lambda each: (-1 if each["t"] is None else each["t"], each["n"]))
        found = [(each["n"], self._version(each, before)) for each in asking]
        return [each for each in found if self.how == "left" or each[1] is not None]

    def _due(self, event: Row) -> bool:
        known = self.watermark is not None
        return event["t"] is None or (known and event["t"] < self.watermark)

    def _version(self, event: Row, before: int | None) -> int | None:
        time = event["t"]
        if time is None:
            self.counts["no_time"] += 1
            return None
        if self.keep is not None and before is not None and time < before - self.keep:
            self.counts["too_old"] += 1
            return None
        mine = [since for key, since in self.versions if key == event["k"] and since <= time]
        return self.versions[event["k"], max(mine)] if mine else None


def run_of(how: str, keep: int | None, waits: bool) -> JoinRun:
    side = Side(EVENTS, ("k",), "t" if waits else None)
    on = {"k": "k"}
    return JoinRun(VersionedLookup("j", side, TABLE, ("k",), "since", on, "t", how, keep), SCHEMAS)


@pytest.mark.parametrize("how", ["left", "inner"])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    planned=batches,
    keep=st.one_of(st.none(), st.integers(0, 30)),
    waits=st.booleans(),
)
def test_what_is_told_equals_a_plain_computation_in_order(
    how: str, planned: list[Any], keep: int | None, waits: bool
):
    run, model = run_of(how, keep, waits), Model(how, keep, waits)
    number = timeless = 0
    for given_rows, given_changes, watermark, restarts in [*planned, ([], [], FOREVER, True)]:
        rows = [{**row, "n": number + at} for at, row in enumerate(given_rows)]
        if how == "inner":
            rows = [row for row in rows if row["k"] is not None]
        number += len(given_rows)
        # What was forgotten cannot be known to a change that is older than that.
        oldest = -1 if keep is None or model.watermark is None else model.watermark - keep
        changed = [row for row in given_changes if row["since"] is None or row["since"] >= oldest]
        timeless += len({row["k"] for row in changed if row["since"] is None} - {None})
        if restarts:
            run.restart()
        told = run.batch(watermark, events=rows, table=changed)
        assert [(row["n"], row["v"]) for row in told] == model.batch(rows, changed, watermark)
    counts = {**model.counts, "no_time": model.counts["no_time"] + timeless}
    assert run.counts == {reason: rows for reason, rows in counts.items() if rows}
    if keep is not None:
        assert run.rows_kept() <= 2


@settings(max_examples=30, deadline=None)
@given(planned=batches, size=st.integers(1, 7))
def test_without_late_versions_batches_do_not_matter_and_the_order_is_the_same(
    planned: list[Any], size: int
):
    rows = [dict(row) for batch in planned for row in batch[0] if row["t"] is not None]
    rows = [{**row, "n": at} for at, row in enumerate(rows)]
    changed = [row for batch in planned for row in batch[1]]
    at_once, in_pieces = run_of("left", None, waits=True), run_of("left", None, waits=True)
    at_once.batch(FOREVER, events=rows, table=changed)
    for at in range(0, max(len(rows), len(changed)), size):
        part = slice(at, at + size)
        in_pieces.batch(events=rows[part], table=changed[part])
    for reached in (20, 40, FOREVER):
        in_pieces.batch(reached)
    assert at_once.told == in_pieces.told
