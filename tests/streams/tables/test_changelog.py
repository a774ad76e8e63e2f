"""Upserts become changes, with what the rows were before."""

from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.errors import UnknownColumn
from headrace.streams.tables.changelog import Changelog
from headrace.streams.tables.changes import CHANGES
from headrace.streams.tables.settled import Settled
from tests.streams.tables.buckets import Buckets, Reader, in_order, marked

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("score", pa.float64()),
        ("tags", pa.list_(pa.string())),
    ]
)


def changelog() -> Buckets:
    schema = marked(SCHEMA, "_deleted")
    return Buckets(Changelog("changelog", schema, ["id"]), {CHANGES: (schema, ("id",))})


def upserted(run: Buckets, *rows: dict[str, Any]) -> list[tuple[Any, ...]]:
    told = run.batch({CHANGES: [run.upserts(rows)]})
    return [(row["_change"], row["id"], row["name"]) for each in told for row in each.to_dicts()]


def test_a_new_row_is_inserted():
    assert upserted(changelog(), {"id": 1, "name": "a"}) == [("insert", 1, "a")]


def test_an_update_tells_what_the_row_was():
    run = changelog()
    upserted(run, {"id": 1, "name": "a"})
    assert upserted(run, {"id": 1, "name": "b"}) == [
        ("update_before", 1, "a"),
        ("update_after", 1, "b"),
    ]


def test_a_deletion_tells_what_the_row_was():
    run = changelog()
    upserted(run, {"id": 1, "name": "a"})
    assert upserted(run, {"id": 1, "_deleted": True}) == [("delete", 1, "a")]
    assert upserted(run, {"id": 1, "_deleted": True}) == []


def test_an_upsert_of_what_is_there_tells_nothing():
    run = changelog()
    row = {"id": 1, "name": "a", "score": float("nan"), "tags": ["x", None]}
    upserted(run, row)
    assert upserted(run, row) == []
    assert upserted(run, {**row, "tags": ["x", "y"]}) != []


def test_of_several_changes_in_a_batch_the_last_one_counts():
    run = changelog()
    gone = {"id": 1, "_deleted": True}
    assert upserted(run, {"id": 1, "name": "a"}, gone, {"id": 1, "name": "c"}) == [
        ("insert", 1, "c")
    ]
    assert upserted(run, gone, {"id": 1, "name": "c"}) == []


def test_null_is_a_key_like_others():
    run = changelog()
    upserted(run, {"id": None, "name": "a"}, {"id": 1, "name": "b"})
    assert upserted(run, {"id": None, "_deleted": True}) == [("delete", None, "a")]


def test_a_key_that_is_no_column_is_refused():
    with pytest.raises(UnknownColumn, match="did you mean name"):
        Changelog("changelog", SCHEMA, ["nam"])


rows = st.fixed_dictionaries(
    {
        "id": st.sampled_from([1, 2, 3, 4, None]),
        "name": st.sampled_from(["a", "b", None]),
        "_deleted": st.sampled_from([False, False, True, None]),
    }
)


@settings(max_examples=60, deadline=None)
@given(batches=st.lists(st.tuples(st.lists(rows, max_size=8), st.booleans()), max_size=8))
def test_the_changes_give_the_table_that_the_upserts_give(batches: list[Any]):
    run, reader = changelog(), Reader(["id"])
    table: dict[Any, Any] = {}
    for upserts, restarted in batches:
        if restarted:
            run.restart()
        reader.apply(run.batch({CHANGES: [run.upserts(upserts)]}))
        for row in upserts:
            if row["_deleted"]:
                table.pop(row["id"], None)
            else:
                table[row["id"]] = {
                    "id": row["id"],
                    "name": row["name"],
                    "score": None,
                    "tags": None,
                }
        assert reader.rows == in_order(table.values())


def test_changes_of_two_buckets_are_settled_to_an_update():
    schema = marked(SCHEMA, "_change")
    run = Buckets(Settled("settled", schema, ["id"]), {CHANGES: (schema, ("id",))})

    def frame(*rows: tuple[int, str, str]) -> pl.DataFrame:
        named = [{"id": key, "name": name, "_change": change} for key, name, change in rows]
        return run.upserts(named)

    tasks = [
        frame((1, "new", "insert"), (2, "same", "insert"), (3, "gone", "delete")),
        frame((1, "old", "delete"), (2, "same", "delete"), (4, "only", "update_after")),
    ]
    told = [row for each in run.batch({CHANGES: tasks}) for row in each.to_dicts()]
    assert sorted((row["id"], row["_change"], row["name"]) for row in told) == [
        (1, "update_after", "new"),
        (1, "update_before", "old"),
        (3, "delete", "gone"),
        (4, "insert", "only"),
    ]
    kinds = [row["_change"] for row in told if row["id"] == 1]
    assert kinds == ["update_before", "update_after"]
