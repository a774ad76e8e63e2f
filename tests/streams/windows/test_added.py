"""Aggregates that were added to windows with state: what they have not seen, they do not tell."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from headrace.streams.windows.aggregates.functions import called
from headrace.streams.windows.aggregates.sums import Count
from headrace.streams.windows.measures import Call, Measures

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
EVENTS = pl.DataFrame({"k": [1, 1, 2, 3], "v": [5, 6, 7, 8]})


def _results(measures: Measures, parts: pl.DataFrame) -> list[pl.Series]:
    merged = measures.merged(parts, ["k"]).sort("k")
    bounds = np.zeros(merged.height, np.int64), np.full(merged.height, 1_000_000, np.int64)
    return measures.results(merged, *bounds)


@pytest.mark.parametrize(
    "written",
    [
        ("sum", "v"),
        ("count",),
        ("max", "v"),
        ("last", "v"),
        ("collect_list", "v"),
        ("approx_count_distinct", "v"),
        ("quantile", "v", "0.5"),
        ("top_k", "v", "2"),
        ("bloom", "v"),
    ],
)
def test_a_window_of_which_it_has_not_seen_everything_is_null(written: tuple[str, ...]):
    aggregate, arguments = called(written[0], written[1:])
    calls = {"x": Call(aggregate, arguments, added=True), "n": Call(Count())}
    measures = Measures(calls, SCHEMA, "at")
    plain = Measures({**calls, "x": Call(aggregate, arguments)}, SCHEMA, "at")
    times = pl.Series([1, 2, 3, 4])
    seen = measures.partial(EVENTS, ["k"], times).select("k", *measures.columns)
    stored = seen.with_columns(
        pl.lit(None).cast(kind).alias(name)
        for name, kind in seen.schema.items()
        if name.startswith("x.")
    )
    added, counted = _results(measures, pl.concat([seen, stored.filter(pl.col("k") == 2)]))
    wanted, _ = _results(plain, plain.partial(EVENTS, ["k"], times))
    expected = wanted.to_list()
    assert added.to_list() == [expected[0], None, expected[2]]
    assert counted.to_list() == [2, 2, 1]
    nothing, _ = _results(measures, pl.concat([stored, stored]))
    assert nothing.to_list() == [None, None, None]
