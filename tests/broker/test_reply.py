"""An outbox keeps order and reads files only as fast as the client takes them in."""

from headrace.broker.reply import PIECE, Outbox


class Range:
    def __init__(self, size: int) -> None:
        self.length = size
        self.reads = 0

    def read(self, start: int, count: int) -> bytes:
        self.reads += 1
        return bytes(count)


def test_replies_leave_in_the_order_in_which_they_were_sent() -> None:
    written: list[bytes] = []
    outbox = Outbox(written.append)
    outbox.send(b"one")
    outbox.block()
    outbox.send([b"two", Range(3), b"three"])
    outbox.send(b"four")
    assert written == [b"one"]
    outbox.unblock()
    assert written == [b"one", b"two", bytes(3), b"three", b"four"]


def test_a_client_that_does_not_read_costs_one_piece() -> None:
    written: list[bytes] = []

    def write(data: bytes) -> None:
        written.append(data)
        outbox.block()

    outbox = Outbox(write)
    large = Range(10 * PIECE)
    outbox.send([large])
    assert large.reads == 1
    assert sum(map(len, written)) == PIECE
    for _ in range(9):
        outbox.unblock()
    assert sum(map(len, written)) == 10 * PIECE


def test_a_client_that_is_gone_holds_no_file() -> None:
    outbox = Outbox(lambda data: None)
    outbox.block()
    outbox.send([Range(5)])
    outbox.clear()
    outbox.unblock()
