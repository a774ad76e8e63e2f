"""What the queries of Nexmark answer to a handful of events that can be followed by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from benchmarks.auctions import Events, events
from benchmarks.experiment import NothingMeasured
from benchmarks.nexmark_queries import QUERIES
from benchmarks.nexmark_truth import TRUTH, answer, compare

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(second: float) -> datetime:
    return BEGIN + timedelta(seconds=second)


def rows(columns: str, *values: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame(values, columns.split(), orient="row")


FEW = Events(
    people=rows(
        "id name city state at",
        (1, "ada", "Boise", "ID", at(0)),
        (2, "bob", "Seattle", "WA", at(8)),
    ),
    auctions=rows(
        "id seller category expires at",
        (10, 1, 10, at(6), at(1)),
        (11, 1, 10, at(20), at(2)),
        (12, 2, 11, at(30), at(12)),
    ),
    bids=rows(
        "auction bidder price at",
        (10, 5, 100, at(2)),
        (10, 6, 300, at(3)),
        (10, 7, 300, at(4)),
        # Too late, and so is not the winning one.
        (10, 5, 900, at(7)),
        (11, 5, 200, at(11)),
        (12, 6, 50, at(21.5)),
    ),
    side=rows("key value", (10, "ten"), (11, "eleven")),
)


def answered(query: str) -> list[tuple[Any, ...]]:
    kinds = ("people", "auctions", "bids", "side")
    return sorted(answer(TRUTH[query], {kind: getattr(FEW, kind) for kind in kinds}).rows())


def naive(second: float) -> datetime:
    return at(second).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q3", [("ada", "Boise", "ID", 10), ("ada", "Boise", "ID", 11)]),
        ("q4", [(10, 250.0), (11, 50.0)]),
        ("q6", [(1, 250.0), (2, 50.0)]),
        (
            "q7",
            [
                (naive(0), naive(10), 10, 5, 900),
                (naive(10), naive(20), 11, 5, 200),
                (naive(20), naive(30), 12, 6, 50),
            ],
        ),
        ("q8", [(1, "ada", naive(0))]),
        ("q9", [(10, 6, 300), (11, 5, 200), (12, 6, 50)]),
        (
            "q11",
            [
                (naive(2), naive(21), 5, 3),
                (naive(3), naive(13), 6, 1),
                (naive(4), naive(14), 7, 1),
                (naive(21.5), naive(31.5), 6, 1),
            ],
        ),
        ("q12", [(5, 3), (6, 2), (7, 1)]),
    ],
)
def test_the_answer_is_the_one_that_is_found_by_hand(query: str, expected: list[tuple[Any, ...]]):
    assert answered(query) == expected


def test_of_overlapping_windows_each_has_its_own_best():
    assert (naive(-8), naive(2)) not in [row[:2] for row in answered("q5")]
    assert answered("q5")[0] == (naive(-6), naive(4), 10, 2)


def test_every_query_has_an_answer():
    assert QUERIES.keys() == TRUTH.keys()


def test_who_says_something_else_is_not_measured():
    few = events(100)
    compare("q0", few.bids, few, "somebody")
    with pytest.raises(NothingMeasured, match="somebody says something else than DuckDB to q0"):
        compare("q0", few.bids.head(50), few, "somebody")
