"""Times of day in microseconds, as golden cases write them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def at(text: str) -> int:
    """A moment of 2 March 2026 in UTC, such as 10:03:39.

    >>> at("00:00:01") - at("00:00")
    1000000
    """
    parts = [int(each) for each in text.split(":")]
    day = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp()) * SECOND
    return day + sum(part * unit for part, unit in zip(parts, (HOUR, MINUTE, SECOND), strict=False))


def moment(text: str, zone: str = "UTC", fold: int = 0) -> int:
    """A moment in ISO 8601, in a zone."""
    there = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return int(there.timestamp()) * SECOND


def of_day(time: int | datetime) -> str:
    """The time of day of a moment in UTC.

    >>> of_day(at("10:03:39"))
    '10:03:39'
    """
    known = time if isinstance(time, datetime) else datetime.fromtimestamp(time / SECOND, UTC)
    return known.strftime("%H:%M:%S")
