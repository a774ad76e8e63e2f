"""Dates, times and intervals from the texts that PostgreSQL prints to the numbers we keep.

The texts are those of `DateStyle=ISO`, `IntervalStyle=iso_8601` and `TimeZone=UTC`. Python's own
dates end at the year 9999 and know no BC, PostgreSQL's reach from 4713 BC to 294276, so days are
counted here.
"""

import re
from functools import lru_cache
from math import inf
from typing import Final

from headrace.capture.changes import Interval

_DAY_US: Final = 86_400_000_000
_INFINITE: Final = {b"infinity": inf, b"-infinity": -inf}

INFINITE_INTERVAL: Final = Interval(2**31 - 1, 2**31 - 1, 2**63 - 1)
"""PostgreSQL's own numbers for the interval that is longer than all others."""

_INTERVAL: Final = re.compile(
    rb"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?"
    rb"(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d+))?S)?)?"
)


@lru_cache(maxsize=4096)
def _days(text: bytes) -> int:
    """Days since 1970-01-01 of "2026-11-18"; rows tend to have few different dates."""
    year, month, day = map(int, text.split(b"-"))
    return days_of(year, month, day)


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar, before its invention too; year 0 is 1 BC.

    >>> days_of(1970, 1, 1), days_of(2000, 3, 1), days_of(1969, 12, 31)
    (0, 11017, -1)
    """
    # Years begin in March here, so that the day that may be missing is the last one.
    if month <= 2:
        year -= 1
        month += 12
    era, of_era = divmod(year, 400)
    of_year = (153 * (month - 3) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def parse_date(text: bytes) -> int | float:
    """Days since 1970-01-01.

    >>> parse_date(b"1969-12-31"), parse_date(b"infinity"), parse_date(b"4713-01-01 BC")
    (-1, inf, -2440550)
    """
    if text.endswith(b" BC"):
        year, month, day = map(int, text[:-3].split(b"-"))
        return days_of(1 - year, month, day)
    return _INFINITE[text] if text in _INFINITE else _days(text)


def _clock(text: bytes) -> int:
    """Microseconds of "04:05:06.789"."""
    seconds = int(text[:2]) * 3600 + int(text[3:5]) * 60 + int(text[6:8])
    if len(text) == 15:
        return seconds * 1_000_000 + int(text[9:])
    return seconds * 1_000_000 + int(text[9:].ljust(6, b"0"))


def parse_time(text: bytes) -> int:
    """Microseconds since midnight; 24:00 is PostgreSQL's latest time.

    >>> parse_time(b"04:05:06.789"), parse_time(b"24:00:00")
    (14706789000, 86400000000)
    """
    return _clock(text)


def parse_zoned_time(text: bytes) -> int:
    """Microseconds since midnight in UTC, of a time with an offset.

    >>> parse_zoned_time(b"01:00:00+02"), parse_zoned_time(b"01:00:00.5-05:30")
    (82800000000, 23400500000)
    """
    place = max(text.rfind(b"+"), text.rfind(b"-"))
    offset = [int(part) for part in text[place + 1 :].split(b":")]
    seconds = sum(part * unit for part, unit in zip(offset, (3600, 60, 1), strict=False))
    if text[place] == ord("-"):
        seconds = -seconds
    return (_clock(text[:place]) - seconds * 1_000_000) % _DAY_US


def parse_timestamp(text: bytes) -> int | float:
    """Microseconds since 1970-01-01 00:00.

    >>> parse_timestamp(b"1970-01-02 00:00:00.000001"), parse_timestamp(b"-infinity")
    (86400000001, -inf)
    >>> parse_timestamp(b"0001-12-31 23:59:59 BC"), parse_timestamp(b"0001-01-01 00:00:00")
    (-62135596801000000, -62135596800000000)
    """
    date, _, clock = text.partition(b" ")
    if not clock:
        return _INFINITE[text]
    if clock.endswith(b" BC"):
        return int(parse_date(date + b" BC")) * _DAY_US + _clock(clock[:-3])
    return _days(date) * _DAY_US + _clock(clock)


def parse_zoned_timestamp(text: bytes) -> int | float:
    """Microseconds since 1970-01-01 00:00 UTC, of a moment that is printed in UTC.

    >>> parse_zoned_timestamp(b"1970-01-01 00:00:01+00"), parse_zoned_timestamp(b"infinity")
    (1000000, inf)
    """
    if text.endswith(b"+00"):
        return parse_timestamp(text[:-3])
    return parse_timestamp(text.replace(b"+00", b"", 1))


def parse_interval(text: bytes) -> Interval:
    """The three parts of an interval.

    >>> parse_interval(b"P1Y2M-3DT4H5M6.789S")
    Interval(months=14, days=-3, microseconds=14706789000)
    >>> parse_interval(b"PT-0.5S")
    Interval(months=0, days=0, microseconds=-500000)
    """
    found = _INTERVAL.fullmatch(text)
    if found is None:
        infinite = INFINITE_INTERVAL
        return infinite if text == b"infinity" else Interval(*(-part for part in infinite))
    years, months, days, hours, minutes = (int(found[place] or 0) for place in range(1, 6))
    fraction = int((found[8] or b"0").ljust(6, b"0"))
    moment = int(found[7] or 0) * 1_000_000 + fraction
    if found[6]:
        moment = -moment
    return Interval(years * 12 + months, days, (hours * 3600 + minutes * 60) * 1_000_000 + moment)
