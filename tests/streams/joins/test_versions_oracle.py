"""Random events and versions, joined batch by batch, equal what the as-of join of SQL gives."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.streams.joins.sides import Side
from headrace.streams.joins.versions import VersionedLookup
from tests.streams.joins.bucket import JoinRun, Row
from tests.streams.sql import query

EVENTS = pa.schema([("k", pa.string()), ("n", pa.int64()), ("t", pa.int64())])
TABLE = pa.schema(
    [("k", pa.string()), ("v", pa.int64()), ("since", pa.int64()), ("_deleted", pa.bool_())]
)
VERSIONS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("since", pa.int64())])
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
        self.counts = {"too_old": 0, "no_time": 0, "retroactive": 0}

    def batch(self, events: list[Row], changes: list[Row], watermark: int | None) -> list[Any]:
        before = self.watermark
        fresh = {
            (row["k"], row["since"]): None if row["_deleted"] else row["v"]
            for row in changes
            if row["k"] is not None and row["since"] is not None
        }
        self.versions |= fresh
        if self.waits and before is not None:
            self.counts["retroactive"] += sum(since < before for _, since in fresh)
        if watermark is not None:
            self.watermark = max(watermark, self.watermark or watermark)
        asking = [*self.waiting, *events]
        if self.waits:
            self.waiting = [each for each in asking if not self._due(each)]
            asking = [each for each in asking if self._due(each)]
            asking.sort(key=lambda each: (-1 if each["t"] is None else each["t"], each["n"]))
        found = self._versions([each for each in asking if self._can_ask(each, before)])
        told = [(each["n"], found.get(each["n"])) for each in asking]
        return [each for each in told if self.how == "left" or each[1] is not None]

    def _due(self, event: Row) -> bool:
        known = self.watermark is not None
        return event["t"] is None or (known and event["t"] < self.watermark)

    def _can_ask(self, event: Row, before: int | None) -> bool:
        time = event["t"]
        if time is None:
            self.counts["no_time"] += 1
            return False
        old = self.keep is not None and before is not None and time < before - self.keep
        self.counts["too_old"] += old
        return not old

    def _versions(self, events: list[Row]) -> dict[int, int | None]:
        """What each event finds, by its number."""
        versions = [
            {"k": key, "since": since, "v": value} for (key, since), value in self.versions.items()
        ]
        found = query(
            """
            select events.n, versions.v from events asof join versions
            on events.k = versions.k and events.t >= versions.since
            """,
            {"events": (EVENTS, events), "versions": (VERSIONS, versions)},
        )
        return {row["n"]: row["v"] for row in found}


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
def test_what_is_told_equals_the_as_of_join_in_order(
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


LOG = pa.schema(
    [("k", pa.string()), ("v", pa.int64()), ("since", pa.int64()), ("recorded", pa.int64())]
)
logged = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b"]),
            "v": st.one_of(st.integers(0, 9), st.none()),
            "since": st.integers(0, 60),
            "recorded": st.integers(0, 80),
        }
    ),
    max_size=12,
)


def as_told(row: Row, wait: int) -> Row:
    """A change of the log as the operator is given it; a deletion holds since it was recorded."""
    claim = row["recorded"] if row["v"] is None else row["since"]
    counts = max(claim, row["recorded"] - wait)
    deleted = row["v"] is None
    return {"k": row["k"], "v": row["v"], "since": counts, "claim": claim, "_deleted": deleted}


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    changes=logged,
    asked=st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 70)), max_size=10),
    wait=st.integers(0, 15),
    data=st.data(),
)
def test_as_known_later_is_the_same_whatever_is_read_when(
    changes: list[Row], asked: list[tuple[str, int]], wait: int, data: Any
):
    changes = sorted(changes, key=lambda each: each["recorded"])
    rows = [{"k": key, "n": number, "t": time} for number, (key, time) in enumerate(asked)]
    table = pa.schema([*TABLE, ("claim", pa.int64())])
    side, on = Side(EVENTS, ("k",), "t"), {"k": "k"}
    operator = VersionedLookup("j", side, table, ("k",), "since", on, "t", wait=wait, claim="claim")
    at_once, in_pieces = (JoinRun(operator, {"events": EVENTS, "table": table}) for _ in range(2))
    at_once.batch(FOREVER, events=rows, table=[as_told(each, wait) for each in changes])
    read = 0
    for reached in (*sorted(data.draw(st.lists(st.integers(0, 90), max_size=4))), FOREVER):
        if data.draw(st.booleans()):
            in_pieces.restart()
        # All is there that was recorded by then, and perhaps more.
        least = sum(each["recorded"] <= reached for each in changes)
        end = data.draw(st.integers(max(least, read), len(changes)))
        part = [as_told(each, wait) for each in changes[read:end]]
        taken = [each for each in rows if data.draw(st.booleans()) or reached == FOREVER]
        rows = [each for each in rows if each not in taken]
        in_pieces.batch(reached, events=taken, table=part)
        read = end
    assert sorted(map(str, in_pieces.told)) == sorted(map(str, at_once.told))
    assert [each["n"] for each in at_once.told] == expected_order(asked)
    found = {each["n"]: each["v"] for each in at_once.told}
    assert found == known_later(changes, asked, wait)


def expected_order(asked: list[tuple[str, int]]) -> list[int]:
    return sorted(range(len(asked)), key=lambda number: asked[number][1])


def known_later(
    changes: list[Row], asked: list[tuple[str, int]], wait: int
) -> dict[int, int | None]:
    """What each event finds, by SQL."""
    rows = [{"k": key, "n": number, "t": time} for number, (key, time) in enumerate(asked)]
    versions = [
        {**each, "since": each["recorded"] if each["v"] is None else each["since"]}
        for each in changes
    ]
    sql = f"""
        select e.n, arg_max_null(c.v, c.since * 1000 + c.place) as v
        from events e left join (select *, row_number() over () as place from changes) c
            on e.k = c.k and c.since <= e.t and c.recorded <= e.t + {wait}
        group by e.n
    """
    found = query(sql, {"events": (EVENTS, rows), "changes": (LOG, versions)})
    return {row["n"]: row["v"] for row in found}
