"""Asking a Headrace broker for what Kafka's protocol has no words for.

One API key that is not advertised, a JSON object each way. Clients of Kafka cannot send such
requests, so this speaks to the broker's socket itself, and does so without TLS or passwords, as
Headrace's listener does.
"""

import json
import socket
import struct
from typing import Any, Final

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import ClusterError, ClusterSilent, ClusterUnreachable
from headrace.settings import split_address

PRIVATE: Final = 0x4852
"""The API key: the letters HR."""

VERSION: Final = 0
"""The version of the framing."""

CONNECT_SECONDS: Final = 5.0
"""How long an address may take to accept a connection, and a broker to answer who it is."""

_API_VERSIONS: Final = 18
_CORRELATION_ID: Final = 1
_CLIENT_ID: Final = b"headrace"
_HEADER: Final = struct.Struct(">hhih")
_LENGTH: Final = struct.Struct(">i")
_LARGEST_ANSWER: Final = 1 << 30


class NotHeadrace(ClusterError):
    """Whoever answers speaks Kafka's protocol, but is no Headrace broker, or an old one."""

    def __init__(self, bootstrap: str, operation: str) -> None:
        super().__init__(
            f"{bootstrap} is not a Headrace broker of a version that knows {operation}. Name one "
            "with --bootstrap; other Kafka brokers cannot do this."
        )


class OperationRefused(ClusterError):
    """The broker understood, and said why it does not do it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        """Which kind of refusal it is, for programs."""


def ask(cluster: Cluster, operation: str, parameters: dict[str, Any], *, seconds: float) -> Any:
    """The result of an operation, for which the broker may take that long.

    Raises `ClusterUnreachable` if nobody listens, `ClusterSilent` if nobody answers as a Kafka
    broker would, `NotHeadrace` if another kind of broker does, and `OperationRefused`.
    """
    body = json.dumps({"operation": operation, **parameters}).encode()
    with _connect(cluster) as connection:
        connection.settimeout(CONNECT_SECONDS + seconds)
        try:
            answer = json.loads(_exchange(connection, PRIVATE, body))
        except (ConnectionError, ValueError) as error:
            if _speaks_kafka(cluster):
                raise NotHeadrace(cluster.bootstrap, operation) from error
            raise ClusterSilent(cluster.bootstrap, str(error)) from error
        except TimeoutError as error:
            raise ClusterSilent(cluster.bootstrap, "no answer in time") from error
    if "error" in answer:
        refusal = answer["error"]
        if refusal["kind"] in ("version", "operation"):
            raise NotHeadrace(cluster.bootstrap, operation)
        raise OperationRefused(refusal["kind"], refusal["message"])
    return answer["result"]


def _connect(cluster: Cluster) -> socket.socket:
    reason = "no address was given"
    for address in cluster.bootstrap.split(","):
        try:
            return socket.create_connection(split_address(address), CONNECT_SECONDS)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
    raise ClusterUnreachable(cluster.bootstrap, reason)


def _speaks_kafka(cluster: Cluster) -> bool:
    """Whether somebody answers the question that every Kafka broker answers."""
    try:
        with _connect(cluster) as connection:
            return bool(_exchange(connection, _API_VERSIONS, b""))
    except (OSError, ClusterUnreachable):
        return False


def _exchange(connection: socket.socket, api_key: int, body: bytes) -> bytes:
    """Send a request, and return the body of its response."""
    header = _HEADER.pack(api_key, VERSION, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID
    connection.sendall(_LENGTH.pack(len(header) + len(body)) + header + body)
    (length,) = _LENGTH.unpack(_receive(connection, _LENGTH.size))
    if not _LENGTH.size <= length <= _LARGEST_ANSWER:
        raise ConnectionError(f"an answer of {length} bytes cannot be")
    return _receive(connection, length)[_LENGTH.size :]


def _receive(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        piece = connection.recv(min(count - len(received), 1 << 20))
        if not piece:
            raise ConnectionError("the connection was closed without an answer")
        received += piece
    return bytes(received)
