"""Numbers, sizes and times as people read them on a page."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from headrace.settings import readable_duration

_UNITS = ("B", "kB", "MB", "GB", "TB")


def count(number: float | None) -> str:
    """A number with its thousands apart, or a dash.

    >>> count(1234567), count(None)
    ('1,234,567', '-')
    """
    return "-" if number is None else f"{number:,.0f}"


def rate(number: float) -> str:
    """Something per second.

    >>> rate(0), rate(0.26), rate(1234)
    ('0/s', '0.3/s', '1,234/s')
    """
    if 0 < number < 10:
        return f"{number:.1f}/s"
    return f"{number:,.0f}/s"


def size(number: float | None) -> str:
    """Bytes.

    >>> size(999), size(1_234_567), size(None)
    ('999 B', '1.2 MB', '-')
    """
    if number is None:
        return "-"
    for unit in _UNITS:
        if number < 1000 or unit == _UNITS[-1]:
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"


def duration(milliseconds: float | None) -> str:
    """A time span, or a dash."""
    return "-" if milliseconds is None else readable_duration(milliseconds)


def ago(milliseconds: int | None, now_ms: int) -> str:
    """How long ago a moment was.

    >>> ago(1_000, 63_000), ago(None, 0)
    ('1m 02s ago', 'never')
    """
    if milliseconds is None:
        return "never"
    passed = max(now_ms - milliseconds, 0)
    return "just now" if passed < 2000 else f"{readable_duration(passed // 1000 * 1000)} ago"


def moment(milliseconds: int | None) -> str:
    """A moment in UTC, to the millisecond.

    >>> moment(1_767_261_600_250)
    '2026-01-01 10:00:00.250'
    """
    if milliseconds is None:
        return "-"
    try:
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return "never"
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}"


def clock_time(milliseconds: int | None) -> str:
    """The time of day of a moment in UTC.

    >>> clock_time(1_767_261_600_250)
    '10:00:00.250'
    """
    return moment(milliseconds).partition(" ")[2] or "-"


def short(text: str, longest: int = 160) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def shown(value: Any) -> str:
    """A value of a column."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def link(path: str, **arguments: object) -> str:
    """The address of a page.

    >>> link("/group", name="a b")
    '/group?name=a+b'
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
