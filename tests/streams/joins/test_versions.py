"""Events joined with the past of a table: the cases by which people explain it."""

import pickle
from typing import Any

import pyarrow as pa
import pytest

from headrace.streams.errors import InvalidFlow
from headrace.streams.joins.sides import Side
from headrace.streams.joins.versions import VersionedLookup
from headrace.streams.state.table import StateTable
from tests.streams.joins.bucket import JoinRun, Row
from tests.streams.windows.times import HOUR, MINUTE, at

MOMENT = pa.timestamp("us", "UTC")
SALES = pa.schema(
    [("country", pa.string()), ("item", pa.string()), ("sold_at", MOMENT), ("read_at", MOMENT)]
)
RATES = pa.schema([("country", pa.string()), ("rate", pa.int64()), ("since", MOMENT)])
CHANGES = RATES.append(pa.field("_deleted", pa.bool_()))


def run_of(how: str = "left", keep: int | None = None, time: str | None = "sold_at") -> JoinRun:
    on = {"country": "country"}
    operator = VersionedLookup(
        "invoices",
        Side(SALES, ("country",), time),
        RATES,
        ("country",),
        "since",
        on,
        "sold_at",
        how,
        keep,
    )
    return JoinRun(operator, {"events": SALES, "table": CHANGES})


def sale(time: str | None, item: str = "tent", country: str | None = "de") -> Row:
    return {"country": country, "item": item, "sold_at": time and at(time), "read_at": None}


def rate(
    since: str | None, percent: int | None, country: str = "de", *, deleted: bool = False
) -> Row:
    return {"country": country, "rate": percent, "since": since and at(since), "_deleted": deleted}


def known_of(wait: int) -> JoinRun:
    """Of changes that are recorded later than they claim, those that are known so long after."""
    operator = VersionedLookup(
        "invoices",
        Side(SALES, ("country",), "sold_at"),
        RATES.append(pa.field("claimed", MOMENT)),
        ("country",),
        "since",
        {"country": "country"},
        "sold_at",
        wait=wait,
        claim="claimed",
    )
    return JoinRun(
        operator, {"events": SALES, "table": CHANGES.append(pa.field("claimed", MOMENT))}
    )


def recorded(at_time: str, claimed: str, percent: int | None, wait: int = 0) -> Row:
    """A rate that is said to hold since a time, and was recorded at another."""
    counts = max(at(claimed), at(at_time) - wait)
    deleted = percent is None
    row = {"country": "de", "rate": percent, "since": counts, "_deleted": deleted}
    return {**row, "claimed": at(claimed)}


def shown(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(row["item"], row["rate"]) for row in rows]


def test_an_event_has_the_columns_of_the_version_that_held():
    run = run_of()
    run.batch(table=[rate("09:00", 19)])
    assert run.batch(at("10:01"), events=[sale("10:00")]) == [
        {
            "country": "de",
            "item": "tent",
            "sold_at": at("10:00"),
            "read_at": None,
            "rate": 19,
            "since": at("09:00"),
        }
    ]


def test_a_tax_rate_changed_and_an_invoice_that_arrives_late_has_the_old_one():
    run = run_of()
    run.batch(at("11:00"), table=[rate("09:00", 19), rate("10:00", 16)])
    run.batch(at("11:30"), events=[sale("11:10", "in time"), sale("09:30", "late")])
    assert shown(run.told) == [("late", 19), ("in time", 16)]


def test_a_version_holds_from_its_first_moment_until_the_next_one():
    run = run_of()
    run.batch(table=[rate("10:00", 16), rate("09:00", 19)])
    times = ["08:59", "09:00", "09:59", "10:00"]
    run.batch(at("12:00"), events=[sale(each, each) for each in times])
    assert shown(run.told) == [("08:59", None), ("09:00", 19), ("09:59", 19), ("10:00", 16)]


def test_an_event_waits_until_its_version_must_be_there():
    run = run_of()
    run.batch(at("10:00"), table=[rate("09:00", 19)])
    assert run.batch(at("10:10"), events=[sale("10:10")]) == []
    assert run.batch(at("10:10"), table=[rate("10:10", 16)]) == []
    assert shown(run.batch(at("10:10") + 1)) == [("tent", 16)]


