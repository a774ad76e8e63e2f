"""How much of a backlog one batch takes."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.clock import ManualClock
from headrace.streams.source.admission import Pace, admit

backlogs = st.dictionaries(st.text(max_size=3), st.integers(0, 10**9), max_size=20)


def test_without_a_limit_everything_is_admitted() -> None:
    assert admit({"a": 5, "b": 0}, None) == {"a": 5, "b": 0}


def test_a_quiet_partition_is_not_forgotten_beside_a_busy_one() -> None:
    assert admit({"busy": 1_000_000, "quiet": 1}, 10) == {"busy": 9, "quiet": 1}


@given(backlogs, st.integers(1, 10**9))
def test_a_limit_is_used_up_and_never_exceeded(backlog: dict[str, int], limit: int) -> None:
    granted = admit(backlog, limit)
    assert granted.keys() == backlog.keys()
    assert all(0 <= granted[place] <= backlog[place] for place in backlog)
    assert sum(granted.values()) == min(sum(backlog.values()), limit)


@given(backlogs, st.integers(20, 10**9))
def test_whoever_has_records_gives_some_if_the_limit_allows(
    backlog: dict[str, int], limit: int
) -> None:
    granted = admit(backlog, limit)
    assert all(granted[place] > 0 for place in backlog if backlog[place])


@given(
    st.dictionaries(st.text(max_size=3), st.integers(1000, 10**6), min_size=2, max_size=8),
    st.floats(0.1, 0.9),
)
def test_partitions_are_worked_off_at_the_same_speed(backlog: dict[str, int], part: float) -> None:
    limit = round(sum(backlog.values()) * part)
    granted = admit(backlog, limit)
    parts = [granted[place] / backlog[place] for place in backlog]
    assert max(parts) - min(parts) < 0.01


def test_a_pace_follows_the_clock_and_saves_nothing_up() -> None:
    clock = ManualClock()
    pace = Pace(100, clock)
    assert pace.allowance() == 100
    clock.advance(0.5)
    assert pace.allowance() == 50
    assert pace.allowance() == 1
