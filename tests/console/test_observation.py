"""How one matter is watched."""

import threading

from headrace.console.observing.observation import Observation
from headrace.errors import HeadraceError


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


def test_what_was_seen_stays_when_nothing_can_be_seen_and_recovers() -> None:
    clock, failing = Clock(), [False]

    def gather() -> str:
        if failing[0]:
            raise HeadraceError("gone")
        return "something"

    watched = Observation("a thing", gather, "", interval_ms=1, clock=clock)
    assert watched.seen.at_ms is None
    assert watched.look().value == "something"
    failing[0], clock.ms = True, 2_000
    watched.look()
    clock.ms = 3_000
    seen = watched.look()
    assert (seen.value, seen.at_ms, seen.failure, seen.since_ms) == (
        "something",
        1_000,
        "gone",
        2_000,
    )
    failing[0] = False
    assert watched.look().failure == ""


def test_those_who_want_to_know_are_told_of_what_succeeds_only() -> None:
    told: list[int] = []
    outcomes = iter([1, None, 3])

    def gather() -> int:
        found = next(outcomes)
        if found is None:
            raise HeadraceError("not now")
        return found

    watched = Observation("a thing", gather, 0, interval_ms=1)
    watched.tell(told.append)
    for _ in range(3):
        watched.look()
    assert told == [1, 3]


def test_it_looks_in_the_background_at_once_when_asked_and_stops() -> None:
    looks = []
    closed = threading.Event()

    def gather() -> int:
        looks.append(1)
        return len(looks)

    watched = Observation("a thing", gather, 0, interval_ms=3_600_000, close=closed.set)
    watched.start()
    watched.look_again()
    watched.look_again()
    assert watched.value >= 2
    watched.stop()
    watched.stop()
    assert closed.is_set()


def test_a_defect_does_not_end_it() -> None:
    looks = []

    def gather() -> int:
        looks.append(1)
        if len(looks) == 1:
            raise ValueError("a defect")
        return 7

    watched = Observation("a thing", gather, 0, interval_ms=1)
    watched.start()
    watched.look_again()
    watched.look_again()
    watched.stop()
    assert watched.value == 7
