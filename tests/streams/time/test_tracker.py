"""The watermark of many sources: what it waits for, and what it never does."""

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.streams.errors import InvalidFlow
from headrace.streams.plan import CONTROL
from headrace.streams.time import Watermark
from headrace.streams.time.control import Observation
from headrace.streams.time.observing import Observing
from headrace.streams.time.standing import Standing, standing_of
from headrace.streams.time.tracker import Tracker

SECOND = 1_000_000
IN_ORDER = Watermark(out_of_order="0 s")
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Bucket:
    """A tracker with its memory."""

    def __init__(self, **rules: str) -> None:
        self.tracker = Tracker({"input": Watermark(**({"out_of_order": "0 s"} | rules))})
        self.memory = ""

    def batch(self, clock: int, promises: dict[str, int] | None = None, **times: int) -> int | None:
        """The watermark in seconds after a batch."""
        told = Observation(
            clock * SECOND,
            {name: time * SECOND for name, time in times.items()},
            {name: time * SECOND for name, time in (promises or {}).items()},
        )
        frame = pl.DataFrame({"x": [1, None], CONTROL: [None, told.to_bytes()]})
        bounds = self.tracker.observe("input", frame)
        self.memory, watermark = self.tracker.advance(self.memory, bounds)
        return None if watermark is None else watermark // SECOND

    @property
    def holding(self) -> str | None:
        return self.standing.holding

    @property
    def standing(self) -> Standing:
        found = standing_of(self.memory)
        assert found is not None
        return found


def test_the_slowest_source_holds_the_others_back_and_is_named():
    bucket = Bucket(out_of_order="10 s")
    assert bucket.batch(0, a=100, b=50) == 40
    assert bucket.holding == "b"
    assert bucket.batch(1, b=200) == 90
    assert bucket.holding == "a"


def test_without_any_source_there_is_no_watermark():
    assert Bucket().batch(5) is None


def test_a_source_that_joins_late_holds_back_but_does_not_turn_back():
    bucket = Bucket()
    assert bucket.batch(0, a=100) == 100
    assert bucket.batch(1, a=110, b=20) == 100
    assert bucket.batch(2, a=120, b=115) == 115


def test_of_an_event_and_a_promise_in_one_batch_the_later_counts():
    bucket = Bucket()
    assert bucket.batch(0, promises={"b": 70}, a=100, b=50) == 70
    assert bucket.batch(1, promises={"b": 10}, b=80) == 80


def test_a_promise_closes_what_no_event_does_and_a_far_one_is_a_farewell():
    bucket = Bucket(out_of_order="10 s")
    assert bucket.batch(0, a=100, b=50) == 40
    assert bucket.batch(1, promises={"b": 70}) == 70
    assert bucket.batch(2, promises={"b": 10**9}) == 90


def test_nobody_is_given_up_unless_that_is_asked_for():
    bucket = Bucket()
    bucket.batch(0, a=1, b=1)
    assert bucket.batch(10**6, a=500) == 1


def test_a_silent_source_is_not_waited_for_and_counts_again_when_it_is_back():
    bucket = Bucket(idle_after="60 s")
    bucket.batch(0, a=0, b=0)
    assert bucket.batch(59, a=59) == 0
    assert bucket.batch(60, a=60) == 60
    assert bucket.holding == "a"
    assert bucket.batch(61, a=61, b=10) == 60
    assert bucket.holding == "b"


def test_if_all_are_silent_event_time_goes_on_with_the_clock():
    bucket = Bucket(idle_after="60 s")
    bucket.batch(1000, a=100, b=90)
    assert bucket.batch(1059) == 90
    assert bucket.batch(1060) == 160
    assert bucket.holding is None
    assert bucket.batch(1100) == 200


def test_sources_that_are_long_gone_are_forgotten_but_not_the_last():
    bucket = Bucket(idle_after="1 s")
    bucket.batch(0, a=1)
    bucket.batch(5, b=2)
    bucket.batch(100)
    names = [each.name for each in bucket.standing.sources]
    assert names == ["b"]


@PATIENT
@given(
    st.lists(
        st.tuples(
            st.integers(0, 200), st.dictionaries(st.sampled_from("abc"), st.integers(0, 500))
        ),
        max_size=20,
    ),
    st.sampled_from([{}, {"idle_after": "30 s"}]),
)
def test_it_never_goes_back_and_says_the_same_again(
    batches: list[tuple[int, dict[str, int]]], rules: dict[str, str]
):
    first, again = Bucket(**rules), Bucket(**rules)
    before = -1
    for clock, times in batches:
        now = first.batch(clock, None, **times)
        assert again.batch(clock, None, **times) == now
        assert again.memory == first.memory
        assert now is None or now >= before
        before = before if now is None else now


@PATIENT
@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 500)), max_size=20))
def test_without_idleness_it_is_the_least_of_the_largest_unless_one_joins(
    batches: list[dict[str, int]],
):
    bucket = Bucket()
    largest: dict[str, int] = {}
    expected = None
    for number, times in enumerate(batches):
        largest |= {name: max(time, largest.get(name, 0)) for name, time in times.items()}
        least = min(largest.values(), default=None)
        if least is not None:
            expected = least if expected is None else max(expected, least)
        assert bucket.batch(number, None, **times) == expected


