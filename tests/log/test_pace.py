"""How fast a reader may be that nobody waits for."""

from threading import Thread

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
