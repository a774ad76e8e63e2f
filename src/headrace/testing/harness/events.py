"""Events as tests write them, and the records that a producer would have made of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headrace.streams.names import did_you_mean
from headrace.testing.harness.errors import InvalidEvent

if TYPE_CHECKING:
    from headrace.streams.plan import ReadTopics

Event: TypeAlias = Mapping[str, Any] | bytes | str | None
"""A row, the bytes or the text of a record's value, or None for a tombstone."""

Key: TypeAlias = bytes | str | int | None
"""A record's key; what is no bytes is written as text."""

Headers: TypeAlias = Mapping[str, bytes | str | None]

Time: TypeAlias = datetime | str | int
"""A time with its zone, as ISO text or as milliseconds since 1970."""

_ROWS: Final = frozenset({"json", "json_schema", "debezium"})
"""The formats in which a row can be written down as JSON."""


@dataclass(frozen=True, slots=True)
class SentRecord:
    """A record on its way into a flow."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def value_of(event: Event, reads: "Sequence[ReadTopics]", place: str) -> bytes | None:
    """The bytes of an event for those who read its topic; `place` names it in a refusal."""
    if event is None or isinstance(event, bytes):
        return event
    if isinstance(event, str):
        return event.encode()
    if not isinstance(event, Mapping):
        raise InvalidEvent(
            f"{place} is {event!r}; send a row as a dict, bytes, text, or None for a tombstone."
        )
    for read in reads:
        if read.format not in _ROWS or "registry" in read.options:
            raise InvalidEvent(
                f"{place} is a dict, but its topic is read as {read.format}"
                f"{' with a registry' if 'registry' in read.options else ''}; send its bytes."
            )
        _require_columns(event, read, place)
    try:
        return json.dumps(event, default=_plain, ensure_ascii=False).encode()
    except TypeError as error:
        raise InvalidEvent(f"{place} cannot be JSON: {error}.") from None


def key_of(key: Key, event: Event, reads: "Sequence[ReadTopics]") -> bytes | None:
    """The key that was given, else the one that a table of this topic has in its rows."""
    if key is not None:
        return key if isinstance(key, bytes) else str(key).encode()
    columns = next((read.key for read in reads if read.key), ())
    if not columns or not isinstance(event, Mapping) or not all(c in event for c in columns):
        return None
    parts = {name: event[name] for name in columns}
    if len(columns) > 1:
        return json.dumps(parts, default=_plain).encode()
    (part,) = parts.values()
    return (part if isinstance(part, str) else json.dumps(part, default=_plain)).encode()


def headers_of(headers: Headers | None) -> tuple[tuple[str, bytes | None], ...]:
    """Headers with their values in bytes."""
    return tuple(
        (name, value.encode() if isinstance(value, str) else value)
        for name, value in (headers or {}).items()
    )


def milliseconds(time: Time, what: str = "timestamp") -> int:
    """A time as milliseconds since 1970.

    >>> milliseconds("1970-01-01T00:00:01.5Z")
    1500
    """
    if isinstance(time, int):
        return time
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            raise InvalidEvent(
                f'{what}={time!r} is no time; write "2026-01-01T08:00:00Z", a datetime, or '
                "milliseconds since 1970."
            ) from None
        time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    if time.tzinfo is None:
        raise InvalidEvent(f"{what}={time!r} has no time zone; add tzinfo=UTC.")
    return round(time.timestamp() * 1000)


def _require_columns(event: Mapping[str, Any], read: "ReadTopics", place: str) -> None:
    """Refuse a field that no column takes: in a test that is a slip of the pen."""
    if read.rows is None or read.format == "debezium":
        return
    for name in event:
        if name not in read.rows.names:
            hint = did_you_mean(str(name), read.rows.names)
            raise InvalidEvent(
                f"{place} has a field {name}, which is no column of the stream; {hint} (To send "
                "fields that nobody reads, send bytes.)"
            )


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{value!r} has no form in JSON")
