"""The cases that textbooks explain windows with: events in, rows out."""

import pickle
from typing import Any

import pyarrow as pa
import pytest

from headrace.streams.errors import InvalidFlow
from headrace.streams.windows import Window, hopping, session, sliding, tumbling
from headrace.streams.windows.aggregates.collecting import TopK
from headrace.streams.windows.aggregates.sums import Count, Sum
from headrace.streams.windows.measures import Call
from headrace.streams.windows.operators import window_operator
from tests.streams.windows.bucket import WindowRun
from tests.streams.windows.times import MINUTE, at, moment

SCHEMA = pa.schema([("user", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


def run_of(kind: Window, by: tuple[str, ...] = (), **options: Any) -> WindowRun:
    calls = {"events": Call(Count()), "total": Call(Sum(), ("n",))}
    operator = window_operator(
        "w", kind, by=by, aggregates=calls, time="at", input_schema=SCHEMA, **options
    )
    return WindowRun(operator, SCHEMA)


def events(*times: int | None, user: str | None = "ada") -> list[dict[str, Any]]:
    return [{"user": user, "n": 1, "at": each} for each in times]


def windows(run: WindowRun) -> dict[tuple[int, int], int]:
    return {(key[0], key[1]): values[0] for key, values in run.table.items()}


TWO = events(at("10:03:39"), at("10:08:12"))


def test_two_events_share_a_sliding_window():
    run = run_of(sliding("5 minutes"))
    run.batch(TWO, at("11:00"))
    assert windows(run) == {
        (at("09:58:39"), at("10:03:39")): 1,
        (at("10:03:12"), at("10:08:12")): 2,
    }


def test_the_same_two_share_no_tumbling_window():
    run = run_of(tumbling("5 minutes"))
    run.batch(TWO, at("11:00"))
    assert windows(run) == {
        (at("10:00"), at("10:05")): 1,
        (at("10:05"), at("10:10")): 1,
    }


def test_the_same_two_share_no_hopping_window():
    run = run_of(hopping("5 minutes", "1 minute"))
    run.batch(TWO, at("11:00"))
    assert len(run.table) == 10
    assert set(windows(run).values()) == {1}


def test_a_window_speaks_once_the_watermark_has_reached_its_end_and_not_before():
    run = run_of(tumbling("5 minutes"))
    run.batch(TWO, at("10:05") - 1)
    assert not run.table
    run.batch([], at("10:05"))
    assert windows(run) == {(at("10:00"), at("10:05")): 1}


def test_events_of_one_batch_are_not_late_for_each_other():
    run = run_of(tumbling("1 minute"))
    run.batch(events(at("10:00"), at("10:30"), at("10:01")), at("10:30"))
    assert windows(run) == {(at("10:00"), at("10:01")): 1, (at("10:01"), at("10:02")): 1}
    assert not run.counts


def test_a_backlog_shows_no_spike_by_event_time():
    """A processor that was away for a minute reads all of it in one batch."""
    run = run_of(tumbling("1 minute"))
    backlog = [at("10:00") + second * 1_000_000 for second in range(180)]
    run.batch(events(*backlog[:60]), at("10:00:50"))
    run.batch(events(*backlog[60:]), at("10:03"))
    assert set(windows(run).values()) == {60}


def test_a_straggler_corrects_what_was_told():
    run = run_of(tumbling("1 minute"), ("user",), late="correct", lateness="1 hour")
    run.batch(events(at("10:00:10")), at("10:05"))
    window = (at("10:00"), at("10:01"), "ada")
    assert run.batch(events(at("10:00:50")), at("10:06")) == [
        (*window, 1, 1, "update_before"),
        (*window, 2, 2, "update_after"),
    ]


def test_a_straggler_that_is_later_than_that_is_delivered():
    run = run_of(tumbling("1 minute"), ("user",), late="correct", lateness="1 hour")
    run.batch([], at("11:01"))
    run.batch(events(at("10:00:10"), at("10:01:00")), at("12:00"))
    (late,) = run.late
    assert (late["user"], late["n"], late["_reason"]) == ("ada", 1, "late")
    assert late["_watermark"].isoformat() == "2026-03-02T11:01:00+00:00"
    assert windows(run) == {(at("10:01"), at("10:02")): 1}


def test_a_dropped_straggler_is_counted():
    run = run_of(tumbling("1 minute"), late="drop")
    run.batch([], at("10:01"))
    run.batch(events(at("10:00:10"), at("10:00:20"), None), at("10:02"))
    assert run.counts == {"late": 2, "no_time": 1}
    assert not run.table


def test_a_straggler_of_overlapping_windows_is_in_those_that_are_open():
    run = run_of(hopping("10 minutes", "5 minutes"))
    run.batch([], at("10:05"))
    run.batch(events(at("10:03")), at("11:00"))
    assert windows(run) == {(at("10:00"), at("10:10")): 1}
    assert run.counts == {"partly_late": 1}


def test_a_straggler_bridges_two_sessions():
    run = run_of(session("5 minutes"), ("user",), late="correct", lateness="1 hour")
    run.batch(events(at("10:00"), at("10:08")), at("10:30"))
    assert windows(run) == {(at("10:00"), at("10:05")): 1, (at("10:08"), at("10:13")): 1}
    told = run.batch(events(at("10:04")), at("10:31"))
    assert sorted(change for *_, change in told) == ["delete", "delete", "insert"]
    assert windows(run) == {(at("10:00"), at("10:13")): 3}


def test_a_bridge_to_a_session_that_is_over_is_late():
    run = run_of(session("5 minutes"), ("user",), late="side")
    run.batch(events(at("10:00"), at("10:08")), at("10:10"))
    run.batch(events(at("10:04")), at("11:00"))
    assert len(run.late) == 1
    assert windows(run) == {(at("10:00"), at("10:05")): 1, (at("10:08"), at("10:13")): 1}


def test_an_event_inside_an_open_session_is_not_late():
    run = run_of(session("5 minutes"), ("user",), late="side")
    run.batch(events(at("10:00"), at("10:04"), at("10:08")), at("10:10"))
    run.batch(events(at("10:02")), at("11:00"))
    assert not run.late
    assert windows(run) == {(at("10:00"), at("10:13")): 4}


def test_a_session_without_end_is_cut():
    run = run_of(session("5 minutes", maximum="10 minutes"), ("user",))
    run.batch(events(*(at("10:00") + minute * 4 * MINUTE for minute in range(6))), at("12:00"))
    assert windows(run) == {
        (at("10:00"), at("10:10")): 3,
        (at("10:12"), at("10:22")): 3,
    }


def test_updates_are_told_as_they_come():
    run = run_of(tumbling("1 minute"), ("user",), emit="updates")
    window = (at("10:00"), at("10:01"), "ada")
    assert run.batch(events(at("10:00:10"))) == [(*window, 1, 1, "insert")]
    assert run.batch(events(at("10:00:20"))) == [
        (*window, 1, 1, "update_before"),
        (*window, 2, 2, "update_after"),
    ]
    assert run.batch([], at("10:01")) == []


def test_updates_every_so_often_follow_the_clock_of_the_batches():
    run = run_of(tumbling("1 minute"), ("user",), emit="every 10 seconds")
    window = (at("10:00"), at("10:01"), "ada")
    assert run.batch(events(at("10:00:10")), clock=0) == [(*window, 1, 1, "insert")]
    assert run.batch(events(at("10:00:20")), clock=9_000_000) == []
    assert run.batch([], clock=10_000_000) == [
        (*window, 1, 1, "update_before"),
        (*window, 2, 2, "update_after"),
    ]
    assert run.batch(events(at("10:00:30")), at("10:01"), clock=11_000_000) == [
        (*window, 2, 2, "update_before"),
        (*window, 3, 3, "update_after"),
    ]


def test_null_is_a_group_like_any_other():
    run = run_of(tumbling("1 minute"), ("user",))
    run.batch([*events(at("10:00"), user=None), *events(at("10:00"))], at("11:00"))
    assert {key[2]: values[0] for key, values in run.table.items()} == {None: 1, "ada": 1}


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-28", 24), ("2026-03-29", 23), ("2026-10-25", 25)]
)
def test_a_local_day_has_as_many_hours_as_the_clocks_say(day: str, hours: int):
    run = run_of(tumbling("1 day", zone="Europe/Berlin"))
    begin = moment(f"{day}T00:00:00", "Europe/Berlin")
    times = [begin + quarter * 15 * MINUTE for quarter in range(4 * hours)]
    run.batch(events(begin - 1, *times, begin + hours * 60 * MINUTE), moment("2027-01-01"))
    assert windows(run)[begin, begin + hours * 60 * MINUTE] == 4 * hours
    assert len(run.table) == 3


@pytest.mark.parametrize(
    "kind", [tumbling("1m"), hopping("2m", "1m"), sliding("1m"), session("1m"), session("1m", "2m")]
)
def test_columns_may_have_any_name_and_operators_are_pickled(kind: Window):
    by = ["session", "row", "first", "number", "known", "group", "leave", "closes"]
    schema = pa.schema([*((each, pa.string()) for each in by), ("time", pa.int64())])
    operator = window_operator(
        "w",
        kind,
        by=by,
        aggregates={"forget": Call(Count()), "top": Call(TopK(2, 10), ("row",))},
        time="time",
        input_schema=schema,
        late="correct",
        lateness="1 minute",
        emit="updates",
    )
    run = WindowRun(pickle.loads(pickle.dumps(operator)), schema)
    row = {**dict.fromkeys(by, "x"), "time": 0}
    run.batch([row], 0)
    run.batch([{**row, "time": 1}, row], MINUTE)
    assert max(values[0] for values in run.table.values()) == 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"by": ("usr",)}, "did you mean user"),
        ({"by": ("total",)}, "does not have"),
        ({"late": "corect"}, "did you mean correct"),
        ({"late": "correct"}, "needs to know for how long"),
        ({"late": "side", "lateness": "1m"}, "say late"),
        ({"emit": "finally"}, "did you mean final"),
        ({"emit": "every now and then"}, "not a duration"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], said: str):
    with pytest.raises(InvalidFlow, match=said):
        run_of(tumbling("1 minute"), **wrong)


def test_a_result_must_not_be_named_like_a_group():
    with pytest.raises(InvalidFlow, match="two columns named user"):
        window_operator(
            "w",
            tumbling("1 minute"),
            by=["user"],
            aggregates={"user": Call(Count())},
            time="at",
            input_schema=SCHEMA,
        )
