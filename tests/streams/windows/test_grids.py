"""Where aligned windows begin and end, in every kind of zone."""

from datetime import datetime
from operator import add
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.errors import InvalidFlow
from headrace.streams.windows import hopping, tumbling
from headrace.streams.windows.grids import grid_of
from headrace.streams.windows.kinds import Aligned
from tests.streams.windows.times import HOUR, MINUTE, moment

ZONES = ["Europe/Berlin", "America/Havana", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia"]
STEPS = ["20 minutes", "1 hour", "2 hours", "6 hours", "1 day", "7 days"]
DAY = 24 * HOUR


def changes(zone: str) -> list[int]:
    """The days between 2009 and 2027 in which the clocks of a zone are changed."""
    days = range(moment("2009-01-01T00:00:00"), moment("2027-01-01T00:00:00"), DAY)
    offsets = [datetime.fromtimestamp(day // 1_000_000, ZoneInfo(zone)).utcoffset() for day in days]
    return [day for day, one, two in zip(days, offsets, offsets[1:], strict=False) if one != two]


CHANGES = {zone: changes(zone) or [moment("2020-01-01T00:00:00")] for zone in ZONES}
"""Where mistakes are."""

times = st.sampled_from(ZONES).flatmap(
    lambda zone: st.tuples(
        st.just(zone),
        st.builds(add, st.sampled_from(CHANGES[zone]), st.integers(-2 * DAY, 3 * DAY)),
    )
)


def pane(kind: Aligned, time: int) -> tuple[int, int]:
    grid = grid_of(kind)
    panes = grid.panes(np.array([time]))
    _, starts, ends = grid.windows(panes)
    return int(starts[-1]), int(ends[0])


@pytest.mark.parametrize("step", STEPS)
@settings(max_examples=150, deadline=None)
@given(where=times)
def test_windows_in_a_zone_tile_time(step: str, where: tuple[str, int]):
    zone, time = where
    kind = tumbling(step, zone=zone)
    start, end = pane(kind, time)
    assert start <= time < end
    assert pane(kind, start) == pane(kind, end - 1) == (start, end)
    assert pane(kind, end)[0] == end


@settings(max_examples=150, deadline=None)
@given(where=times)
def test_hopping_windows_in_a_zone_hold_their_panes(where: tuple[str, int]):
    zone, time = where
    grid = grid_of(hopping("6 hours", "2 hours", zone=zone))
    panes = grid.panes(np.array([time]))
    _, starts, ends = grid.windows(panes)
    assert len(starts) == 3
    assert (starts <= time).all()
    assert (ends > time).all()
    assert (np.diff(starts) > 0).all()
    assert (grid.panes(starts) == starts).all()


def test_an_hour_that_comes_twice_is_two_windows():
    kind = tumbling("1 hour", zone="Europe/Berlin")
    first = moment("2026-10-25T02:30:00", "Europe/Berlin")
    again = moment("2026-10-25T02:30:00", "Europe/Berlin", fold=1)
    assert again - first == HOUR
    assert pane(kind, first) == (first - 30 * MINUTE, first + 30 * MINUTE)
    assert pane(kind, again) == (again - 30 * MINUTE, again + 30 * MINUTE)


def test_a_midnight_that_comes_twice_begins_one_day():
    begin = moment("2026-11-01T00:00:00", "America/Havana")
    end = moment("2026-11-02T00:00:00", "America/Havana")
    assert end - begin == 25 * HOUR
    assert pane(tumbling("1 day", zone="America/Havana"), begin + 90 * MINUTE) == (begin, end)


def test_an_offset_moves_the_boundaries():
    kind = tumbling("1 day", offset="6 hours", zone="Europe/Berlin")
    time = moment("2026-06-05T05:00:00", "Europe/Berlin")
    assert pane(kind, time)[0] == moment("2026-06-04T06:00:00", "Europe/Berlin")


def test_times_before_1970_have_windows_too():
    assert pane(tumbling("1 hour"), -1) == (-HOUR, 0)


def test_uneven_hops_share_panes_of_their_common_measure():
    grid = grid_of(hopping("5 minutes", "2 minutes"))
    _, starts, ends = grid.windows(np.array([4 * MINUTE, 5 * MINUTE]))
    assert (starts // MINUTE).tolist() == [0, 2, 4, 2, 4]
    assert (ends // MINUTE).tolist() == [5, 7, 9, 7, 9]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: tumbling("5 parsecs"), "not a duration"),
        (lambda: tumbling("0s"), "longer than nothing"),
        (lambda: hopping("1 minute", "5 minutes"), "leave gaps"),
        (lambda: tumbling("1 day", zone="Europe/Berln"), "no time zone"),
        (lambda: tumbling("7 hours", zone="Europe/Berlin"), "neither"),
        (lambda: hopping("1 day", "1 hour", zone="Europe/Berlin"), "neither"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, said: str):
    with pytest.raises(InvalidFlow, match=said):
        wrong()
