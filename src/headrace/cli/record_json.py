"""The JSON form of a record, one per line: what `tail --json` writes, `produce --json` reads.

    {"topic": "orders", "partition": 0, "offset": 41, "timestamp": "2026-03-01T12:00:00.250Z",
     "key": "user-7", "value": {"total": 12.5}, "headers": [["trace", "8c1f"]]}

A key or value that is a JSON object or array appears as such, other text as a string, nothing as
null, and bytes that are not UTF-8 as {"base64": "..."}.
"""

from base64 import b64decode, b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import orjson

if TYPE_CHECKING:
    from confluent_kafka import Message

Headers = list[tuple[str, str | bytes | None]]
"""A record's headers in order, as the client library takes them; a name may occur twice."""


class OutgoingRecord(NamedTuple):
    """A record to be produced; a timestamp of None is the time of producing."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers | None = None
    timestamp: int | None = None


def time_of(message: "Message") -> datetime | None:
    """When the record was made, or appended, as its topic has it."""
    _, milliseconds = message.timestamp()
    return None if milliseconds < 0 else datetime.fromtimestamp(milliseconds / 1000, UTC)


def headers_of(message: "Message") -> list[tuple[str, bytes | None]]:
    """The record's headers, with values as bytes."""
    found = message.headers() or []
    pairs = found.items() if isinstance(found, dict) else found
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]


def encode_record(message: "Message") -> bytes:
    """A record as a line of JSON, without the line's end."""
    moment = time_of(message)
    return orjson.dumps(
        {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": moment
            and moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "key": _encode(message.key()),
            "value": _encode(message.value()),
            "headers": [[name, _encode_text(value)] for name, value in headers_of(message)],
        }
    )


def decode_record(line: bytes) -> OutgoingRecord:
    """A record from a line of JSON; ValueError says what is wrong with it.

    Only "value" is needed. Topic, partition and offset say where a record was, not where it goes,
    and are not looked at.
    """
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg}") from None
    if not isinstance(document, dict) or "value" not in document:
        raise ValueError('is not an object with a "value"')
    return OutgoingRecord(
        value=_decode(document["value"]),
        key=_decode(document.get("key")),
        headers=_decode_headers(document.get("headers") or ()),
        timestamp=_decode_time(document.get("timestamp")),
    )


def _encode(data: bytes | None) -> object:
    if data is None or data[:1] not in (b"{", b"["):
        return _encode_text(data)
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return _encode_text(data)
    if _is_base64(document):
        return _encode_text(data)
    # As it was written, so that numbers keep their digits; line ends can only be between tokens.
    return orjson.Fragment(data.replace(b"\r", b"").replace(b"\n", b""))


def _encode_text(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _decode(value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if _is_base64(value):
        try:
            return b64decode(value["base64"], validate=True)
        except ValueError:
            raise ValueError("has base64 that is none") from None
    return orjson.dumps(value)


def _is_base64(value: object) -> TypeGuard[dict[str, str]]:
    return (
        isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str)
    )


def _decode_headers(headers: object) -> Headers:
    pairs = headers.items() if isinstance(headers, dict) else headers
    try:
        return [(str(name), _decode(value)) for name, value in pairs]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise ValueError('has "headers" that are neither an object nor a list of pairs') from None


def _decode_time(timestamp: object) -> int | None:
    if timestamp is None or (isinstance(timestamp, int) and not isinstance(timestamp, bool)):
        return timestamp
    try:
        return round(datetime.fromisoformat(str(timestamp)).timestamp() * 1000)
    except ValueError:
        raise ValueError(f'has a "timestamp" that is no time: {timestamp}') from None