def test_events_that_waited_are_told_in_the_order_of_time_then_of_arrival():
    run = run_of()
    run.batch(events=[sale("10:02", "c"), sale("10:01", "a")])
    run.batch(events=[sale("10:01", "b"), sale("10:03", "d"), sale("10:05", "e")])
    assert [row["item"] for row in run.batch(at("10:04"))] == ["a", "b", "c", "d"]
    assert [row["item"] for row in run.batch(at("10:06"))] == ["e"]


def test_an_event_is_answered_at_once_if_its_moment_is_not_the_event_time():
    for time in (None, "read_at"):
        run = run_of(time=time)
        told = run.batch(at("08:00"), table=[rate("09:00", 19)], events=[sale("10:00")])
        assert shown(told) == [("tent", 19)]


def test_of_two_versions_from_the_same_moment_the_later_change_counts():
    run = run_of()
    run.batch(table=[rate("09:00", 19), rate("09:00", 7)])
    run.batch(at("10:01"), events=[sale("10:00", "a")])
    run.batch(at("10:02"), table=[rate("09:00", 16)], events=[sale("10:01", "b")])
    assert shown(run.told) == [("a", 7), ("b", 16)]


def test_a_deleted_row_holds_no_more_and_did_before():
    run = run_of()
    run.batch(table=[rate("09:00", 19), rate("10:00", None, deleted=True), rate("11:00", 7)])
    times = ["09:30", "10:00", "10:30", "11:00"]
    run.batch(at("12:00"), events=[sale(each, each) for each in times])
    assert shown(run.told) == [("09:30", 19), ("10:00", None), ("10:30", None), ("11:00", 7)]


def test_an_inner_join_leaves_out_events_without_a_version():
    run = run_of("inner")
    run.batch(table=[rate("09:00", 19)])
    rows = [sale("08:00", "early"), sale("10:00"), sale("10:00", country="fr")]
    run.batch(at("12:00"), events=[*rows, sale("10:00", country=None)])
    assert shown(run.told) == [("tent", 19)]


def test_events_and_changes_without_a_time_are_counted():
    run = run_of()
    run.batch(at("09:00"), table=[rate(None, 19)], events=[sale(None)])
    assert shown(run.told) == [("tent", None)]
    assert run.counts == {"no_time": 2}


def test_old_versions_are_forgotten_but_for_the_one_that_held_then():
    run = run_of(keep=HOUR)
    run.batch(at("10:00"), table=[rate("08:00", 1), rate("08:30", 2), rate("09:30", 3)])
    assert run.rows_kept() == 2
    run.batch(at("10:29"), events=[sale("09:05", "kept"), sale("08:59", "too old")])
    assert shown(run.told) == [("too old", None), ("kept", 2)]
    assert run.counts == {"too_old": 1}
    run.batch(at("10:30") + 1)
    assert run.rows_kept() == 1
    run.batch(at("20:00"), events=[sale("19:59", "now")])
    assert shown(run.told[-1:]) == [("now", 3)]


def test_a_key_that_was_deleted_long_ago_leaves_nothing():
    run = run_of(keep=HOUR)
    run.batch(table=[rate("08:00", 1), rate("09:00", None, deleted=True)])
    assert run.rows_kept() == 2
    run.batch(at("10:01"))
    assert run.rows_kept() == 0


def test_a_version_that_arrives_late_takes_its_place_among_the_others():
    run = run_of()
    run.batch(table=[rate("08:00", 1), rate("10:00", 3)])
    run.batch(table=[rate("09:00", 2)])
    times = ["08:30", "09:30", "10:30"]
    run.batch(at("12:00"), events=[sale(each, each) for each in times])
    assert shown(run.told) == [("08:30", 1), ("09:30", 2), ("10:30", 3)]


