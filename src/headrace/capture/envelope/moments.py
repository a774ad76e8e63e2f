"""Dates and times as text, beyond the years that Python's own dates know."""

from functools import lru_cache
from math import inf

_DAY_US = 86_400_000_000


def date_of(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01.

    >>> date_of(0), date_of(-1), date_of(11017)
    ((1970, 1, 1), (1969, 12, 31), (2000, 3, 1))
    """
    era, of_era = divmod(days + 719_468, 146_097)
    years = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * years + years // 4 - years // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return years + era * 400 + (month <= 2), month, day


@lru_cache(maxsize=4096)
def iso_date(days: float) -> str:
    """A date as ISO 8601 has it; years beyond 9999 have a sign, as Java prints them.

    >>> iso_date(0), iso_date(2932897), iso_date(-719529)
    ('1970-01-01', '+10000-01-01', '-0001-12-31')
    """
    if days in (inf, -inf):
        return "infinity" if days > 0 else "-infinity"
    year, month, day = date_of(int(days))
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def iso_time(microseconds: int, digits: int | None = None) -> str:
    """A time of day; with so many digits of a second, or as many as it needs.

    >>> iso_time(14706789000), iso_time(14706000000), iso_time(14706000000, 3)
    ('04:05:06.789', '04:05:06', '04:05:06.000')
    """
    seconds, fraction = divmod(microseconds, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    clock = f"{hour:02d}:{minute:02d}:{second:02d}"
    if digits == 6:
        return f"{clock}.{fraction:06d}"
    written = f"{fraction:06d}"
    written = written.rstrip("0") if digits is None else written[:digits]
    return f"{clock}.{written}" if written else clock


def iso_moment(microseconds: int | float, digits: int | None = None) -> str:
    """A date and a time.

    >>> iso_moment(1_000_000, 6), iso_moment(-1)
    ('1970-01-01T00:00:01.000000', '1969-12-31T23:59:59.999999')
    """
    if isinstance(microseconds, float):
        return "infinity" if microseconds > 0 else "-infinity"
    days, of_day = divmod(microseconds, _DAY_US)
    return f"{iso_date(days)}T{iso_time(of_day, digits)}"
