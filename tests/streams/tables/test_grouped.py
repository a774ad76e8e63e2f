"""Aggregates of a table's groups are those of the rows that there are, after every batch."""

import math
import statistics
from collections import Counter
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.streams.errors import InvalidFlow
from headrace.streams.state.table import StateTable
from headrace.streams.tables.changes import CHANGES
from headrace.streams.tables.grouped import GroupedTable
from headrace.streams.windows.aggregates.errors import InvalidAggregate
from headrace.streams.windows.aggregates.sums import Count
from headrace.streams.windows.expressions import taken_apart
from headrace.streams.windows.layout import EVERYTHING
from headrace.streams.windows.measures import Call
from tests.streams.tables.buckets import Buckets, Reader, Row, in_order, marked
from tests.streams.tables.chains import ChangelogChain, Source

COLUMNS = {
    "id": pa.int64(),
    "g": pa.string(),
    "n": pa.int64(),
    "x": pa.float64(),
    "d": pa.decimal128(10, 2),
    "s": pa.string(),
}
SCHEMA = pa.schema(COLUMNS)
ADDED = {
    "rows": "count(*)",
    "some": "count(n)",
    "total": "sum(n)",
    "mean": "avg(n)",
    "floats": "sum(x)",
    "float_mean": "avg(x)",
    "spread": "stddev_pop(x)",
    "money": "sum(d)",
}
KEPT = {
    "least": "min(n)",
    "greatest": "max(x)",
    "latest": "max_by(s, n)",
    "distinct": "count(distinct s)",
    "all": "collect_list(n)",
    "different": "collect_set(s)",
    "frequent": "top_k(s, 2)",
}


class GroupedChain:
    """A table grouped, with what is in front of it."""

    def __init__(self, by: tuple[str, ...], aggregates: dict[str, str], buckets: int = 3) -> None:
        parts = taken_apart(aggregates)
        self.arguments = parts.arguments
        self.results = {name: each.strip("`") for name, each in parts.results.items()}
        self.log = ChangelogChain(SCHEMA, ("id",), buckets)
        made = [(name, COLUMNS[each]) for name, each in self.arguments.items()]
        schema = marked(pa.schema([*SCHEMA, *made]), "_change")
        if not by:
            schema = schema.append(pa.field(EVERYTHING, pa.int8()))
        self.operator = GroupedTable("grouped", schema, by, parts.calls)
        self.run = Buckets(self.operator, {CHANGES: (schema, by or (EVERYTHING,))}, buckets)
        self.by = by

    def batch(self, rows: list[Row]) -> list[pl.DataFrame]:
        frames = self.log.batch(rows)[::-1]
        return self.run.batch({CHANGES: [self._computed(each) for each in frames]})

    def restart(self) -> None:
        self.log.restart()
        self.run.restart()

    def expected(self, rows: list[Row]) -> list[dict[str, Any]]:
        groups: dict[Any, list[Row]] = {}
        for row in rows:
            groups.setdefault(tuple(row[each] for each in self.by), []).append(row)
        found = []
        for key, members in groups.items():
            results = {column: MODEL[name](members) for name, column in self.results.items()}
            found.append({**dict(zip(self.by, key, strict=True)), **results})
        return in_order(found)

    def _computed(self, frame: pl.DataFrame) -> pl.DataFrame:
        everything = [] if self.by else [pl.lit(0, pl.Int8).alias(EVERYTHING)]
        arguments = [pl.col(each).alias(name) for name, each in self.arguments.items()]
        return frame.with_columns(*arguments, *everything)


def told_values(rows: list[Row], column: str) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def mean_of(values: list[Any]) -> Any:
    return math.fsum(values) / len(values) if values else None


def nearly(value: Any) -> Any:
    return value if value is None else pytest.approx(value, rel=1e-14)


def total_of(values: list[Any]) -> Any:
    return sum(values) if values else None


def deviation_of(values: list[float]) -> Any:
    return pytest.approx(statistics.pstdev(values), rel=1e-12, abs=1e-300) if values else None


def latest_of(rows: list[Row]) -> Any:
    pairs = [(row["n"], row["s"]) for row in rows if row["n"] is not None and row["s"] is not None]
    return max(pairs)[1] if pairs else None


def frequent_of(rows: list[Row]) -> Any:
    counts = Counter(told_values(rows, "s"))
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:2]
    return [{"value": value, "count": count, "error": 0} for value, count in ordered]


MODEL: dict[str, Any] = {
    "rows": len,
    "some": lambda rows: len(told_values(rows, "n")),
    "total": lambda rows: total_of(told_values(rows, "n")),
    "mean": lambda rows: nearly(mean_of(told_values(rows, "n"))),
    "floats": lambda rows: math.fsum(values) if (values := told_values(rows, "x")) else None,
    "float_mean": lambda rows: mean_of(told_values(rows, "x")),
    "spread": lambda rows: deviation_of(told_values(rows, "x")),
    "money": lambda rows: total_of(told_values(rows, "d")),
    "least": lambda rows: min(told_values(rows, "n"), default=None),
    "greatest": lambda rows: max(told_values(rows, "x"), default=None),
    "latest": latest_of,
    "distinct": lambda rows: len(set(told_values(rows, "s"))),
    "all": lambda rows: sorted(told_values(rows, "n")),
    "different": lambda rows: sorted(set(told_values(rows, "s"))),
    "frequent": frequent_of,
}

