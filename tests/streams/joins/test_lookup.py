"""Events enriched from a table: the cases by which people explain it, events and changes in."""

import pickle
from typing import Any

import pyarrow as pa
import pytest

from headrace.streams.errors import InvalidFlow
from headrace.streams.joins.lookup import Lookup
from headrace.streams.joins.sides import Side
from tests.streams.joins.bucket import JoinRun, Row
from tests.streams.windows.times import MINUTE, at

CLICKS = pa.schema(
    [("user_id", pa.int64()), ("url", pa.string()), ("at", pa.timestamp("us", "UTC"))]
)
USERS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("url", pa.string())])
CHANGES = USERS.append(pa.field("_deleted", pa.bool_()))


def run_of(how: str = "left", wait: int | None = None, **options: Any) -> JoinRun:
    events = Side(CLICKS, ("user_id",), "at")
    operator = Lookup("enriched", events, USERS, ("id",), {"user_id": "id"}, how, wait, **options)
    return JoinRun(operator, {"events": CLICKS, "table": CHANGES})


def click(user: int | None, url: str = "/", time: str | None = "10:00") -> Row:
    return {"user_id": user, "url": url, "at": time and at(time)}


def user(number: int | None, name: str | None, *, deleted: bool = False) -> Row:
    return {"id": number, "name": name, "url": "home", "_deleted": deleted}


def shown(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(row["user_id"], row["url"], row["name"]) for row in rows]


def test_an_event_has_the_columns_of_its_row():
    run = run_of()
    run.batch(table=[user(1, "Ada")])
    assert run.batch(events=[click(1)]) == [
        {
            "user_id": 1,
            "url": "/",
            "at": at("10:00"),
            "id": 1,
            "name": "Ada",
            "url_right": "home",
        }
    ]


def test_a_profile_updated_between_two_events_is_seen_by_the_second():
    run = run_of()
    run.batch(table=[user(1, "Ada")], events=[click(1, "/a")])
    run.batch(table=[user(1, "Ada L.")])
    run.batch(events=[click(1, "/b")])
    assert shown(run.told) == [(1, "/a", "Ada"), (1, "/b", "Ada L.")]


def test_the_changes_of_a_batch_come_before_its_events_and_the_last_one_holds():
    run = run_of()
    changes = [user(1, "Ada"), user(2, "Bob"), user(1, "Eve"), user(2, None, deleted=True)]
    told = run.batch(table=changes, events=[click(1), click(2)])
    assert shown(told) == [(1, "/", "Eve"), (2, "/", None)]


def test_a_deleted_row_is_found_no_more_until_it_is_there_again():
    run = run_of()
    run.batch(table=[user(1, "Ada")])
    run.batch(table=[user(1, None, deleted=True)], events=[click(1)])
    run.batch(table=[user(1, None, deleted=True), user(1, "Ada")], events=[click(1)])
    assert shown(run.told) == [(1, "/", None), (1, "/", "Ada")]


def test_an_inner_join_leaves_out_events_without_a_row():
    run = run_of("inner")
    told = run.batch(table=[user(1, "Ada")], events=[click(2), click(1), click(None)])
    assert shown(told) == [(1, "/", "Ada")]


def test_null_finds_nothing_even_if_the_table_has_a_row_for_it():
    run = run_of()
    told = run.batch(table=[user(None, "Nobody")], events=[click(None)])
    assert shown(told) == [(None, "/", None)]
    assert run.rows_kept() == 0


def test_events_stay_in_the_order_they_came_in():
    run = run_of()
    rows = [click(number % 3, str(number)) for number in range(30)]
    told = run.batch(table=[user(1, "Ada"), user(2, "Bob")], events=rows)
    assert [row["url"] for row in told] == [str(number) for number in range(30)]


def test_an_event_waits_for_a_row_that_comes_late():
    run = run_of(wait=MINUTE)
    assert run.batch(at("10:00"), events=[click(1, "/a"), click(1, "/b")]) == []
    told = run.batch(at("10:01"), table=[user(1, "Ada")], events=[click(1, "/c")])
    assert shown(told) == [(1, "/a", "Ada"), (1, "/b", "Ada"), (1, "/c", "Ada")]
    assert run.batch(at("12:00")) == []
    assert run.rows_kept() == 1


