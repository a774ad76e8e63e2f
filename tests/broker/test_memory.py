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


def test_those_who_wait_are_told_in_their_order_and_may_wait_again() -> None:
    memory = RequestMemory(SMALLEST_BUFFER)
    told: list[str] = []

    def first() -> None:
        told.append("first")
        assert memory.take(1) is not None

    def second() -> None:
        told.append("second")
        if memory.take(1) is None:
            memory.wait(second)

    buffer = memory.take(1)
    assert buffer is not None
    memory.wait(first)
    memory.wait(second)
    memory.give_back(buffer)
    assert told == ["first", "second"]
    memory.stop_waiting(second)
    memory.give_back(bytearray(SMALLEST_BUFFER))
    assert told == ["first", "second"]
