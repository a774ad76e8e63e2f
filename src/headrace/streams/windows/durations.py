"""Durations as people write them, in microseconds, which is how event time is counted."""

from datetime import timedelta
from typing import Final, TypeAlias

from headrace.settings.units import format_duration, parse_duration
from headrace.streams.errors import InvalidFlow

Duration: TypeAlias = str | timedelta
"""A duration as text, such as "5 minutes" or "1 hour 30 minutes", or as a timedelta."""

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR


def microseconds(duration: Duration, what: str) -> int:
    """The microseconds in a duration that must be longer than nothing; InvalidFlow if it is not.

    >>> microseconds("1 hour 30 minutes", "size")
    5400000000
    """
    length = signed_microseconds(duration, what)
    if length <= 0:
        raise InvalidFlow(f"{what} is {duration!r}; it must be longer than nothing.")
    return length


def signed_microseconds(duration: Duration, what: str) -> int:
    """The microseconds in a duration that may also be nothing, or negative."""
    if isinstance(duration, timedelta):
        return duration // timedelta(microseconds=1)
    try:
        return parse_duration(duration) * 1000
    except ValueError as error:
        raise InvalidFlow(f"{what}: {error}.") from error


def written(length: int) -> str:
    """Microseconds as people write them.

    >>> written(5_400_000_000), written(1_500)
    ('90 minutes', '1500 microseconds')
    """
    return format_duration(length // 1000) if length % 1000 == 0 else f"{length} microseconds"
