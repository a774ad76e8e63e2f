"""The best rows of each group are those of the rows that there are, after every batch."""

from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.streams.errors import InvalidFlow
from headrace.streams.state.table import StateTable
from headrace.streams.tables.changes import CHANGES
from headrace.streams.tables.settled import Settled
from headrace.streams.tables.top_n import TopN
from headrace.streams.windows.layout import EVERYTHING
from tests.streams.tables.buckets import Buckets, Reader, Row, in_order, marked
from tests.streams.tables.chains import ChangelogChain, Source

SCHEMA = pa.schema(
    {"id": pa.int64(), "g": pa.string(), "at": pa.int64(), "likes": pa.int64(), "text": pa.string()}
)


class TopChain:
    """The best rows of a table, with what is in front of it and behind it."""

    def __init__(self, n: int, by: tuple[str, ...] = ("g",), buckets: int = 3) -> None:
        self.log = ChangelogChain(SCHEMA, ("id",), buckets)
        schema = marked(SCHEMA, "_change")
        self.operator = TopN("top", schema, ("id",), by, ("at", "likes"), n, (True, False))
        self.given = schema if by else schema.append(pa.field(EVERYTHING, pa.int8()))
        self.run = Buckets(self.operator, {CHANGES: (self.given, by or (EVERYTHING,))}, buckets)
        self.settled = Buckets(
            Settled("settled", schema, ("id",)), {CHANGES: (schema, ("id",))}, buckets
        )

    def batch(self, rows: list[Row]) -> list[pl.DataFrame]:
        frames = self.log.batch(rows)[::-1]
        if EVERYTHING in self.given.names:
            frames = [each.with_columns(pl.lit(0, pl.Int8).alias(EVERYTHING)) for each in frames]
        return self.settled.batch({CHANGES: self.run.batch({CHANGES: frames})[::-1]})

    def restart(self) -> None:
        self.log.restart()
        self.run.restart()


def expected(rows: list[Row], n: int, by: tuple[str, ...]) -> list[dict[str, Any]]:
    def order(row: Row) -> Any:
        at, likes = row["at"], row["likes"]
        return (at is None, -(at or 0), likes is not None, likes or 0, row["id"])

    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[each] for each in by), []).append(row)
    return in_order(row for each in groups.values() for row in sorted(each, key=order)[:n])


changes = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(1, 12),
            "g": st.sampled_from(["a", "a", "b", None]),
            "at": st.sampled_from([1, 2, 3, None]),
            "likes": st.sampled_from([1, 2, None]),
            "text": st.sampled_from(["x", "y"]),
            "_deleted": st.sampled_from([False, False, True]),
        }
    ),
    max_size=10,
)


@pytest.mark.parametrize("by", [("g",), ()])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(n=st.integers(1, 3), batches=st.lists(st.tuples(changes, st.booleans()), max_size=6))
def test_the_best_are_the_best_of_the_rows_that_there_are(
    by: tuple[str, ...], n: int, batches: list[Any]
):
    chain, source, reader = TopChain(n, by), Source(SCHEMA, ("id",)), Reader(("id",))
    for rows, restarted in batches:
        if restarted:
            chain.restart()
        reader.apply(chain.batch(rows))
        source.write(rows)
        assert reader.rows == expected(list(source.rows.values()), n, by)


few = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 9),
            "at": st.integers(0, 20),
            "_deleted": st.sampled_from([False, True, True]),
        }
    ),
    min_size=1,
    max_size=2,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(n=st.integers(1, 2), batches=st.lists(few, min_size=4, max_size=12))
def test_a_group_that_has_a_rest_stays_right_while_it_shrinks_and_grows(n: int, batches: list[Any]):
    chain, source, reader = TopChain(n, buckets=1), Source(SCHEMA, ("id",)), Reader(("id",))
    for rows in ([{"id": each, "at": 2 * each} for each in range(10)], *batches):
        upserts: list[Row] = [{**row, "g": "a"} for row in rows]
        reader.apply(chain.batch(upserts))
        source.write(upserts)
        assert reader.rows == expected(list(source.rows.values()), n, ("g",))


def test_the_runner_up_moves_up():
    chain, reader = TopChain(2), Reader(("id",))
    reader.apply(chain.batch([{"id": each, "g": "a", "at": each} for each in range(10)]))
    assert [row["id"] for row in reader.rows] == [8, 9]
    told = reader.apply(chain.batch([{"id": 9, "_deleted": True}]))
    assert sorted((row["_change"], row["id"]) for row in told) == [("delete", 9), ("insert", 7)]


def test_what_is_not_among_the_best_is_not_told():
    chain, reader = TopChain(2), Reader(("id",))
    reader.apply(chain.batch([{"id": each, "g": "a", "at": each} for each in range(10)]))
    assert reader.apply(chain.batch([{"id": 3, "g": "a", "at": 3, "text": "other"}])) == []
    assert reader.apply(chain.batch([{"id": 3, "_deleted": True}, {"id": 11, "g": "a"}])) == []


def test_a_large_group_is_looked_at_once_in_many_deletions(monkeypatch: pytest.MonkeyPatch):
    chain = TopChain(10, buckets=1)
    chain.batch([{"id": each, "g": "a", "at": each} for each in range(1000)])
    read: list[int] = []
    lookup = StateTable.lookup

    def counted(*args: Any, **named: Any) -> pl.DataFrame:
        rows = lookup(*args, **named)
        read.append(rows.height)
        return rows

    monkeypatch.setattr(StateTable, "lookup", counted)
    for each in range(999, 977, -1):
        chain.batch([{"id": each, "_deleted": True}])
    # Twenty rows are at hand and ten are told: with the eleventh deletion there are too few.
    assert [each for each in read if each > 20] == [980, 969]


def test_rows_that_are_better_by_nothing_are_refused():
    with pytest.raises(InvalidFlow, match="name at least one column"):
        TopN("top", SCHEMA, ["id"], ["g"], [], 3)
    with pytest.raises(InvalidFlow, match="say it once or of each"):
        TopN("top", SCHEMA, ["id"], ["g"], ["at", "likes"], 3, [True])


def test_the_best_none_rows_are_refused():
    with pytest.raises(InvalidFlow, match="the best 0 rows are none"):
        TopN("top", SCHEMA, ["id"], ["g"], ["at"], 0)


def test_rows_are_not_ordered_by_lists():
    schema = pa.schema({"id": pa.int64(), "tags": pa.list_(pa.string())})
    with pytest.raises(InvalidFlow, match="order by one of its parts"):
        TopN("top", schema, ["id"], [], ["tags"], 3)
