"""Dates and times as MariaDB and MySQL pack and print them.

What they accept and no calendar has (the year 0, the month 0) is nothing: None.
"""

from datetime import date
from typing import Final

_DAY_US: Final = 86_400_000_000
_SECOND_US: Final = 1_000_000
_DATETIME_SIGN: Final = 1 << 39
_EPOCH: Final = date(1970, 1, 1).toordinal()
_ERA_YEARS, _ERA_DAYS = 400, 146_097
"""After so many years, and days, the calendar repeats; Python's begins with the year 1."""


def days_or_none(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01, of a date that there is.

    >>> days_or_none(1970, 1, 2), days_or_none(0, 1, 1), days_or_none(2023, 2, 30)
    (1, -719528, None)
    """
    eras = 0 if year else 1
    try:
        found = date(year + eras * _ERA_YEARS, month, day)
    except ValueError:
        return None
    return found.toordinal() - eras * _ERA_DAYS - _EPOCH


def packed_datetime(number: int, part: int) -> int | None:
    """Microseconds since 1970-01-01 00:00 of five bytes and a fraction."""
    number -= _DATETIME_SIGN
    day, clock = number >> 17, number & 0x1FFFF
    year_month, of_month = day >> 5, day & 31
    days = days_or_none(year_month // 13, year_month % 13, of_month)
    if days is None:
        return None
    seconds = (clock >> 12) * 3600 + (clock >> 6 & 63) * 60 + (clock & 63)
    return days * _DAY_US + seconds * _SECOND_US + part


def packed_time(data: bytes, size: int, unit: int) -> int:
    """Microseconds of a time, which may be negative and longer than a day."""
    bits = (3 + size) * 8
    number = int.from_bytes(data, "big") - (1 << (bits - 1))
    sign, number = (-1, -number) if number < 0 else (1, number)
    whole, part = number >> size * 8, number & ((1 << size * 8) - 1)
    seconds = (whole >> 12 & 0x3FF) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)
    return sign * (seconds * _SECOND_US + part * unit)


def parse_date(text: str) -> int | None:
    """Days since 1970-01-01.

    >>> parse_date("1970-01-02"), parse_date("0000-00-00")
    (1, None)
    """
    year, month, day = map(int, text.split("-"))
    return days_or_none(year, month, day)


def parse_time(text: str) -> int:
    """Microseconds.

    >>> parse_time("-838:59:59.000001"), parse_time("00:00:01")
    (-3020399000001, 1000000)
    """
    sign = -1 if text.startswith("-") else 1
    clock, _, part = text.lstrip("-").partition(".")
    hours, minutes, seconds = map(int, clock.split(":"))
    whole = hours * 3600 + minutes * 60 + seconds
    return sign * (whole * _SECOND_US + int(part.ljust(6, "0") or 0))


def parse_datetime(text: str) -> int | None:
    """Microseconds since 1970-01-01 00:00.

    >>> parse_datetime("1970-01-01 00:00:01.5"), parse_datetime("0000-00-00 00:00:00")
    (1500000, None)
    """
    date, _, clock = text.partition(" ")
    days = parse_date(date)
    return None if days is None else days * _DAY_US + parse_time(clock)
