"""Windows over random events equal what a plain computation makes of the same events."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.streams.windows.aggregates.collecting import CollectList
from headrace.streams.windows.aggregates.sums import Count, Sum
from headrace.streams.windows.kinds import Aligned, Session, Sliding, Window
from headrace.streams.windows.measures import Call
from headrace.streams.windows.operators import window_operator
from tests.streams.windows.bucket import WindowRun
from tests.streams.windows.model import Model

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", pa.int64())])
KINDS: dict[str, Window] = {
    "tumbling": Aligned(10, 10),
    "hopping": Aligned(12, 4),
    "hopping unevenly": Aligned(10, 4),
    "sliding": Sliding(7),
    "session": Session(3),
    "session with a maximum": Session(3, 8),
}
POLICIES = [("drop", 0), ("side", 0), ("correct", 6)]

events = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", None]),
            "t": st.one_of(st.integers(-5, 60), st.integers(-5, 60), st.none()),
        }
    ),
    max_size=12,
)
batches = st.lists(
    st.tuples(
        events,
        st.one_of(st.none(), st.integers(0, 70)),
        st.integers(1, 3),
        st.booleans(),
    ),
    max_size=6,
)


def run_of(kind: Window, late: str, lateness: int, emit: str) -> WindowRun:
    operator = window_operator(
        "windows",
        kind,
        by=["k"],
        aggregates={
            "n": Call(Count()),
            "total": Call(Sum(), ("v",)),
            "seen": Call(CollectList(), ("v",)),
        },
        time="t",
        input_schema=SCHEMA,
        late=late,
        lateness=timedelta(microseconds=lateness) if lateness else None,
        emit=emit,
    )
    return WindowRun(operator, SCHEMA)


def numbered(planned: list[Any]) -> list[Any]:
    """Events with a number of their own each, so that none can be taken for another."""
    count = 0
    found = []
    for rows, *rest in planned:
        found.append(([{**each, "v": count + at} for at, each in enumerate(rows)], *rest))
        count += len(rows)
    return found


def expected(table: dict[Any, Any]) -> dict[Any, Any]:
    found = {}
    for key, members in table.items():
        values = [each["v"] for each in sorted(members, key=lambda each: (each["t"], each["v"]))]
        found[key] = (len(values), sum(values), tuple(values))
    return found


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    planned=batches,
    policy=st.sampled_from(POLICIES),
    emit=st.sampled_from(["final", "updates", "every 10s"]),
)
def test_the_table_equals_a_plain_computation(
    name: str, policy: tuple[str, int], emit: str, planned: list[Any]
):
    kind = KINDS[name]
    late, lateness = policy
    run, model = run_of(kind, late, lateness, emit), Model(kind, lateness)
    planned = numbered(planned)
    for number, (rows, watermark, tasks, restarts) in enumerate(planned):
        if restarts:
            run.restart()
        run.batch(rows, watermark, clock=number * 4_000_000, tasks=tasks)
        model.batch(rows, watermark)
        if emit != "every 10s":
            assert run.table == expected(model.table(closed_only=emit == "final"))
    run.batch([], 1_000_000, clock=0)
    model.batch([], 1_000_000)
    assert run.table == expected(model.table(closed_only=True))
    assert run.rows_kept() == 0

    said = Counter({each: count for each, count in run.counts.items() if each != "partly_late"})
    assert said == Counter({"late": len(model.late), "no_time": len(model.timeless)}) + Counter()
    if late != "drop":
        delivered = sorted(each["v"] for each in run.late)
        assert delivered == sorted(each["v"] for each in [*model.late, *model.timeless])
    somewhere = {each for _, _, seen in run.table.values() for each in seen}
    everything = {each["v"] for rows, *_ in planned for each in rows}
    assert everything - somewhere == {each["v"] for each in [*model.late, *model.timeless]}


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=10, deadline=None)
@given(planned=batches)
def test_the_same_input_gives_the_same_output(name: str, planned: list[Any]):
    runs = [run_of(KINDS[name], "correct", 6, "updates") for _ in range(2)]
    for rows, watermark, tasks, _ in numbered(planned):
        told = [each.batch(rows, watermark, tasks=tasks) for each in runs]
        assert told[0] == told[1]
        runs[1].restart()


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=10, deadline=None)
@given(planned=batches, order=st.randoms(use_true_random=False))
def test_without_late_events_order_and_batches_do_not_matter(
    name: str, planned: list[Any], order: Any
):
    rows = [each for batch, *_ in numbered(planned) for each in batch]
    at_once, in_pieces = (run_of(KINDS[name], "drop", 0, emit) for emit in ("final", "updates"))
    at_once.batch(rows)
    order.shuffle(rows)
    for number in range(0, len(rows), 5):
        in_pieces.batch(rows[number : number + 5])
    at_once.batch([], 1_000_000)
    in_pieces.batch([], 1_000_000)
    assert at_once.table == in_pieces.table
