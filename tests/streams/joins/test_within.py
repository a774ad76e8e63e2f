"""Streams joined with streams: the cases by which people explain it, events in, rows out."""

import pickle
from typing import Any

import pyarrow as pa
import pytest

from headrace.streams.errors import InvalidFlow
from headrace.streams.joins.sides import Side
from headrace.streams.joins.within import WithinJoin
from headrace.streams.state.table import StateTable
from tests.streams.joins.bucket import JoinRun, Row
from tests.streams.windows.times import HOUR, MINUTE, at

SEARCHES = pa.schema(
    [("session", pa.string()), ("query", pa.string()), ("at", pa.timestamp("us", "UTC"))]
)
CLICKS = pa.schema(
    [("session", pa.string()), ("url", pa.string()), ("at", pa.timestamp("us", "UTC"))]
)


def run_of(how: str = "inner", before: int = 0, after: int = HOUR, **options: Any) -> JoinRun:
    left, right = Side(SEARCHES, ("session",), "at"), Side(CLICKS, ("session",), "at")
    operator = WithinJoin("journeys", left, right, how, before, after, **options)
    return JoinRun(operator, {"left": SEARCHES, "right": CLICKS})


def search(time: str | None, query: str = "tent", session: str | None = "s1") -> Row:
    return {"session": session, "query": query, "at": time and at(time)}


def click(time: str | None, url: str = "/tent", session: str | None = "s1") -> Row:
    return {"session": session, "url": url, "at": time and at(time)}


def shown(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(row["session"], row["query"], row["url"]) for row in rows]


PAIR = ("s1", "tent", "/tent")


def test_a_click_after_a_search_is_told_with_it_at_once():
    run = run_of("left")
    assert run.batch(left=[search("10:00")]) == []
    assert run.batch(right=[click("10:20")]) == [
        {
            "session": "s1",
            "query": "tent",
            "at": at("10:00"),
            "url": "/tent",
            "at_right": at("10:20"),
            "_window_time": at("10:20"),
        }
    ]
    assert run.batch(at("12:00")) == []


def test_a_click_that_arrives_before_its_search_is_told_when_that_comes():
    run = run_of("left")
    assert run.batch(right=[click("10:20")]) == []
    assert shown(run.batch(left=[search("10:00")])) == [PAIR]
    assert run.batch(at("12:00")) == []


def test_a_search_that_was_never_clicked_is_an_event():
    run = run_of("left")
    run.batch(left=[search("10:00"), search("10:30", "stove", "s2")])
    run.batch(at("11:00"), right=[click("11:10", session="s2")])
    (row,) = run.batch(at("11:00") + 1)
    assert shown([row]) == [("s1", "tent", None)]
    assert row["_window_time"] == at("10:00")
    assert run.batch(at("14:00")) == []


def test_a_click_without_a_search_is_told_by_right_and_full_joins():
    for how in ("right", "full"):
        run = run_of(how, before=MINUTE)
        run.batch(right=[click("10:00")])
        assert shown(run.batch(at("10:01"))) == []
        assert shown(run.batch(at("10:02"))) == [("s1", None, "/tent")]
    for how in ("inner", "left"):
        run = run_of(how)
        run.batch(right=[click("10:00")])
        assert run.batch(at("12:00")) == []


def test_events_without_a_partner_are_told_in_the_order_of_time():
    run = run_of("full", before=HOUR)
    run.batch(left=[search("10:30"), search("10:10")], right=[click("10:20", session="s2")])
    told = run.batch(at("20:00"))
    assert [row["_window_time"] for row in told] == [at("10:10"), at("10:20"), at("10:30")]


def test_the_bound_counts_at_both_ends():
    run = run_of(before=MINUTE, after=HOUR)
    times = ["09:58:59", "09:59", "10:00", "11:00", "11:00:01"]
    told = run.batch(left=[search("10:00")], right=[click(each) for each in times])
    assert [row["at_right"] for row in told] == [at("09:59"), at("10:00"), at("11:00")]


def test_a_bound_can_leave_out_what_comes_at_once():
    run = run_of("full", before=-10 * MINUTE, after=HOUR)
    run.batch(left=[search("10:00")], right=[click("10:09"), click("10:10")])
    assert shown(run.told) == [PAIR]
    assert shown(run.batch(at("12:00"))) == [("s1", None, "/tent")]


def test_a_search_has_all_its_clicks_in_the_order_of_time():
    run = run_of()
    run.batch(right=[click("10:05", "/c"), click("10:01", "/a")])
    told = run.batch(left=[search("10:00")], right=[click("10:03", "/b")])
    assert [row["url"] for row in told] == ["/a", "/b", "/c"]


