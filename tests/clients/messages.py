"""What a client sent or received, in the same form for every client."""

from dataclasses import dataclass

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
"""The compression types of the protocol, in the order of their numbers."""

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Message:
    """One record; equal whichever client it went through."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None


def numbered(count: int, *, size: int = 40, start: int = 0) -> list[Message]:
    """Distinguishable text messages that compress well."""
    return [
        Message(value=f"message {number} ".ljust(size, "x").encode(), key=f"key {number}".encode())
        for number in range(start, start + count)
    ]


def values(messages: list[Message]) -> list[bytes | None]:
    """The messages' values, in order."""
    return [message.value for message in messages]


def plain(messages: list[Message]) -> list[tuple[bytes | None, bytes | None, Headers]]:
    """The messages without their timestamps, which the producer may have chosen itself."""
    return [(message.key, message.value, message.headers) for message in messages]
