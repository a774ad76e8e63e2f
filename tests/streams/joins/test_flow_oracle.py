"""Whole flows with joins over random changes and events, killed at random, equal what SQL says.

Each example takes seconds, so there are few; `--examples 50` runs as many as that.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.streams import Flow
from headrace.streams.time import Watermark
from headrace.testing import FlowHarness
from headrace.testing.harness.crashes import KillPoint
from tests.streams.sql import query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

ORDERS = pa.schema([("id", pa.int64()), ("user", pa.int64()), ("price", pa.int64())])
USERS = pa.schema([("user", pa.int64()), ("city", pa.string())])
EVENTS = pa.schema([("n", pa.int64()), ("user", pa.int64()), ("t", pa.int64())])
RATES = pa.schema([("user", pa.int64()), ("rate", pa.int64()), ("since", pa.int64())])
END = 1_000_000
"""A time after all others, which ends all waiting."""

Row = dict[str, Any]

SOME = st.integers(1, 4)
order = st.fixed_dictionaries({"id": SOME, "user": st.one_of(SOME, st.none()), "price": SOME})
user = st.fixed_dictionaries({"user": SOME, "city": st.sampled_from(["Oslo", "Rome"])})
event = st.fixed_dictionaries({"user": SOME, "t": st.integers(0, 60)})
rate = st.fixed_dictionaries({"user": SOME, "rate": SOME, "since": st.integers(0, 60)})
changed = st.tuples(order, st.booleans()), st.tuples(user, st.booleans())


@dataclass(frozen=True)
class Step:
    """What comes between two batches, and whether the flow dies in the second one."""

    orders: list[tuple[Row, bool]]
    users: list[tuple[Row, bool]]
    """Rows, and whether they are deleted."""

    left: list[Row]
    right: list[Row]
    rates: list[Row]
    dies: KillPoint | None


step = st.builds(
    Step,
    st.lists(changed[0], max_size=5),
    st.lists(changed[1], max_size=4),
    st.lists(event, min_size=1, max_size=6),
    st.lists(event, min_size=1, max_size=6),
    st.lists(rate, max_size=4),
    st.sampled_from([None, *KillPoint]),
)
how = st.sampled_from(["inner", "left", "right", "full"])


@dataclass
class Tables:
    """What the tables are after the steps so far, and all events and rates there were."""

    orders: dict[int, Row] = field(default_factory=dict)
    users: dict[int, Row] = field(default_factory=dict)
    left: list[Row] = field(default_factory=list)
    right: list[Row] = field(default_factory=list)
    rates: list[Row] = field(default_factory=list)

    def take(self, step: Step) -> None:
        """Let a step have happened."""
        for kept, key, changes in (
            (self.orders, "id", step.orders),
            (self.users, "user", step.users),
        ):
            for row, deleted in changes:
                kept.pop(row[key], None)
                if not deleted:
                    kept[row[key]] = row
        for side, events in ((self.left, step.left), (self.right, step.right)):
            side += [{**each, "n": len(side) + at} for at, each in enumerate(events)]
        self.rates += step.rates

    def joined(self, how: str) -> "Counter[Any]":
        """The join of the tables as they are."""
        sql = f"""
            select o.id, coalesce(o.user, u.user) as user, o.price, u.city
            from orders o {how} join users u on o.user = u.user
        """
        rows = {"orders": self.orders.values(), "users": self.users.values()}
        schemas = {"orders": ORDERS, "users": USERS}
        found = query(sql, {name: (schemas[name], [*each]) for name, each in rows.items()})
        return Counter(tuple(row.values()) for row in found)

    def pairs(self, how: str, bound: int) -> "Counter[Any]":
        """The join of all events within a bound."""
        sql = f"""
            select l.n, r.n as n_right from l {how} join r
            on l.user = r.user and abs(r.t - l.t) <= {bound}
        """
        found = query(sql, {"l": (EVENTS, self.left), "r": (EVENTS, self.right)})
        return Counter(tuple(row.values()) for row in found)

    def rated(self) -> dict[int, int | None]:
        """Of every left event the rate of its time."""
        last = {(row["user"], row["since"]): row for row in self.rates}
        sql = """
            select l.n, v.rate from l asof left join v on l.user = v.user and l.t >= v.since
        """
        found = query(sql, {"l": (EVENTS, self.left), "v": (RATES, [*last.values()])})
        return {row["n"]: row["rate"] for row in found}


def joins(how: str, bound: int) -> Flow:
    """A flow whose watermark waits for everything, so that nothing is late."""
    flow = Flow("oracle")
    patient = Watermark(out_of_order=timedelta(microseconds=100))
    left, right = (
        flow.stream(name, "n bigint, user bigint, t bigint", time="t", watermark=patient)
        for name in ("left", "right")
    )
    orders = flow.table("orders", "id bigint, user bigint, price bigint", key="id")
    users = flow.table("users", "user bigint, city string", key="user")
    rates = flow.table(
        "rates", "user bigint, rate bigint, since bigint", key="user", valid_from="since"
    )
    within = timedelta(microseconds=bound)
    flow.topic("pairs", left.join(right, on="user", within=within, how=how))
    flow.topic("rated", left.lookup(rates, on="user", at="t").select("n", "rate"))
    flow.topic("joined", orders.join(users, on="user", how=how).changes())
    return flow


def test_joins_of_a_flow_that_is_killed_are_those_of_sql(
    spark: "SparkSession", pytestconfig: pytest.Config
):
    @settings(
        max_examples=pytestconfig.getoption("--examples"),
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        steps=st.lists(step, min_size=3, max_size=5).filter(is_worth_it),
        how=how,
        bound=st.integers(1, 20),
    )
    def check(steps: list[Step], how: str, bound: int) -> None:
        tables = Tables()
        with FlowHarness(joins(how, bound), spark=spark, tasks=2) as harness:
            joined: Counter[Any] = Counter()
            for each in steps:
                first = len(tables.left), len(tables.right)
                tables.take(each)
                send(harness, each, tables.left[first[0] :], tables.right[first[1] :])
                run(harness, each.dies)
                apply(harness.take("joined"), joined)
                assert +joined == tables.joined(how)
                assert min(joined.values(), default=0) >= 0
            harness.send("left", {"n": -1, "user": 98, "t": END})
            harness.send("right", {"n": -1, "user": 99, "t": END})
            harness.step()
            pairs = Counter((row["n"], row["n_right"]) for row in harness.rows("pairs"))
            rated = {row["n"]: row["rate"] for row in harness.rows("rated")}
            assert len(harness.rows("rated")) == len(rated)
        assert pairs == tables.pairs(how, bound)
        assert rated == tables.rated()

    check()


def is_worth_it(steps: list[Step]) -> bool:
    """Whether the flow is killed, and a row of each table deleted: each example takes long."""
    return any(each.dies for each in steps) and all(
        any(deleted for each in steps for _, deleted in getattr(each, name))
        for name in ("orders", "users")
    )


def send(harness: FlowHarness, step: Step, left: list[Row], right: list[Row]) -> None:
    for topic, key, changes in (("orders", "id", step.orders), ("users", "user", step.users)):
        for row, deleted in changes:
            if deleted:
                harness.send(topic, None, key=str(row[key]))
            else:
                harness.send(topic, row)
    harness.send("rates", *step.rates)
    harness.send("left", *left)
    harness.send("right", *right)


def run(harness: FlowHarness, dies: KillPoint | None) -> None:
    if dies is None:
        harness.step()
    else:
        harness.kill(after=dies)
        harness.restart()


def apply(changes: list[Row], joined: "Counter[Any]") -> None:
    for each in changes:
        row = tuple(each[name] for name in ("id", "user", "price", "city"))
        joined[row] += -1 if each["_change"] in ("delete", "update_before") else 1