def test_a_new_version_reads_no_more_than_the_one_before_it(monkeypatch: pytest.MonkeyPatch):
    run = run_of()
    minutes = [at("00:00") + number * MINUTE for number in range(500)]
    run.batch(table=[{**rate("00:00", 1), "since": each} for each in minutes])
    read: list[int] = []
    lookup = StateTable.lookup

    def watched(table: StateTable, *asked: Any, **bounds: Any) -> Any:
        found = lookup(table, *asked, **bounds)
        read.append(found.height)
        return found

    monkeypatch.setattr(StateTable, "lookup", watched)
    run.batch(table=[rate("10:00", 2)])
    run.batch(at("10:02"), events=[sale("10:01")])
    assert max(read) == 1
    assert shown(run.told) == [("tent", 2)]


def test_when_time_is_over_everything_is_answered_and_nothing_old():
    run = run_of(keep=HOUR)
    rows = [sale("10:30", "new"), sale("09:30", "old")]
    told = run.batch(1 << 61, table=[rate("10:00", 2), rate("09:00", 1)], events=rows)
    assert shown(told) == [("old", 1), ("new", 2)]
    assert run.counts == {}


def test_operators_are_pickled():
    run = run_of()
    run.operator = pickle.loads(pickle.dumps(run.operator))
    run.batch(at("10:01"), table=[rate("09:00", 19)], events=[sale("10:00")])
    assert shown(run.told) == [("tent", 19)]


def test_what_makes_no_sense_is_refused():
    side, on = Side(SALES, ("country",), "sold_at"), {"country": "country"}
    with pytest.raises(InvalidFlow, match="did you mean since"):
        VersionedLookup("j", side, RATES, ("country",), "sinc", on, "sold_at")
    with pytest.raises(InvalidFlow, match="country is of type string, which is no time"):
        VersionedLookup("j", side, RATES, ("country",), "country", on, "sold_at")
    with pytest.raises(InvalidFlow, match="item is of type string, which is no time"):
        VersionedLookup("j", side, RATES, ("country",), "since", on, "item")
    with pytest.raises(InvalidFlow, match="There is no how='right'"):
        run_of("right")


def test_a_change_counts_for_events_that_it_was_known_for_in_time():
    run = known_of(wait=30 * MINUTE)
    changes = [("09:00", "09:00", 19), ("10:20", "10:00", 16), ("11:00", "10:10", 7)]
    rows = [recorded(*each, wait=30 * MINUTE) for each in changes]
    times = ["09:59", "10:00", "10:29", "10:30", "10:31"]
    run.batch(at("13:00"), table=rows, events=[sale(each, each) for each in times])
    found = [("09:59", 19), ("10:00", 16), ("10:29", 16), ("10:30", 7), ("10:31", 7)]
    assert shown(run.told) == found


def test_a_correction_of_what_has_been_replaced_since_changes_nothing():
    run = known_of(wait=0)
    run.batch(table=[recorded("09:00", "09:00", 19), recorded("10:00", "10:00", 16)])
    run.batch(table=[recorded("10:30", "09:30", 7)])
    run.batch(at("13:00"), events=[sale(each, each) for each in ("09:45", "10:45")])
    assert shown(run.told) == [("09:45", 19), ("10:45", 16)]


def test_a_row_that_was_deleted_does_not_come_back_by_a_claim_from_before():
    for together in (True, False):
        run = known_of(wait=0)
        rows = [recorded("09:00", "09:00", 19), recorded("10:00", "10:00", None)]
        rows.append(recorded("10:30", "09:30", 7))
        for part in [rows] if together else [[each] for each in rows]:
            run.batch(table=part)
        run.batch(at("13:00"), events=[sale(each, each) for each in ("09:45", "10:45")])
        assert shown(run.told) == [("09:45", 19), ("10:45", None)]


def test_events_wait_for_what_may_be_recorded_later():
    run = known_of(wait=30 * MINUTE)
    run.batch(at("10:00"), table=[recorded("09:00", "09:00", 19)], events=[sale("10:00")])
    assert run.batch(at("10:30")) == []
    assert shown(run.batch(at("10:30") + 1)) == [("tent", 19)]


def test_a_change_that_comes_after_events_of_its_time_were_answered_is_counted():
    run = run_of()
    run.batch(at("10:00"), table=[rate("09:00", 19)], events=[sale("09:30")])
    assert run.counts == {}
    run.batch(at("10:01"), table=[rate("09:20", 16), rate("10:00", 7)])
    assert run.counts == {"retroactive": 1}