def test_equal_events_are_different_events():
    run = run_of("full")
    run.batch(left=[search("10:00")])
    run.batch(left=[search("10:00")])
    assert shown(run.batch(right=[click("10:01"), click("10:01")])) == [PAIR] * 4
    assert run.batch(at("15:00")) == []


def test_a_condition_decides_beside_the_key():
    run = run_of("left", condition="url = concat('/', query) and at_right > at")
    run.batch(left=[search("10:00")], right=[click("10:00"), click("10:01"), click("10:02", "/x")])
    (row,) = run.told
    assert row["at_right"] == at("10:01")
    run.batch(left=[search("10:30", "stove")], right=[click("10:40", "/x")])
    assert shown(run.batch(at("12:00"))) == [("s1", "stove", None)]


def test_a_condition_that_is_null_does_not_hold():
    run = run_of("left", condition="url = query")
    run.batch(left=[{**search("10:00"), "query": None}], right=[click("10:01")])
    assert shown(run.batch(at("12:00"))) == [("s1", None, None)]


def test_nulls_meet_nobody_and_are_told_alone():
    inner, full = run_of(), run_of("full")
    for run in (inner, full):
        run.batch(left=[search("10:00", session=None)], right=[click("10:00", session=None)])
        run.batch(left=[search("10:00", session=None)], right=[click("10:00", session=None)])
        run.batch(at("12:00"))
    assert inner.told == []
    assert inner.rows_kept() == 0
    assert (
        sorted(shown(full.told), key=str)
        == [(None, "tent", None)] * 2 + [(None, None, "/tent")] * 2
    )


def test_a_late_event_meets_nobody_and_is_counted():
    run = run_of("full")
    run.batch(at("10:30"), left=[search("10:20")])
    run.batch(at("10:31"), right=[click("10:29"), click("10:30"), click(None)])
    assert [row["at_right"] for row in run.told] == [at("10:30")]
    assert run.counts == {"late": 1, "no_time": 1}
    assert run.batch(at("15:00")) == []


def test_late_events_are_delivered_with_their_side_and_the_reason():
    run = run_of("inner", late="side")
    run.batch(at("10:30"))
    run.batch(left=[search("10:00")], right=[click("10:10"), click(None, "/nowhere")])
    told = [(row["_side"], row["_reason"], row["query"], row["url"]) for row in run.late]
    assert told == [
        ("left", "late", "tent", None),
        ("right", "late", None, "/tent"),
        ("right", "no_time", None, "/nowhere"),
    ]
    assert {row["session"] for row in run.late} == {"s1"}
    assert {row["_watermark"] for row in run.late} == {at("10:30")}
    assert run.counts == {"late": 2, "no_time": 1}


def test_events_of_one_batch_are_not_late_for_each_other():
    run = run_of()
    assert shown(run.batch(at("18:00"), left=[search("10:00")], right=[click("10:30")])) == [PAIR]


def test_a_stream_can_be_joined_with_itself():
    side = Side(CLICKS, ("session",), "at")
    operator = WithinJoin("pairs", side, side, "inner", 0, HOUR, "at < at_right")
    run = JoinRun(operator, {"left": CLICKS, "right": CLICKS})
    for rows in ([click("10:00", "/a")], [click("10:10", "/b"), click("10:20", "/c")]):
        run.batch(left=rows, right=rows)
    pairs = sorted((row["url"], row["url_right"]) for row in run.told)
    assert pairs == [("/a", "/b"), ("/a", "/c"), ("/b", "/c")]


def test_keys_of_several_columns_and_other_names():
    left = pa.schema([("a", pa.int64()), ("b", pa.string()), ("t", pa.int64())])
    right = pa.schema([("x", pa.int64()), ("b", pa.string()), ("t", pa.int64())])
    sides = Side(left, ("a", "b"), "t"), Side(right, ("x", "b"), "t")
    run = JoinRun(WithinJoin("j", *sides, "full", 0, 10), {"left": left, "right": right})
    run.batch(left=[{"a": 1, "b": "u", "t": 0}, {"a": 1, "b": None, "t": 0}])
    (row,) = run.batch(right=[{"x": 1, "b": "u", "t": 10}, {"x": 1, "b": None, "t": 10}])
    assert row == {"a": 1, "b": "u", "t": 0, "x": 1, "t_right": 10, "_window_time": 10}
    told = run.batch(1_000)
    assert [(row["a"], row["x"], row["_window_time"]) for row in told] == [
        (1, None, 0),
        (None, 1, 10),
    ]