def test_an_event_that_has_waited_in_vain_goes_out_unmatched():
    run = run_of(wait=MINUTE)
    run.batch(at("10:00"), events=[click(1, "/b", "10:00:30"), click(2, "/a", "10:00:10")])
    assert run.batch(at("10:01:10")) == []
    assert shown(run.batch(at("10:02"))) == [(2, "/a", None), (1, "/b", None)]
    assert run.rows_kept() == 0
    assert run.counts == {}


def test_an_inner_join_counts_events_that_have_waited_in_vain():
    run = run_of("inner", wait=MINUTE)
    run.batch(at("10:00"), events=[click(1), click(None), click(2, time=None)])
    assert run.counts == {"unmatched": 2}
    assert run.batch(at("10:02")) == []
    assert run.counts == {"unmatched": 3}


def test_what_cannot_wait_goes_out_at_once():
    run = run_of(wait=MINUTE)
    run.batch(at("10:30"))
    rows = [click(None, "/null"), click(1, "/old", "10:00"), click(1, "/timeless", None)]
    told = run.batch(events=[*rows, click(1, "/waits", "10:29:30")])
    assert [row["url"] for row in told] == ["/null", "/old", "/timeless"]
    assert [row["url"] for row in run.batch(at("11:00"))] == ["/waits"]


def test_a_deletion_wakes_nobody():
    run = run_of(wait=MINUTE)
    run.batch(at("10:00"), events=[click(1)])
    assert run.batch(table=[user(1, "Ada"), user(1, None, deleted=True)]) == []
    assert shown(run.batch(at("10:02"))) == [(1, "/", None)]


def test_when_time_is_over_nobody_waits():
    run = run_of(wait=MINUTE)
    told = run.batch(1 << 61, table=[user(1, "Ada")], events=[click(1), click(2)])
    assert shown(told) == [(1, "/", "Ada"), (2, "/", None)]


def test_the_time_of_results_of_other_operators_is_carried_on():
    schema = pa.schema([("k", pa.int64()), ("_window_time", pa.timestamp("us", "UTC"))])
    table = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("_deleted", pa.bool_())])
    operator = Lookup("j", Side(schema, ("k",), "_window_time"), table, ("k",), {"k": "k"})
    run = JoinRun(operator, {"events": schema, "table": table})
    told = run.batch(events=[{"k": 1, "_window_time": 7}], table=[{"k": 1, "v": 2}])
    assert told == [{"k": 1, "v": 2, "_window_time": 7}]


def test_keys_of_several_columns_and_operators_are_pickled():
    events = pa.schema([("b", pa.string()), ("a", pa.int64()), ("n", pa.int64())])
    table = pa.schema([("x", pa.int64()), ("b", pa.string()), ("v", pa.int64())])
    side = Side(events, ("a", "b"), None)
    operator = Lookup("j", side, table, ("x", "b"), {"b": "b", "a": "x"}, "inner")
    schemas = {"events": events, "table": table.append(pa.field("_deleted", pa.bool_()))}
    run = JoinRun(pickle.loads(pickle.dumps(operator)), schemas)
    run.batch(table=[{"x": 1, "b": "u", "v": 3}, {"x": 2, "b": "u", "v": 4}])
    rows = [{"a": 2, "b": "u", "n": 0}, {"a": 2, "b": "v", "n": 1}]
    assert run.batch(events=rows) == [{"b": "u", "a": 2, "n": 0, "x": 2, "v": 4}]


def test_what_makes_no_sense_is_refused():
    side = Side(CLICKS, ("user_id",), "at")
    with pytest.raises(InvalidFlow, match="There is no how='full'"):
        run_of("full")
    with pytest.raises(InvalidFlow, match="by the whole key of its table, id"):
        Lookup("j", side, USERS, ("id",), {"user_id": "name"})
    with pytest.raises(InvalidFlow, match="must be keyed by user_id"):
        Lookup("j", Side(CLICKS, ("url",), "at"), USERS, ("id",), {"user_id": "id"})
    with pytest.raises(InvalidFlow, match="need to know when they happened"):
        Lookup("j", Side(CLICKS, ("user_id",), None), USERS, ("id",), {"user_id": "id"}, wait=1)
    with pytest.raises(InvalidFlow, match="two columns url"):
        run_of(suffix="")
