"""One blocking connection to one broker: a request out, its answer in."""

import itertools
import socket
import ssl
import struct
import threading
import time
from typing import Any, Final

from headrace.kafka.errors import ClusterError
from headrace.kafka.messages import Request, request
from headrace.kafka.sasl import conversation
from headrace.kafka.security import Credentials, Security
from headrace.kafka.tls import BrokerNotTrusted, is_lasting

CONNECT_SECONDS: Final = 5.0
"""How long an address may take to accept a connection."""

_LENGTH: Final = struct.Struct(">i")
_LARGEST_ANSWER: Final = 2**31 - 1
_PART_OF_SESSION: Final = 0.8
"""After this part of its allotted time an authenticated connection is given up for a new one."""


class AuthenticationFailed(ClusterError):
    """The broker does not accept who we say we are."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"The broker at {address} does not accept us: {reason}. Check sasl.mechanism, "
            "sasl.username and sasl.password in [kafka.properties]."
        )


class UnsupportedRequest(ClusterError):
    """The broker does not know a request in the version that we send."""

    def __init__(self, address: str, asked: Request) -> None:
        super().__init__(
            f"The broker at {address} does not know {asked.api} in version {asked.version}. "
            "Headrace works with its own broker and with Apache Kafka 2.8 or newer."
        )


class Wire:
    """A connection that is made when it is first used; threads take turns.

    What fails on the way is an OSError, or BrokerNotTrusted or AuthenticationFailed if the next
    attempt would fail as well. The connection is closed then, and the next request makes a new one.
    """

    def __init__(
        self, address: tuple[str, int], security: Security, *, client_id: str = "headrace"
    ) -> None:
        self.address = f"{address[0]}:{address[1]}"
        self.place = address
        self._security = security
        self._client_id = client_id.encode()
        self._turn = threading.Lock()
        self._socket: socket.socket | None = None
        self._correlation_ids = itertools.count(1)
        self._versions: dict[int, tuple[int, int]] = {}
        self._valid_until = float("inf")

    def ask(self, asked: Request, seconds: float) -> Any:
        """The answer to a request, as one of kio's messages."""
        return asked.read(bytes(self.ask_frame(asked, seconds)))

    def ask_frame(self, asked: Request, seconds: float) -> memoryview:
        """The bytes of the answer, which begin with the correlation id."""
        with self._turn:
            if self._socket is None or time.monotonic() > self._valid_until:
                self._connect()
            first, last = self._versions.get(asked.key, (0, -1))
            if not first <= asked.version <= last:
                raise UnsupportedRequest(self.address, asked)
            return self._exchange(asked, seconds)

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> None:
        self.close()
        self._socket = socket.create_connection(self.place, CONNECT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._valid_until = float("inf")
        try:
            if self._security.tls is not None:
                self._socket = self._security.tls.wrap_socket(
                    self._socket, server_hostname=self.place[0]
                )
            known = self._handshake("api_versions", 0)
            self._versions = {
                each.api_key: (each.min_version, each.max_version) for each in known.api_keys
            }
            if self._security.credentials is not None:
                self._authenticate(self._security.credentials)
        except BaseException as error:
            self.close()
            if isinstance(error, ssl.SSLError) and is_lasting(error):
                raise BrokerNotTrusted(self.address, error) from None
            raise

    def _authenticate(self, credentials: Credentials) -> None:
        answer = self._handshake("sasl_handshake", 1, mechanism=credentials.mechanism)
        if answer.error_code:
            offered = ", ".join(answer.mechanisms)
            raise AuthenticationFailed(
                self.address, f"{credentials.mechanism} is not one of its mechanisms, {offered}"
            )
        talk = conversation(credentials)
        message = next(talk)
        try:
            while True:
                answer = self._handshake("sasl_authenticate", 1, auth_bytes=message)
                if answer.error_code:
                    reason = answer.error_message or answer.error_code.name
                    raise AuthenticationFailed(self.address, reason.rstrip("."))
                message = talk.send(answer.auth_bytes)
        except StopIteration:
            lifetime = answer.session_lifetime.total_seconds()
        except ValueError as error:
            raise AuthenticationFailed(self.address, str(error)) from None
        if lifetime > 0:
            self._valid_until = time.monotonic() + lifetime * _PART_OF_SESSION

    def _handshake(self, api: str, version: int, **content: Any) -> Any:
        asked = request(api, version, **content)
        return asked.read(bytes(self._exchange(asked, CONNECT_SECONDS)))

    def _exchange(self, asked: Request, seconds: float) -> memoryview:
        connection = self._socket
        assert connection is not None
        try:
            connection.settimeout(seconds)
            correlation_id = next(self._correlation_ids) & 0x7FFFFFFF
            connection.sendall(asked.frame(correlation_id, self._client_id))
            (length,) = _LENGTH.unpack(_receive(connection, _LENGTH.size))
            if not _LENGTH.size <= length <= _LARGEST_ANSWER:
                raise ConnectionError(f"an answer of {length} bytes cannot be")
            frame = _receive(connection, length)
            if _LENGTH.unpack_from(frame)[0] != correlation_id:
                raise ConnectionError("the answer belongs to another request")
        except BaseException:
            # Whatever comes next on this connection would answer another question.
            self.close()
            raise
        return frame


def _receive(connection: socket.socket, count: int) -> memoryview:
    received = memoryview(bytearray(count))
    filled = 0
    while filled < count:
        size = connection.recv_into(received[filled:])
        if not size:
            raise ConnectionError("the connection was closed without an answer")
        filled += size
    return received
