"""A record as it is shown: where it lies, when it was made, and what it says."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.console.observing.decoding import Decoded, Decoder

if TYPE_CHECKING:
    from confluent_kafka import Message


@dataclass(frozen=True, slots=True)
class RecordSeen:
    """One record."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    """Milliseconds since 1970; None if it has none."""

    key: Decoded
    value: Decoded
    headers: tuple[tuple[str, str], ...]
    size: int
    raw_key: bytes | None
    raw_value: bytes | None
    raw_headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def place(self) -> str:
        """Where it lies, in a word that no other record has."""
        return f"{self.topic}/{self.partition}/{self.offset}"


def record_seen(message: "Message", decoder: Decoder) -> RecordSeen:
    """A record as the client library has it, decoded."""
    key, value = message.key(), message.value()
    raw_key = key if isinstance(key, bytes) else None
    raw_value = value if isinstance(value, bytes) else None
    _, timestamp = message.timestamp()
    found = message.headers() or []
    pairs = found.items() if isinstance(found, dict) else found
    headers = tuple((name, _header_bytes(each)) for name, each in pairs)
    return RecordSeen(
        str(message.topic()),
        -1 if (partition := message.partition()) is None else partition,
        -1 if (offset := message.offset()) is None else offset,
        timestamp if timestamp >= 0 else None,
        decoder.decode(raw_key),
        decoder.decode(raw_value),
        tuple((name, decoder.decode(each).text) for name, each in headers),
        len(raw_key or b"") + len(raw_value or b""),
        raw_key,
        raw_value,
        headers,
    )


def _header_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
