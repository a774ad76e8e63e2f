"""How fast work in the background may go beside producers."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker import traffic as module
from headrace.broker.traffic import BUSY_BYTES, Traffic, beside_producers

FLOOR = 1000


class Seconds:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def limit_after(seconds: float, written: int, concerned: int = 0) -> int:
    """The limit after so many bytes were written in so many seconds."""
    clock = Seconds()
    traffic = Traffic(FLOOR, 3, clock)
    traffic.limit(5, 5)
    clock.now = seconds
    return traffic.limit(5 + written, 5 + concerned)


def test_a_first_look_sets_no_limit():
    assert Traffic(FLOOR, clock=Seconds()).limit(1 << 40, 1 << 40) == 0


def test_few_bytes_set_no_limit():
    assert limit_after(2.0, 2 * BUSY_BYTES - 2) == 0


def test_busy_producers_set_the_floor_as_the_limit():
    assert limit_after(0.5, BUSY_BYTES) == FLOOR


def test_compaction_keeps_up_with_its_own_topics():
    assert limit_after(2.0, 2 * BUSY_BYTES, concerned=5000) == 3 * 2500


def test_the_limit_goes_when_producers_rest():
    clock = Seconds()
    traffic = Traffic(FLOOR, clock=clock)
    limits = []
    for second, written in enumerate((0, BUSY_BYTES, BUSY_BYTES)):
        clock.now = second
        limits.append(traffic.limit(written, 0))
    assert limits == [0, FLOOR, 0]


def test_a_clock_that_stands_still_sets_no_limit():
    traffic = Traffic(FLOOR, clock=Seconds())
    traffic.limit(0, 0)
    assert traffic.limit(1 << 40, 0) == 0


async def test_work_is_told_what_changes_and_set_free_at_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0)
    clock = Seconds()
    own: Any = SimpleNamespace(bytes_in=0)
    others: Any = SimpleNamespace(bytes_in=0)
    core: Any = SimpleNamespace(partitions=lambda: (own, others))
    told: list[int] = []
    traffic = Traffic(FLOOR, clock=clock)
    async with beside_producers(core, traffic, told.append, concerns=lambda each: each is own):
        for _ in range(3):
            clock.now += 1
            others.bytes_in += BUSY_BYTES
            await asyncio.sleep(0)
        own.bytes_in += 2 * FLOOR
        others.bytes_in += BUSY_BYTES
        clock.now += 1
        await asyncio.sleep(0)
    assert told == [FLOOR, 2 * FLOOR, 0]