def test_the_time_of_results_of_other_operators_is_not_told_as_a_column():
    schema = pa.schema([("k", pa.int64()), ("_window_time", pa.timestamp("us", "UTC"))])
    side = Side(schema, ("k",), "_window_time")
    run = JoinRun(WithinJoin("j", side, side, "left", 5, 5), {"left": schema, "right": schema})
    run.batch(left=[{"k": 1, "_window_time": 10}])
    assert run.batch(right=[{"k": 1, "_window_time": 12}]) == [{"k": 1, "_window_time": 12}]


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_a_result_is_never_further_behind_the_watermark_than_said(how: str):
    run = run_of(how, before=MINUTE, after=HOUR)
    reached = at("10:00")
    for minute in range(0, 240, 7):
        time = f"{10 + minute // 60}:{minute % 60:02}"
        session = f"s{minute % 3}"
        behind = run.operator.behind  # type: ignore[attr-defined]
        told = run.batch(at(time), left=[search(time, session=session)], right=[click(time)])
        assert all(row["_window_time"] >= reached - behind for row in told)
        reached = at(time)
    assert run.told


def test_nothing_is_kept_when_the_bound_has_passed():
    run = run_of("full", before=MINUTE)
    run.batch(left=[search("10:00")], right=[click("10:30"), click("10:00", session="s2")])
    assert run.rows_kept() == 3
    run.batch(at("10:02"))
    assert run.rows_kept() == 2
    run.batch(at("12:00"))
    assert run.rows_kept() == 0


@pytest.mark.parametrize(("how", "again"), [("inner", 0), ("left", 1), ("full", 1)])
def test_a_kept_event_is_written_again_only_if_it_matters_that_it_has_met_another(
    how: str, again: int, monkeypatch: pytest.MonkeyPatch
):
    run = run_of(how)
    run.batch(left=[search("10:00")])
    written = []
    upsert = StateTable.upsert

    def watched(table: StateTable, rows: Any) -> None:
        if "query" in rows.columns:
            written.append(rows.height)
        upsert(table, rows)

    monkeypatch.setattr(StateTable, "upsert", watched)
    run.batch(right=[click("10:01")])
    run.batch(right=[click("10:02")])
    assert shown(run.told) == [PAIR, PAIR]
    assert sum(written) == again


def test_events_that_are_over_within_their_batch_are_never_kept():
    run = run_of("full")
    rows = [search("10:00"), search("10:00", session="s2")]
    told = run.batch(1 << 61, left=rows, right=[click("10:01")])
    assert sorted(shown(told), key=str) == [PAIR, ("s2", "tent", None)]
    assert run.bytes_kept() < 2_000


def test_columns_may_have_any_name_and_operators_are_pickled():
    names = ["left", "right", "holds", "number", "met", "time", "rows", "key"]
    schema = pa.schema([*((each, pa.string()) for each in names), ("at", pa.int64())])
    side = Side(schema, ("left", "right"), "at")
    operator = WithinJoin("j", side, side, "full", 5, 5, "holds = holds_right", "side")
    run = JoinRun(pickle.loads(pickle.dumps(operator)), {"left": schema, "right": schema})
    row = {**dict.fromkeys(names, "x"), "at": 0}
    run.batch(0, left=[row])
    (told,) = run.batch(1, right=[row, {**row, "holds": "y"}])
    assert told["holds_right"] == "x"
    assert len(run.batch(100)) == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"how": "outer"}, "There is no how='outer'"),
        ({"late": "correct"}, "There is no late='correct'"),
        ({"before": -HOUR - 1}, "make the bound wider"),
        ({"condition": "url ="}, "is no SQL"),
        ({"condition": "urll = query"}, "did you mean url?"),
        ({"condition": "url"}, "must be true or false"),
        ({"condition": "url + 1 = query"}, "makes no sense"),
        ({"condition": "at = max(at_right)"}, "no aggregates"),
        ({"condition": "row_number() over (order by at) = 1"}, "no aggregates"),
        ({"condition": "true"}, "must name a column"),
        ({"suffix": ""}, "two columns at"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], said: str):
    with pytest.raises(InvalidFlow, match=said):
        run_of(**wrong)


def test_a_side_without_a_time_is_refused():
    with pytest.raises(InvalidFlow, match="need to know when things happened"):
        WithinJoin(
            "j", Side(SEARCHES, ("session",), None), Side(CLICKS, ("session",), "at"), "inner", 0, 0
        )
    with pytest.raises(InvalidFlow, match="did you mean at"):
        Side(SEARCHES, ("session",), "att")
    with pytest.raises(InvalidFlow, match="query is of type string, which is no time"):
        Side(SEARCHES, ("session",), "query")
