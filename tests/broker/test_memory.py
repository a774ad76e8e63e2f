"""Request memory is bounded, reused, and waited for in turn."""

from headrace.broker.memory import SMALLEST_BUFFER, RequestMemory


def test_no_more_is_handed_out_than_the_limit() -> None:
    memory = RequestMemory(4 * SMALLEST_BUFFER)
    taken = [memory.take(SMALLEST_BUFFER) for _ in range(4)]
    assert all(buffer is not None for buffer in taken)
    assert memory.take(1) is None
    assert memory.in_use == 4 * SMALLEST_BUFFER


def test_a_request_above_the_limit_is_served_when_it_is_alone() -> None:
    memory = RequestMemory(SMALLEST_BUFFER)
    buffer = memory.take(3 * SMALLEST_BUFFER)
    assert buffer is not None
    assert len(buffer) >= 3 * SMALLEST_BUFFER
    assert memory.take(1) is None


def test_a_returned_buffer_serves_the_next_request() -> None:
    memory = RequestMemory(10 * SMALLEST_BUFFER)
    buffer = memory.take(SMALLEST_BUFFER)
    assert buffer is not None
    memory.give_back(buffer)
    assert memory.take(SMALLEST_BUFFER) is buffer
    assert memory.in_use == SMALLEST_BUFFER


def test_those_who_wait_are_served_in_their_order_as_far_as_there_is_room() -> None:
    memory = RequestMemory(4 * SMALLEST_BUFFER)
    first, second = memory.take(3 * SMALLEST_BUFFER), memory.take(1)
    assert first is not None
    assert second is None
    served: list[tuple[str, int]] = []
    memory.wait(2 * SMALLEST_BUFFER, lambda buffer: served.append(("large", len(buffer))))
    memory.wait(1, lambda buffer: served.append(("small", len(buffer))))
    memory.wait(2 * SMALLEST_BUFFER, lambda buffer: served.append(("late", len(buffer))))
    memory.give_back(first)
    assert served == [("large", 2 * SMALLEST_BUFFER), ("small", SMALLEST_BUFFER)]
    assert memory.in_use == 3 * SMALLEST_BUFFER


def test_a_small_request_does_not_overtake_a_large_one_that_waits() -> None:
    memory = RequestMemory(4 * SMALLEST_BUFFER)
    small = memory.take(1)
    assert small is not None
    served: list[int] = []
    memory.wait(4 * SMALLEST_BUFFER, lambda buffer: served.append(len(buffer)))
    assert memory.take(1) is None
    memory.give_back(small)
    assert served == [4 * SMALLEST_BUFFER]


def test_whoever_stops_waiting_lets_the_next_one_in() -> None:
    memory = RequestMemory(4 * SMALLEST_BUFFER)
    taken = memory.take(2 * SMALLEST_BUFFER)
    assert taken is not None
    served: list[str] = []

    def large(buffer: bytearray) -> None:
        served.append("large")

    memory.wait(4 * SMALLEST_BUFFER, large)
    memory.wait(1, lambda buffer: served.append("small"))
    memory.stop_waiting(large)
    assert served == ["small"]
