"""A crowd of connections that have said hello and then say nothing."""

import contextlib
import resource
import socket
import struct
from collections.abc import Iterator

from headrace.errors import HeadraceError

_API_VERSIONS_REQUEST = struct.pack(">hhih", 18, 0, 1, -1)
"""ApiVersions v0, without a client id."""
_SPARE_DESCRIPTORS = 500
_TIMEOUT_SECONDS = 30.0


class TooFewDescriptors(HeadraceError):
    """The system allows too few open files for the crowd; the message says how to allow more."""


def allow_descriptors(count: int) -> None:
    """Let this process, and those it starts from now on, hold `count` connections and some more."""
    needed = count + _SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise TooFewDescriptors(f"{needed} open files are needed: raise `ulimit -Hn` from {hard}")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


@contextlib.contextmanager
def idle_connections(bootstrap: str, count: int) -> Iterator[None]:
    """Hold `count` connections open for the block, each after one answered request."""
    host, _, port = bootstrap.rpartition(":")
    frame = struct.pack(">i", len(_API_VERSIONS_REQUEST)) + _API_VERSIONS_REQUEST
    with contextlib.ExitStack() as crowd:
        for _ in range(count):
            connection = crowd.enter_context(
                socket.create_connection((host, int(port)), _TIMEOUT_SECONDS)
            )
            connection.sendall(frame)
            with connection.makefile("rb") as answer:
                (size,) = struct.unpack(">i", answer.read(4))
                answer.read(size)
        yield
