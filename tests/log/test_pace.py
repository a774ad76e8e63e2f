"""How fast a reader may be that nobody waits for."""

from threading import Thread

import pytest

from headrace.log.pace import Throttle


def test_a_throttle_lets_through_so_many_bytes_a_second() -> None:
    slept: list[float] = []
    throttle = Throttle(1000, sleep=slept.append)
    for _ in range(10):
        throttle(500)
    assert max(slept) >= 4.9


def test_threads_share_one_rate() -> None:
    slept: list[float] = []
    throttle = Throttle(1000, sleep=slept.append)
    threads = [Thread(target=throttle, args=(500,)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(slept) >= 4.9


def test_without_a_rate_nobody_waits() -> None:
    slept: list[float] = []
    Throttle(-1, sleep=slept.append)(1 << 40)
    Throttle(0, sleep=slept.append)(1 << 40)
    assert slept == []


def test_a_limit_counts_besides_the_rate_and_may_change():
    slept: list[float] = []
    throttle = Throttle(0, sleep=slept.append)
    throttle(1 << 40)
    throttle.limit = 1000
    throttle(500)
    throttle.rate = 100
    throttle(500)
    assert slept == [pytest.approx(0.5, abs=0.05), pytest.approx(5.5, abs=0.05)]
