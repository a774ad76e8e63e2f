"""An outbox keeps order and hands out files only as fast as the client takes them in."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from headrace.broker.outbox import PIECE, FileEnded, Outbox


class Range:
    """A range of a file that counts how it is used."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.length = len(content)
        self.reads = 0

    def read(self, start: int, count: int) -> bytes:
        self.reads += 1
        return self.content[start : start + count]

    def send(self, socket: int, start: int, count: int) -> int:
        return os.write(socket, self.content[start : start + count])


class Ended(Range):
    """A range of a file that has become shorter."""

    def read(self, start: int, count: int) -> bytes:
        return b""

    def send(self, socket: int, start: int, count: int) -> int:
        return 0


class Transport:
    """Keeps what it is given, or claims to have sent it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.kept = 0

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return self.kept


class SlowTransport(Transport):
    """Says after every write that the client has not taken it all."""

    outbox: Outbox

    def write(self, data: bytes) -> None:
        super().write(data)
        self.outbox.block()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection; the first does not block."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(10)
    with ours, theirs:
        yield ours, theirs


def receive(client: socket.socket, count: int) -> bytes:
    """Exactly so many bytes."""
    received = b""
    while len(received) < count:
        received += client.recv(count - len(received))
    return received


def test_replies_leave_in_the_order_in_which_they_were_sent() -> None:
    transport = Transport()
    outbox = Outbox(transport)
    outbox.send(b"one")
    outbox.block()
    outbox.send([b"two", Range(b"file"), b"three"])
    outbox.send(b"four")
    assert transport.written == [b"one"]
    outbox.unblock()
    assert transport.written == [b"one", b"two", b"file", b"three", b"four"]


def test_a_client_that_does_not_read_costs_one_piece() -> None:
    transport = SlowTransport()
    transport.outbox = outbox = Outbox(transport)
    large = Range(bytes(10 * PIECE))
    outbox.send([large])
    assert large.reads == 1
    assert sum(map(len, transport.written)) == PIECE
    for _ in range(9):
        outbox.unblock()
    assert sum(map(len, transport.written)) == 10 * PIECE


def test_files_go_past_the_transport(pair: tuple[socket.socket, socket.socket]) -> None:
    transport = Transport()
    outbox = Outbox(transport, pair[0])
    file = Range(os.urandom(5000))
    outbox.send([b"head", file, b"tail"])
    assert receive(pair[1], 5004) == b"head" + file.content
    assert transport.written == [b"tail"]
    assert file.reads == 0


def test_nothing_overtakes_what_the_transport_has_kept(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    transport = Transport()
    transport.kept = 1
    outbox = Outbox(transport, pair[0])
    outbox.send([b"head", Range(b"file"), b"tail"])
    assert transport.written == [b"head", b"file", b"tail"]


def test_a_full_socket_leaves_one_piece_to_the_transport(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    transport = SlowTransport()
    transport.outbox = outbox = Outbox(transport, pair[0])
    file = Range(os.urandom(4 << 20))
    outbox.send([b"head", file])
    received = b""
    while len(received) < len(file.content) + 4:
        assert outbox.blocked
        (kept,) = transport.written
        transport.written.clear()
        assert len(kept) == PIECE
        sent = file.content.index(kept) + 4
        received += receive(pair[1], sent - len(received)) + kept
        outbox.unblock()
        if not transport.written:
            received += receive(pair[1], len(file.content) + 4 - len(received))
    assert received == b"head" + file.content


def test_a_header_that_does_not_fit_is_left_to_the_transport(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    filled = 0
    with suppress(BlockingIOError):
        while True:
            filled += pair[0].send(bytes(PIECE))
    transport = SlowTransport()
    transport.outbox = outbox = Outbox(transport, pair[0])
    outbox.send([b"head", Range(b"file")])
    assert transport.written == [b"head"]
    receive(pair[1], filled)
    outbox.unblock()
    assert receive(pair[1], 4) == b"file"


@pytest.mark.parametrize("direct", [False, True])
def test_a_file_that_has_become_shorter_is_noticed(
    pair: tuple[socket.socket, socket.socket], direct: bool
) -> None:
    outbox = Outbox(Transport(), pair[0] if direct else None)
    with pytest.raises(FileEnded, match="4 bytes too early"):
        outbox.send([Ended(b"file")])


def test_a_client_that_is_gone_holds_no_file_and_its_socket_is_left_to_the_transport() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        descriptor = ours.fileno()
        transport = Transport()
        outbox = Outbox(transport, ours)
        outbox.block()
        outbox.send([Range(b"file")])
        outbox.clear()
        outbox.unblock()
        assert transport.written == []
        os.close(descriptor)
