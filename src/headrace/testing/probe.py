"""Looking at brokers from outside: which ports are free, and whether a broker answers there."""

import contextlib
import socket
import struct

_METADATA_REQUEST = struct.pack(">ihhihi", 14, 3, 0, 1, -1, 0)
"""A frame with Metadata v0 for all topics, without a client id."""


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different because they are held together."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def serves_metadata(port: int) -> bool:
    """Whether a Metadata request is answered with at least one broker."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(_METADATA_REQUEST)
            with connection.makefile("rb") as answer:
                _size, _correlation, brokers = struct.unpack(">iii", answer.read(12))
    except (OSError, struct.error):
        return False
    return int(brokers) > 0