def rows(**columns: list[object]) -> pa.RecordBatch:
    times = {"at": pa.timestamp("us", "UTC"), "done": pa.timestamp("us", "UTC")}
    return pa.RecordBatch.from_pydict(
        {name: pa.array(each, times.get(name)) for name, each in columns.items()}
    )


def test_a_task_tells_the_largest_time_of_each_partition():
    observing = Observing(7, "at")
    observing.add("t-0", rows(at=[5, 9, None]))
    observing.add("t-0", rows(at=[8]))
    observing.add("t-1", rows(at=[None]))
    assert observing.told == Observation(7, {"t-0": 9})


def test_a_task_tells_times_and_promises_of_each_producer():
    observing = Observing(7, "at", by="who", until="done")
    observing.add("t-0", rows(at=[5, 9, 3], who=["a", "b", None], done=[None, 4, None]))
    assert observing.told == Observation(7, {"a": 5, "b": 9, "t-0": 3}, {"b": 4})


def test_a_clock_in_2031_is_counted_and_does_not_count():
    observing = Observing(100, "at", ahead=10)
    observing.add("t-0", rows(at=[5, 10**9, 110]))
    assert observing.told == Observation(100, {"t-0": 110}, {}, 1)


def test_a_text_is_no_time():
    with pytest.raises(InvalidFlow, match="declare it as a timestamp"):
        Observing(7, "who").add("t-0", rows(who=["a"]))


def test_a_watermark_of_negative_durations_is_refused():
    with pytest.raises(InvalidFlow, match="out_of_order"):
        Watermark(out_of_order="-1 s")
    with pytest.raises(InvalidFlow, match="idle_after"):
        Watermark(idle_after="0 s")


def test_behind_another_operator_it_is_the_sources_of_that_which_are_named():
    tracker = Tracker({"input": IN_ORDER})
    origins = {"clicks-0": (60 * SECOND, 1, False), "clicks-1": (90 * SECOND, 2, True)}
    told = Observation(5, promises={"window/3": 50 * SECOND}, origins=origins)
    bounds = tracker.observe("input", pl.DataFrame({CONTROL: [told.to_bytes()]}))
    memory, watermark = tracker.advance("", bounds)
    assert watermark == 50 * SECOND
    found = standing_of(memory)
    assert found is not None
    assert [(each.name, each.bound // SECOND, each.idle) for each in found.sources] == [
        ("clicks-0", 60, False),
        ("clicks-1", 90, True),
    ]
    assert found.holding == "clicks-0"
    # Who is told of no more is gone, and what is not told of at all stays.
    told = Observation(6, promises={"window/3": 70 * SECOND}, origins={"clicks-1": (95, 6, False)})
    bounds = tracker.observe("input", pl.DataFrame({CONTROL: [told.to_bytes()]}))
    memory, _ = tracker.advance(memory, bounds)
    memory, watermark = tracker.advance(memory, {})
    assert watermark == 70 * SECOND
    again = standing_of(memory)
    assert again is not None
    assert [each.name for each in again.sources] == ["clicks-1"]


class Joined:
    """A tracker of two inputs with its memory."""

    def __init__(self, left: Watermark, right: Watermark) -> None:
        self.tracker = Tracker({"left": left, "right": right})
        self.memory = ""

    def batch(self, clock: int, left: int | None = None, right: int | None = None) -> int | None:
        """The watermark in seconds after a batch in which inputs tell the time of one source."""
        bounds: dict[str, int] = {}
        for name, time in (("left", left), ("right", right)):
            times = {} if time is None else {"orders-0": time * SECOND}
            told = Observation(clock * SECOND, times)
            bounds |= self.tracker.observe(name, pl.DataFrame({CONTROL: [told.to_bytes()]}))
        self.memory, watermark = self.tracker.advance(self.memory, bounds)
        return None if watermark is None else watermark // SECOND


def test_two_inputs_wait_for_each_other_by_their_own_rules():
    joined = Joined(IN_ORDER, Watermark(out_of_order="10 s"))
    assert joined.batch(0, left=100) is None
    assert joined.batch(1, right=90) == 80
    assert joined.batch(2, right=200) == 100
    found = standing_of(joined.memory)
    assert found is not None
    assert found.holding == "left/orders-0"


def test_an_input_that_has_told_nothing_is_waited_for_as_long_as_its_rules_say():
    joined = Joined(IN_ORDER, Watermark(out_of_order="0 s", idle_after="5 s"))
    assert joined.batch(0, left=100) is None
    found = standing_of(joined.memory)
    assert found is not None
    assert found.holding == "right/nothing yet"
    assert joined.batch(4, left=104) is None
    assert joined.batch(5, left=105) == 105
    # It is late, but it is there: the watermark does not go back, and waits from now on.
    assert joined.batch(6, left=106, right=50) == 105
    assert joined.batch(7, left=107, right=106) == 106
