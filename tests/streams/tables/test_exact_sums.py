"""Sums of floats are exact, and what was added can be taken away again."""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.tables.exact_sums import merged, rounded, summed
from headrace.streams.windows.groups import Groups

floats = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True, width=64)


def one_group(count: int) -> Groups:
    return Groups(None, np.zeros(1, np.int64), count)


def total(values: list[float], signs: list[int] | None = None) -> pl.Series:
    series = pl.Series(values, dtype=pl.Float64)
    return summed(series, pl.Series(signs or [1] * len(values)), one_group(len(values)))


def nearest(sums: pl.Series) -> float:
    high, _ = rounded(sums)
    return float(high[0])


def exactly(values: list[float]) -> float:
    try:
        return math.fsum(values)
    except OverflowError:
        # Somewhere on the way there; where the end is, whole numbers know.
        whole = sum(int(each * 2.0**-500 * 2.0**500) for each in values)
        try:
            return float(whole)
        except OverflowError:
            return math.inf if whole > 0 else -math.inf


@settings(max_examples=300, deadline=None)
@given(values=st.lists(floats, min_size=1, max_size=12))
def test_a_sum_is_the_float_that_is_nearest_to_it(values: list[float]):
    assert nearest(total(values)) == exactly(values)


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(floats.filter(lambda each: abs(each) < 1e300), min_size=1, max_size=8),
    gone=st.lists(floats.filter(lambda each: abs(each) < 1e300), max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_what_is_taken_away_leaves_no_trace(values: list[float], gone: list[float], order: Any):
    terms = [(each, 1) for each in values + gone] + [(each, -1) for each in gone]
    order.shuffle(terms)
    cut = order.randrange(len(terms) + 1)
    parts = [
        total(*map(list, zip(*part, strict=True))) for part in (terms[:cut], terms[cut:]) if part
    ]
    sums = merged(pl.concat(parts), one_group(len(parts)))
    assert nearest(sums) == math.fsum(values)
    assert sums.to_list() == total(values).to_list()


@settings(max_examples=200, deadline=None)
@given(values=st.lists(floats.filter(lambda each: abs(each) < 1e300), min_size=1, max_size=8))
def test_the_rest_of_a_sum_is_what_rounding_has_lost(values: list[float]):
    high, low = rounded(total(values))
    assert low[0] == math.fsum([*values, -high[0]])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1] * 10, 1.0),
        ([1e20, 1.0, -1e20], 1.0),
        ([1e308, 1e308, -1e308], 1e308),
        ([1.7e308, 1.7e308], math.inf),
        ([-1.7e308, -1.7e308], -math.inf),
        ([5e-324, 5e-324], 1e-323),
        ([2.0**-1022, -5e-324], 2.0**-1022 - 5e-324),
        ([1.0, 2.0**-53], 1.0),
        ([1.0, 2.0**-53, 5e-324], 1.0 + 2.0**-52),
        ([1.0 + 2.0**-52, 2.0**-53], 1.0 + 2.0**-51),
        ([-0.0, 0.0], 0.0),
        ([math.inf, 1.0], math.inf),
        ([-math.inf, 1.0], -math.inf),
    ],
)
def test_sums_that_floats_get_wrong(values: list[float], expected: float):
    assert nearest(total(values)) == expected


def test_infinity_and_nan_can_be_taken_away():
    values = [1.0, math.inf, -math.inf, math.nan]
    assert math.isnan(nearest(total(values)))
    assert math.isnan(nearest(total([*values, math.nan], [1, 1, 1, 1, -1])))
    gone = [math.inf, -math.inf, math.nan]
    assert nearest(total([*values, *gone], [1] * 4 + [-1] * 3)) == 1.0


def test_every_group_has_a_sum_of_its_own():
    groups = Groups(None, np.array([0, 2, 3]), 6)
    sums = summed(
        pl.Series([1.0, 2.0, None, 4.0, 5.0, 6.0]), pl.Series([1, 1, 1, 1, -1, 1]), groups
    )
    assert rounded(sums)[0].tolist() == [3.0, 0.0, 5.0]
    again = merged(sums, Groups(None, np.array([0, 1]), 3))
    assert rounded(again)[0].tolist() == [3.0, 5.0]
    assert rounded(again[1:])[0].tolist() == [5.0]


def test_of_no_groups_there_are_no_sums():
    nothing = Groups(None, np.empty(0, np.int64), 0)
    sums = summed(pl.Series([], dtype=pl.Float64), pl.Series([], dtype=pl.Int64), nothing)
    assert rounded(sums)[0].tolist() == []
    assert len(merged(sums, nothing)) == 0
