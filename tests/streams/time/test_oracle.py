"""Whole flows over random events, killed at random: their table is what a plain computation gives.

Each example takes seconds, so there are few; `--examples 50` runs as many as that.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.streams import Flow
from headrace.streams.time import Watermark
from headrace.streams.windows.kinds import Aligned, Session, Sliding, Window
from headrace.testing import FlowHarness
from headrace.testing.harness.crashes import KillPoint
from tests.streams.time.batches import table_of
from tests.streams.windows.model import Model

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

KINDS = (Aligned(10, 10), Aligned(12, 4), Sliding(7), Session(3))
POLICIES = (("drop", 0), ("side", 0), ("correct", 6))
END = 1_000_000
"""A time after all others, which closes every window."""

Row = dict[str, Any]
Table = dict[tuple[Any, ...], tuple[Any, ...]]

event = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b"]),
        "t": st.integers(0, 60),
        "partition": st.integers(0, 2),
    }
)
step = st.tuples(st.lists(event, min_size=2, max_size=12), st.sampled_from([None, *KillPoint]))


@dataclass(frozen=True)
class Plan:
    """An example: windows, and what happens to a flow that has them."""

    kind: Window
    late: str
    lateness: int
    emit: str
    delay: int
    steps: list[tuple[list[Row], KillPoint | None]]

    def flow(self) -> Flow:
        flow = Flow("oracle")
        rules = Watermark(out_of_order=timedelta(microseconds=self.delay))
        events = flow.stream("events", "k string, v bigint, t bigint", time="t", watermark=rules)
        lateness = timedelta(microseconds=self.lateness) if self.lateness else None
        table = events.window(
            self.kind, by="k", late=self.late, lateness=lateness, emit=self.emit
        ).agg(n="count(*)", total="sum(v)")
        flow.topic("changes", table.changes())
        if self.late != "drop":
            flow.topic("late", table.late.select("v"))
        return flow


@st.composite
def plans(draw: Any) -> Plan:
    late, lateness = draw(st.sampled_from(POLICIES))
    steps = draw(st.lists(step, min_size=2, max_size=4))
    numbers = iter(range(1000))
    numbered = [
        ([{**each, "v": next(numbers)} for each in events], point) for events, point in steps
    ]
    closing = [{"k": "end", "t": END, "v": 0, "partition": number} for number in range(3)]
    return Plan(
        draw(st.sampled_from(KINDS)),
        late,
        lateness,
        draw(st.sampled_from(["final", "updates"])),
        draw(st.integers(0, 5)),
        [*numbered, (closing, None)],
    )


def test_a_flow_that_is_killed_tells_what_a_plain_computation_does(
    spark: "SparkSession", pytestconfig: pytest.Config
):
    @settings(
        max_examples=pytestconfig.getoption("--examples"),
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(plan=plans().filter(is_worth_it))
    def check(plan: Plan) -> None:
        killed, late = run(plan, spark, kills=True)
        assert run(plan, spark, kills=False) == (killed, late), "a kill changed the output"
        accepted, dropped = judged(plan)
        assert applied(killed) == expected(plan, accepted)
        if plan.late != "drop":
            assert sorted(each["v"] for each in late) == sorted(each["v"] for each in dropped)

    check()


def is_worth_it(plan: Plan) -> bool:
    """Whether something comes late, and the flow is killed: each example takes long."""
    return bool(judged(plan)[1]) and any(point is not None for _, point in plan.steps)


def run(plan: Plan, spark: "SparkSession", *, kills: bool) -> tuple[list[Row], list[Row]]:
    """The changes and the late rows of a flow."""
    with FlowHarness(plan.flow(), spark=spark, tasks=2) as harness:
        for events, point in plan.steps:
            for each in events:
                row = {name: each[name] for name in ("k", "v", "t")}
                harness.send("events", row, partition=each["partition"])
            if point is None or not kills:
                harness.step()
            else:
                harness.kill(after=point)
                harness.restart()
        late = [] if plan.late == "drop" else harness.rows("late")
        return harness.rows("changes"), late


def judged(plan: Plan) -> tuple[list[Row], list[Row]]:
    """The events that windows take, with the watermark before them, and those that they do not."""
    model = Model(plan.kind, plan.lateness)
    latest: dict[int, int] = {}
    before: dict[int, int | None] = {}
    for events, _ in plan.steps:
        before |= {each["v"]: model.watermark for each in events if each["k"] != "end"}
        for each in events:
            place = each["partition"]
            latest[place] = max(each["t"], latest.get(place, 0))
        reached = min(latest.values()) - plan.delay if latest else None
        model.batch([each for each in events if each["k"] != "end"], reached)
    left_out = {each["v"] for each in model.late}
    everything = [each for events, _ in plan.steps for each in events if each["k"] != "end"]
    accepted = [each for each in everything if each["v"] not in left_out]
    return [{**each, "before": before[each["v"]]} for each in accepted], model.late


def expected(plan: Plan, accepted: list[Row]) -> Table:
    schema = {"k": pl.String, "t": pl.Int64, "v": pl.Int64, "before": pl.Int64}
    rows = [{name: each[name] for name in schema} for each in accepted]
    found = table_of(plan.kind, pl.DataFrame(rows, schema), plan.lateness)
    return {tuple(row[:3]): tuple(row[3:]) for row in found}


def applied(changes: list[Row]) -> Table:
    """The table that changes give one after the other; every one must fit what is there."""
    table: Table = {}
    for each in changes:
        key = (micros(each["window_start"]), micros(each["window_end"]), each["k"])
        values = (each["n"], each["total"])
        match each["_change"]:
            case "insert":
                assert key not in table
                table[key] = values
            case "update_after":
                assert key in table
                table[key] = values
            case "update_before":
                assert table[key] == values
            case "delete":
                assert table.pop(key) == values
    return {key: values for key, values in table.items() if key[2] != "end"}


def micros(text: str) -> int:
    beginning = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    return (datetime.fromisoformat(text) - beginning) // timedelta(microseconds=1)
