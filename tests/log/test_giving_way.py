"""Work that has what nobody else wants of the processors, but never less than its floor."""

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from headrace.log.giving_way import PATIENCE_SECONDS, SLACK_SECONDS, Effort, GivingWay

FLOOR = 1024


class Machine(Executor):
    """A clock and a thread that gives way: what it is handed takes as long as others let it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seconds = 0.0
        self.yielded = 0

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> "Future[Any]":
        self.yielded += 1
        self.now += self.seconds
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments, **options))
        except ValueError as error:
            done.set_exception(error)
        return done


def nothing() -> None:
    """Work that takes no time in a thread of its own right."""


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def effort(machine: Machine) -> Iterator[GivingWay]:
    """One that has done its first piece already."""
    with GivingWay(FLOOR, clock=lambda: machine.now, yielding=machine) as giving_way:
        giving_way.do(0, nothing)
        yield giving_way


def yields(machine: Machine, effort: GivingWay, size: int = 128) -> bool:
    """Do one more piece, and say whether it gave way."""
    before = machine.yielded
    effort.do(size, nothing)
    return machine.yielded > before


def test_work_gives_way_while_it_is_fast_enough(machine: Machine, effort: GivingWay) -> None:
    machine.seconds = 0.125
    assert [yields(machine, effort) for _ in range(5)] == [True] * 5
    assert effort.pressed_bytes == 0


def test_work_that_was_too_slow_makes_up_for_it(machine: Machine, effort: GivingWay) -> None:
    machine.seconds = 0.5 + SLACK_SECONDS
    assert yields(machine, effort)
    machine.seconds = 0.0
    assert [yields(machine, effort) for _ in range(5)] == [False, False, False, True, True]
    assert effort.pressed_bytes == 384


@pytest.mark.parametrize("seconds", [0.25, 1.0, 5.0, 120.0])
def test_it_never_falls_below_its_floor_for_long(
    machine: Machine, effort: GivingWay, seconds: float
) -> None:
    machine.seconds = seconds
    for _ in range(1000):
        effort.do(128, nothing)
    owed = machine.now * FLOOR * min(1.0, PATIENCE_SECONDS / seconds)
    assert owed <= 1000 * 128 + PATIENCE_SECONDS * FLOOR


def test_what_does_not_count_by_itself_does_not_make_the_rest_urgent(
    machine: Machine, effort: GivingWay
) -> None:
    machine.seconds = 0.0625
    assert all(yields(machine, effort, size) for size in (0, 128, 0, 128))


def test_being_ahead_is_no_reason_to_be_starved_later(machine: Machine, effort: GivingWay) -> None:
    for _ in range(1000):
        effort.do(128, nothing)
    machine.seconds = 0.25 + SLACK_SECONDS
    assert yields(machine, effort)
    assert not yields(machine, effort)


def test_what_is_made_up_for_is_bounded(machine: Machine, effort: GivingWay) -> None:
    machine.seconds = 1e6
    assert yields(machine, effort)
    machine.seconds = 0.0
    assert not yields(machine, effort, size=int((PATIENCE_SECONDS - SLACK_SECONDS) * FLOOR))
    assert yields(machine, effort)


def test_time_between_the_pieces_does_not_count(machine: Machine, effort: GivingWay) -> None:
    assert yields(machine, effort)
    machine.now += 1e6
    assert yields(machine, effort)
    assert yields(machine, effort)


def test_what_may_have_to_be_compiled_does_not_give_way(machine: Machine) -> None:
    class Kernel:
        def run(self) -> int:
            return 7

    effort = GivingWay(FLOOR, clock=lambda: machine.now, yielding=machine)
    assert [effort.do(128, Kernel().run) for _ in range(3)] == [7, 7, 7]
    assert machine.yielded == 2


def test_an_error_reaches_the_caller(machine: Machine, effort: GivingWay) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            effort.do(128, int, "seven")
    assert machine.yielded == 1


def test_without_anybody_to_give_way_to_work_is_done_at_once() -> None:
    assert Effort().do(128, int, "7") == 7


@pytest.mark.skipif(sys.platform != "linux", reason="others have no such policy for a thread")
def test_the_thread_that_gives_way_has_the_policy_for_it() -> None:
    def policy() -> int:
        return os.sched_getscheduler(0)

    with GivingWay(FLOOR) as effort:
        own = effort.do(1 << 40, policy)
        assert effort.do(1 << 40, policy) == os.SCHED_IDLE
    assert own == policy() != os.SCHED_IDLE
