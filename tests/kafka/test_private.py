"""Telling a broker that is not Headrace's from one that is silent, broken or not there."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headrace.kafka import Cluster, ClusterSilent, ClusterUnreachable, NotHeadrace
from headrace.kafka.private import ask
from headrace.settings import KafkaSettings

Serve = Callable[[socket.socket, bytes], None]
"""Answers the first bytes of a connection, or does not."""


@contextmanager
def listening(serve: Serve) -> Iterator[Cluster]:
    """A server that is asked once per connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    serve(connection, connection.recv(1000))

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield Cluster(KafkaSettings(bootstrap=f"127.0.0.1:{listener.getsockname()[1]}"))
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def hang_up(connection: socket.socket, request: bytes) -> None:
    """As somebody does who speaks something else."""


def know_only_kafka(connection: socket.socket, request: bytes) -> None:
    """As Apache Kafka does: unknown keys are no reason to answer."""
    if request[4:6] == b"\0\x12":
        connection.sendall(bytes.fromhex("0000000a 00000001 0000 00000000"))


def answer_nonsense(connection: socket.socket, request: bytes) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def fail(connection: socket.socket, request: bytes) -> None:
    body = b'{"error": {"kind": "operation", "message": "what?"}}'
    connection.sendall((len(body) + 4).to_bytes(4) + b"\0\0\0\1" + body)


@pytest.mark.parametrize(
    ("serve", "error"),
    [
        (hang_up, ClusterSilent),
        (answer_nonsense, ClusterSilent),
        (know_only_kafka, NotHeadrace),
        (fail, NotHeadrace),
    ],
)
def test_whoever_answers_is_told_apart(serve: Serve, error: type[Exception]):
    with listening(serve) as cluster, pytest.raises(error):
        ask(cluster, "excision.start", {}, seconds=1)


def test_nobody_listens():
    cluster = Cluster(KafkaSettings(bootstrap="127.0.0.1:1"))
    with pytest.raises(ClusterUnreachable, match="refused"):
        ask(cluster, "excision.start", {}, seconds=1)
