"""Random events joined batch by batch equal what SQL makes of all of them at once."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.streams.joins.sides import Side
from headrace.streams.joins.within import HOW, WithinJoin
from tests.streams.joins.bucket import JoinRun, Row
from tests.streams.sql import query

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", pa.int64())])
FOREVER = 1_000_000

events = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", None]),
            "v": st.integers(0, 3),
            "t": st.one_of(st.integers(-5, 60), st.integers(-5, 60), st.none()),
        }
    ),
    max_size=8,
)
batches = st.lists(
    st.tuples(
        events,
        events,
        st.one_of(st.none(), st.integers(0, 70)),
        st.integers(1, 3),
        st.booleans(),
    ),
    max_size=7,
)
bounds = st.tuples(st.integers(-10, 20), st.integers(-10, 20)).filter(lambda each: sum(each) >= 0)


class Model:
    """Every event that was not late, and how far time has come."""

    def __init__(self, how: str, before: int, after: int, condition: bool) -> None:
        self.how, self.before, self.after, self.condition = how, before, after, condition
        self.watermark: int | None = None
        self.left: list[Row] = []
        self.right: list[Row] = []
        self.counts: Counter[str] = Counter()

    def batch(self, left: list[Row], right: list[Row], watermark: int | None) -> None:
        for side, taken, rows in (("left", self.left, left), ("right", self.right, right)):
            for row in rows:
                if row["k"] is None and self.how not in (side, "full"):
                    # It would be in no result anyhow.
                    continue
                if row["t"] is None:
                    self.counts["no_time"] += 1
                elif self.watermark is not None and row["t"] < self.watermark:
                    self.counts["late"] += 1
                else:
                    taken.append(row)
        if watermark is not None:
            self.watermark = max(watermark, self.watermark or watermark)

    def results(self) -> Counter[Any]:
        """The join of all events; of those that are alone, those that can meet nobody any more."""
        over = -FOREVER if self.watermark is None else self.watermark
        sql = f"""
            select l.v, l.t, r.v as v_right, r.t as t_right
            from l {self.how} join r
                on l.k = r.k and r.t between l.t - {self.before} and l.t + {self.after}
                {"and l.v < r.v" if self.condition else ""}
            where l.t is not null and r.t is not null
                or r.t is null and l.t + {self.after} < {over}
                or l.t is null and r.t + {self.before} < {over}
        """
        found = query(sql, {"l": (SCHEMA, self.left), "r": (SCHEMA, self.right)})
        return Counter(tuple(row.values()) for row in found)


def told(run: JoinRun) -> Counter[Any]:
    return Counter((row["v"], row["t"], row["v_right"], row["t_right"]) for row in run.told)


def run_of(how: str, bound: tuple[int, int], condition: bool, late: str = "drop") -> JoinRun:
    side = Side(SCHEMA, ("k",), "t")
    said = "v < v_right" if condition else None
    operator = WithinJoin("join", side, side, how, *bound, said, late)
    return JoinRun(operator, {"left": SCHEMA, "right": SCHEMA})


@pytest.mark.parametrize("how", HOW)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    planned=batches, bound=bounds, condition=st.booleans(), late=st.sampled_from(["drop", "side"])
)
def test_the_results_equal_those_of_all_events_that_were_not_late(
    how: str, planned: list[Any], bound: tuple[int, int], condition: bool, late: str
):
    run, model = run_of(how, bound, condition, late), Model(how, *bound, condition)
    # Every event is one of its own for the model, whatever Hypothesis has made of it.
    planned = [([*map(dict, left)], [*map(dict, right)], *rest) for left, right, *rest in planned]
    for left, right, watermark, tasks, restarts in [*planned, ([], [], FOREVER, 1, True)]:
        if restarts:
            run.restart()
        run.batch(watermark, tasks, left=left, right=right)
        model.batch(left, right, watermark)
        assert told(run) == model.results()
        if late == "side":
            assert Counter(row["_reason"] for row in run.late) == model.counts
    assert run.rows_kept() == 0
    assert run.counts == model.counts


@pytest.mark.parametrize("how", HOW)
@settings(max_examples=15, deadline=None)
@given(planned=batches, bound=bounds)
def test_the_same_input_gives_the_same_output(how: str, planned: list[Any], bound: tuple[int, int]):
    runs = [run_of(how, bound, condition=False) for _ in range(2)]
    for left, right, watermark, tasks, _ in planned:
        found = [each.batch(watermark, tasks, left=left, right=right) for each in runs]
        assert found[0] == found[1]
        runs[1].restart()


@pytest.mark.parametrize("how", HOW)
@settings(max_examples=15, deadline=None)
@given(planned=batches, bound=bounds, order=st.randoms(use_true_random=False))
def test_without_late_events_order_and_batches_do_not_matter(
    how: str, planned: list[Any], bound: tuple[int, int], order: Any
):
    left = [row for batch in planned for row in batch[0]]
    right = [row for batch in planned for row in batch[1]]
    at_once, in_pieces = (run_of(how, bound, condition=True) for _ in range(2))
    at_once.batch(left=left, right=right)
    order.shuffle(left)
    order.shuffle(right)
    for number in range(0, max(len(left), len(right)), 5):
        part = slice(number, number + 5)
        in_pieces.batch(left=left[part], right=right[part])
    at_once.batch(FOREVER)
    in_pieces.batch(FOREVER)
    assert told(at_once) == told(in_pieces)
