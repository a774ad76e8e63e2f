"""Sizes and durations as people write them, such as "1 GiB" and "7 days"."""

import re

_SIZES = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
"""Bytes in each unit of size, lower case."""

_SECOND = 1000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR

_DURATIONS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), _SECOND),
    **dict.fromkeys(("m", "min", "minute", "minutes"), _MINUTE),
    **dict.fromkeys(("h", "hour", "hours"), _HOUR),
    **dict.fromkeys(("d", "day", "days"), _DAY),
    **dict.fromkeys(("w", "week", "weeks"), 7 * _DAY),
}
"""Milliseconds in each unit of time."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)?", re.IGNORECASE)
_DURATION_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes in a size; a number without a unit is bytes, kB is 1000 and KiB is 1024 of them.

    >>> parse_size("1 GiB"), parse_size("512MB"), parse_size("1.5 KiB"), parse_size("100")
    (1073741824, 512000000, 1536, 100)
    """
    match = _SIZE.fullmatch(text.strip())
    unit = (match[2] or "b").lower() if match else ""
    if match is None or unit not in _SIZES:
        raise ValueError(f'"{text}" is not a size; write one like "512 MB" or "1 GiB"')
    return _multiplied(match[1], _SIZES[unit], "bytes")


def parse_duration(text: str) -> int:
    """Milliseconds in a duration, which needs a unit and may have several parts.

    >>> parse_duration("7 days"), parse_duration("30s"), parse_duration("1h 30m")
    (604800000, 30000, 5400000)
    """
    total = position = 0
    while position < len(text):
        match = _DURATION_PART.match(text, position)
        if match is None or match[2].lower() not in _DURATIONS:
            break
        total += _multiplied(match[1], _DURATIONS[match[2].lower()], "milliseconds")
        position = match.end()
    if not text.strip() or position < len(text):
        raise ValueError(f'"{text}" is not a duration; write one like "250ms", "30s" or "7 days"')
    return total


def format_size(size: int) -> str:
    """The shortest exact way to write a size.

    >>> format_size(1 << 30), format_size(512_000_000), format_size(1_048_588)
    ('1 GiB', '512 MB', '1048588 B')
    """
    exact = [(scale, unit) for unit, scale in _SIZES.items() if size and size % scale == 0]
    scale, unit = max(exact, default=(1, "b"))
    label = {"b": "B", "kb": "kB"}.get(unit) or unit.upper().replace("IB", "iB")
    return f"{size // scale} {label}"


def format_duration(milliseconds: int) -> str:
    """The shortest exact way to write a duration in one unit.

    >>> format_duration(604_800_000), format_duration(1_500), format_duration(60_000)
    ('7 days', '1500 ms', '1 minute')
    """
    for scale, unit in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if milliseconds and milliseconds % scale == 0:
            count = milliseconds // scale
            return f"{count} {unit}{'' if count == 1 else 's'}"
    if milliseconds % _SECOND == 0:
        return f"{milliseconds // _SECOND} s"
    return f"{milliseconds} ms"


def readable_duration(milliseconds: float) -> str:
    """A duration as people read it, in its two largest units.

    >>> [readable_duration(each) for each in (0, 250, 4_200, 192_000, 7_500_000)]
    ['0 s', '250 ms', '4.2 s', '3m 12s', '2h 05m']
    """
    seconds = milliseconds / 1000
    if 0 < seconds < 1:
        return f"{milliseconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds else "0 s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours < 24 else f"{hours // 24}d {hours % 24}h"


def _multiplied(number: str, scale: int, unit: str) -> int:
    """Multiply a decimal number exactly; ValueError if the product is not whole."""
    whole, _, fraction = number.partition(".")
    denominator: int = 10 ** len(fraction)
    product, remainder = divmod(int(whole + fraction) * scale, denominator)
    if remainder:
        raise ValueError(f"must be a whole number of {unit}")
    return product
