"""Every aggregate over whole groups, over parts of them, and against plain Python."""

import math
import statistics
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.windows.aggregates import (
    Aggregate,
    AggregateOverflow,
    InvalidAggregate,
    Windows,
    contains,
)
from headrace.streams.windows.aggregates.collecting import TopK
from headrace.streams.windows.aggregates.functions import called
from headrace.streams.windows.groups import Groups

SECONDS = 10


def result(aggregate: Aggregate, *columns: pl.Series, cuts: tuple[int, ...] = ()) -> Any:
    """The result over one group whose rows came in parts that end at these cuts."""
    rows = len(columns[0])
    ends = sorted({min(each, rows) for each in cuts} | {rows})
    starts = [0, *ends[:-1]]
    parts = [
        aggregate.partial([each[start:end] for each in columns], one_group(end - start))
        for start, end in zip(starts, ends, strict=True)
        if end > start
    ]
    kinds = aggregate.columns([each.to_arrow().type for each in columns])
    kept = [pl.concat([each[number] for each in parts]) for number in range(len(kinds))]
    merged = aggregate.merge(kept, one_group(len(parts)))
    told = aggregate.result(merged, Windows(np.array([0]), np.array([SECONDS * 1_000_000])))
    return told.to_list()[0]


def one_group(rows: int) -> Groups:
    return Groups(None, np.zeros(1, np.int64), rows)


def sql(name: str, *numbers: str) -> Aggregate:
    return called(name, [*["x"] * (2 if name.endswith("_by") else 1), *numbers])[0]


numbers = st.lists(st.one_of(st.none(), st.integers(-(10**9), 10**9)), min_size=1, max_size=30)
floats = st.lists(
    st.one_of(st.none(), st.floats(-1e6, 1e6, allow_subnormal=False)), min_size=1, max_size=30
)
some_cuts = st.lists(st.integers(1, 30), max_size=4).map(tuple)
ORDER_FREE = ["count", "sum", "avg", "min", "max", "stddev", "variance", "stddev_pop", "rate"]
ORDER_FREE += ["count_distinct", "approx_count_distinct", "collect_set", "bloom"]


@pytest.mark.parametrize("name", ORDER_FREE)
@settings(max_examples=25, deadline=None)
@given(values=st.one_of(numbers, floats), cuts=some_cuts, order=st.randoms(use_true_random=False))
def test_order_and_portions_make_no_difference(name: str, values: list[Any], cuts: Any, order: Any):
    kind = pl.Float64 if any(isinstance(each, float) for each in values) else pl.Int64
    shuffled = [*values]
    order.shuffle(shuffled)
    whole = result(sql(name), pl.Series(values, dtype=kind))
    assert result(sql(name), pl.Series(shuffled, dtype=kind), cuts=cuts) == whole


@settings(max_examples=50, deadline=None)
@given(values=numbers, cuts=some_cuts)
def test_numbers_agree_with_plain_python(values: list[int | None], cuts: Any):
    column = pl.Series(values, dtype=pl.Int64)
    there = [each for each in values if each is not None]

    def of(name: str) -> Any:
        return result(sql(name), column, cuts=cuts)

    assert of("count") == len(there)
    assert of("sum") == (sum(there) if there else None)
    assert of("min") == min(there, default=None)
    assert of("max") == max(there, default=None)
    assert of("count_distinct") == len(set(there))
    assert of("collect_set") == sorted(set(there))
    if there:
        assert of("avg") == pytest.approx(statistics.fmean(there), rel=1e-12)
        assert of("stddev_pop") == pytest.approx(statistics.pstdev(there), rel=1e-12)
        assert of("rate") == pytest.approx(sum(there) / SECONDS)
        assert of("median") == sorted(there)[(len(there) - 1) // 2]
    if len(there) > 1:
        assert of("variance") == pytest.approx(statistics.variance(there), rel=1e-12)
    else:
        assert of("stddev") is None


@settings(max_examples=50, deadline=None)
@given(
    values=st.lists(st.floats(-1e15, 1e15, allow_subnormal=False), min_size=1, max_size=40),
    cuts=some_cuts,
)
def test_a_sum_of_floats_is_the_exact_sum_rounded(values: list[float], cuts: Any):
    exact = float(sum(map(Fraction, values)))
    assert result(sql("sum"), pl.Series(values), cuts=cuts) == pytest.approx(
        exact, rel=1e-15, abs=1e-12
    )


def test_sums_that_lose_everything_in_plain_floats():
    assert result(sql("sum"), pl.Series([1e16, 1.0, -1e16]), cuts=(1, 2)) == 1.0


def test_infinity_and_not_a_number_stay_what_they_are():
    assert result(sql("sum"), pl.Series([1.0, math.inf])) == math.inf
    assert math.isnan(result(sql("sum"), pl.Series([math.inf, -math.inf])))
    assert math.isnan(result(sql("max"), pl.Series([1.0, math.nan])))
    assert result(sql("min"), pl.Series([1.0, math.nan])) == 1.0


def test_a_sum_that_does_not_fit_says_so():
    large = pl.Series([2**62, 2**62, -(2**62)])
    assert result(sql("sum"), large, cuts=(1, 2)) == 2**62
    with pytest.raises(AggregateOverflow, match="decimal"):
        result(sql("sum"), large[:2])


def test_decimals_are_summed_as_decimals():
    prices = pl.Series([Decimal("0.10"), None, Decimal("0.20")], dtype=pl.Decimal(10, 2))
    assert result(sql("sum"), prices, cuts=(1,)) == Decimal("0.30")
    assert result(sql("avg"), prices) == Decimal("0.150000")
    assert result(sql("max"), prices) == Decimal("0.20")


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), min_size=1, max_size=20),
    cuts=some_cuts,
    order=st.randoms(use_true_random=False),
)
def test_first_last_and_lists_follow_event_time(rows: list[Any], cuts: Any, order: Any):
    expected = sorted(rows, key=lambda each: (each[1], each[0]))
    order.shuffle(rows)
    values = pl.Series([each[0] for each in rows])
    times = pl.Series([each[1] for each in rows])
    assert result(sql("first"), values, times, cuts=cuts) == expected[0][0]
    assert result(sql("last"), values, times, cuts=cuts) == expected[-1][0]
    assert result(sql("collect_list"), values, times, cuts=cuts) == [each[0] for each in expected]