changes = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(1, 6),
            "g": st.sampled_from(["a", "b", None]),
            "n": st.one_of(st.none(), st.integers(-3, 3), st.just(-(2**60))),
            "x": st.one_of(st.none(), st.sampled_from([0.1, 0.2, -1e17, 1e17, 3.5, 1e-9])),
            "d": st.one_of(st.none(), st.sampled_from([Decimal("1.10"), Decimal("-2.25")])),
            "s": st.sampled_from(["p", "q", "r", None]),
            "_deleted": st.sampled_from([False, False, True]),
        }
    ),
    max_size=8,
)


@pytest.mark.parametrize("by", [("g",), ()])
@pytest.mark.parametrize("aggregates", [ADDED, KEPT, {**ADDED, **KEPT}], ids=["net", "kept", "all"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batches=st.lists(st.tuples(changes, st.booleans()), max_size=5))
def test_groups_are_what_their_rows_are(
    by: tuple[str, ...], aggregates: dict[str, str], batches: list[Any]
):
    chain, source = GroupedChain(by, aggregates), Source(SCHEMA, ("id",))
    reader = Reader(by)
    for rows, restarted in batches:
        if restarted:
            chain.restart()
        reader.apply(chain.batch(rows))
        source.write(rows)
        assert reader.rows == chain.expected(list(source.rows.values()))


def grouped(**aggregates: str) -> tuple[GroupedChain, Reader]:
    return GroupedChain(("g",), aggregates), Reader(("g",))


def test_the_runner_up_moves_up_when_the_greatest_is_deleted():
    chain, reader = grouped(top="max(n)")
    reader.apply(chain.batch([{"id": each, "g": "a", "n": each} for each in (1, 2, 3)]))
    reader.apply(chain.batch([{"id": 3, "_deleted": True}]))
    assert [each["Extreme(greatest=True)(n)"] for each in reader.rows] == [2]
    reader.apply(chain.batch([{"id": each, "_deleted": True} for each in (1, 2)]))
    assert reader.rows == []


def test_a_change_that_changes_no_result_is_not_told():
    chain, reader = grouped(total="sum(n)", top="max(n)")
    reader.apply(chain.batch([{"id": 1, "g": "a", "n": 1}, {"id": 2, "g": "a", "n": 2}]))
    assert reader.apply(chain.batch([{"id": 1, "g": "a", "n": 1, "s": "other"}])) == []


def test_a_sum_of_floats_forgets_what_has_gone():
    chain, reader = grouped(total="sum(x)")
    reader.apply(chain.batch([{"id": 1, "g": "a", "x": 0.1}, {"id": 2, "g": "a", "x": 1e17}]))
    reader.apply(chain.batch([{"id": 3, "g": "a", "x": math.inf}]))
    reader.apply(chain.batch([{"id": 2, "_deleted": True}, {"id": 3, "_deleted": True}]))
    assert [each["Sum(x)"] for each in reader.rows] == [0.1]


def test_only_the_extreme_that_has_gone_makes_all_values_be_looked_at(
    monkeypatch: pytest.MonkeyPatch,
):
    chain = GroupedChain(("g",), {"least": "min(n)", "kinds": "count(distinct n)"}, buckets=1)
    chain.batch([{"id": each, "g": "a", "n": each} for each in range(500)])
    read = 0
    lookup = StateTable.lookup

    def counted(*args: Any, **named: Any) -> pl.DataFrame:
        nonlocal read
        rows = lookup(*args, **named)
        read += rows.height
        return rows

    monkeypatch.setattr(StateTable, "lookup", counted)
    # What the log had of the row, and what is known of the group.
    chain.batch([{"id": 7, "_deleted": True}])
    assert read == 2
    chain.batch([{"id": 0, "_deleted": True}])
    assert read == 4 + 498


def test_values_are_kept_once_for_all_aggregates_of_one_expression():
    chain = GroupedChain(("g",), {"a": "min(n)", "b": "max(n)", "c": "min(x)"})
    assert set(chain.operator.description.tables) == {"groups", "values(n)", "values(x)"}


@pytest.mark.parametrize("sql", ["first(n)", "rate(n)", "approx_count_distinct(n)", "median(n)"])
def test_what_cannot_take_back_a_row_is_refused(sql: str):
    with pytest.raises(InvalidAggregate, match="cannot take back a row"):
        GroupedTable(
            "grouped",
            pa.schema({"g": pa.string(), "_argument_0": pa.int64()}),
            ["g"],
            taken_apart({"a": sql}).calls,
        )


def test_an_aggregate_of_the_wrong_type_is_refused():
    schema = pa.schema({"g": pa.string(), "_argument_0": pa.string()})
    with pytest.raises(InvalidAggregate, match="sum is of numbers"):
        GroupedTable("grouped", schema, ["g"], taken_apart({"a": "sum(n)"}).calls)


def test_an_aggregate_that_is_added_to_groups_with_rows_is_refused():
    with pytest.raises(InvalidFlow, match="was added to groups"):
        GroupedTable("grouped", SCHEMA, ["g"], {"rows": Call(Count(), added=True)})


def test_a_result_must_not_be_named_like_the_group():
    with pytest.raises(InvalidFlow, match="two columns are named g"):
        GroupedTable("grouped", SCHEMA, ["g"], {"g": Call(Count())})