@settings(max_examples=30, deadline=None)
@given(values=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=60), cuts=some_cuts)
def test_the_most_frequent_are_within_the_stated_error(values: list[str], cuts: Any):
    true = Counter(values)
    for entry in result(TopK(3, 3), pl.Series(values), cuts=cuts):
        assert entry["count"] <= true[entry["value"]] <= entry["count"] + entry["error"]
        assert entry["error"] <= len(values) / 4
    exact = result(sql("top_k", "2"), pl.Series(values), cuts=cuts)
    best = sorted(true.items(), key=lambda each: (-each[1], each[0]))[:2]
    assert [(each["value"], each["count"], each["error"]) for each in exact] == [
        (value, count, 0) for value, count in best
    ]


@pytest.mark.parametrize("count", [10, 1_000, 100_000])
def test_approximate_distinct_is_within_five_standard_errors(count: int):
    values = pl.Series(np.arange(count) % (count // 2))
    found = result(sql("approx_count_distinct"), values, cuts=(count // 3, count // 2))
    assert abs(found - count // 2) <= 5 * 0.016 * (count // 2)


@pytest.mark.parametrize("pieces", [1, 7, 100])
def test_quantiles_are_within_two_percent_of_rank(pieces: int):
    values = pl.Series(np.random.default_rng(1).permutation(50_000).astype(np.float64))
    cuts = tuple(range(0, 50_000, 50_000 // pieces))[1:]
    shares = (0.01, 0.25, 0.5, 0.75, 0.99)
    found = result(sql("quantiles", *map(str, shares)), values, cuts=cuts)
    assert [
        abs(each / 50_000 - share) < 0.02 for each, share in zip(found, shares, strict=True)
    ] == [True] * 5
    again = result(sql("quantiles", *map(str, shares)), values, cuts=cuts)
    assert again == found


def test_a_filter_knows_all_of_its_values_and_few_others():
    held = pl.Series([f"user-{number}" for number in range(1000)])
    others = pl.Series([f"robot-{number}" for number in range(10_000)])
    found = result(sql("bloom"), held, cuts=(300,))
    assert contains(found, held).all()
    assert contains(found, others).sum() < 200
    assert not contains(found, pl.Series([None], dtype=pl.String)).any()
    with pytest.raises(InvalidAggregate, match="no Bloom filter"):
        contains(b"\x07\x01\x00", held)


@pytest.mark.parametrize("name", ["sum", "avg", "stddev", "quantile", "rate"])
def test_numbers_are_asked_for_where_they_are_needed(name: str):
    parameters = ["0.5"] if name == "quantile" else []
    with pytest.raises(InvalidAggregate, match="numbers"):
        sql(name, *parameters).columns([pa.string()])


@dataclass(frozen=True)
class Product(Aggregate):
    """The aggregate that the protocol's documentation shows."""

    def columns(self, arguments: Any) -> Any:
        return (pa.float64(),)

    def result_type(self, arguments: Any) -> Any:
        return pa.float64()

    def partial(self, arguments: Any, groups: Groups) -> Any:
        return groups.combined(arguments, pl.col("0").cast(pl.Float64).product())

    def merge(self, columns: Any, groups: Groups) -> Any:
        return groups.combined(columns, pl.col("0").product())

    def result(self, columns: Any, windows: Windows) -> Any:
        return columns[0]


def test_an_aggregate_of_ones_own():
    assert result(Product(), pl.Series([1, 2, 3, 4]), cuts=(1, 3)) == 24.0
