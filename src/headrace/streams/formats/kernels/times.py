"""Times and dates in ISO 8601, or as numbers since 1970."""

from typing import Final

from headrace.records.kernels.compiled import Bytes, Int32s, Int64s, compiled
from headrace.streams.formats.kernels.memory import address, byte_at
from headrace.streams.formats.kernels.numbers import NOT_WHOLE, OUT_OF_RANGE, rescale, scan_number
from headrace.streams.formats.kernels.texts import WRONG_KIND
from headrace.streams.formats.kernels.tokens import ABSENT, NUMBER, PLAIN

NOT_A_TIME: Final = 8

_DAY: Final = 86_400_000_000
_MONTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
EARLIEST_DAY: Final = -719_162
LATEST_DAY: Final = 2_932_896
"""The days from year 1 to year 9999, which is what Python and Spark agree on."""


@compiled
def _two(memory: int, position: int) -> int:
    """Two digits as a number, or -1."""
    tens = byte_at(memory, position) - 0x30
    ones = byte_at(memory, position + 1) - 0x30
    if tens < 0 or tens > 9 or ones < 0 or ones > 9:
        return -1
    return tens * 10 + ones


@compiled
def scan_date(memory: int, start: int, end: int) -> tuple[int, bool]:
    """Days since 1970 of the `YYYY-MM-DD` that starts here, and whether it is one."""
    if start + 10 > end or byte_at(memory, start + 4) != 0x2D or byte_at(memory, start + 7) != 0x2D:
        return 0, False
    century = _two(memory, start)
    year = _two(memory, start + 2)
    month = _two(memory, start + 5)
    day = _two(memory, start + 8)
    if century < 0 or year < 0 or month < 1 or month > 12 or day < 1:
        return 0, False
    year += century * 100
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if year < 1 or day > _MONTHS[month - 1] + (month == 2 and leap):
        return 0, False
    # Years begin in March here, so that the leap day is the last; 400 of them have 146,097 days.
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468, True


@compiled
def _scan_zone(memory: int, position: int, end: int) -> tuple[int, bool]:
    """Microseconds that the zone at the end is ahead of UTC; none at all is UTC."""
    if position == end:
        return 0, True
    sign = byte_at(memory, position)
    if sign == 0x5A or sign == 0x7A:
        return 0, position + 1 == end
    if (sign != 0x2B and sign != 0x2D) or position + 3 > end:
        return 0, False
    hours = _two(memory, position + 1)
    position += 3
    minutes = 0
    if position < end:
        position += byte_at(memory, position) == 0x3A
        if position + 2 != end:
            return 0, False
        minutes = _two(memory, position)
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
        return 0, False
    ahead = (hours * 60 + minutes) * 60_000_000
    return -ahead if sign == 0x2D else ahead, True


@compiled
def scan_time(memory: int, start: int, end: int) -> tuple[int, bool]:
    """Microseconds since 1970 of `YYYY-MM-DD[(T| )HH:MM[:SS[.fraction]][zone]]`.

    Digits behind the microseconds are cut off.
    """
    days, right = scan_date(memory, start, end)
    if not right:
        return 0, False
    position = start + 10
    if position == end:
        return days * _DAY, True
    separator = byte_at(memory, position)
    if (separator != 0x54 and separator != 0x20 and separator != 0x74) or position + 6 > end:
        return 0, False
    hours = _two(memory, position + 1)
    minutes = _two(memory, position + 4)
    if (
        byte_at(memory, position + 3) != 0x3A
        or hours < 0
        or hours > 23
        or minutes < 0
        or minutes > 59
    ):
        return 0, False
    position += 6
    micros = (hours * 60 + minutes) * 60_000_000
    if position + 3 <= end and byte_at(memory, position) == 0x3A:
        seconds = _two(memory, position + 1)
        if seconds < 0 or seconds > 59:
            return 0, False
        micros += seconds * 1_000_000
        position += 3
        if position < end and (
            byte_at(memory, position) == 0x2E or byte_at(memory, position) == 0x2C
        ):
            position += 1
            began = position
            unit = 100_000
            while position < end and 0x30 <= byte_at(memory, position) <= 0x39:
                micros += (byte_at(memory, position) - 0x30) * unit
                unit //= 10
                position += 1
            if position == began:
                return 0, False
    ahead, right = _scan_zone(memory, position, end)
    return days * _DAY + micros - ahead, right


@compiled
def read_times(
    data: Bytes,
    kinds: Bytes,
    starts: Int32s,
    ends: Int32s,
    exponent: int,
    values: Int64s,
    problems: Bytes,
) -> None:
    """Microseconds since 1970; a number counts units of `10^exponent` microseconds."""
    memory = address(data)
    for row in range(len(kinds)):
        kind = kinds[row]
        values[row] = 0
        if kind == ABSENT:
            continue
        start = int(starts[row])
        end = int(ends[row])
        if kind == PLAIN:
            value, right = scan_time(memory, start + 1, end - 1)
            if not right:
                problems[row] = NOT_A_TIME
                continue
        elif kind == NUMBER:
            digits, power, status = scan_number(memory, start, end)
            value, overflow, _ = rescale(digits, power + exponent)
            if status != 0 or overflow != 0:
                problems[row] = OUT_OF_RANGE
                continue
        else:
            problems[row] = WRONG_KIND
            continue
        if value < EARLIEST_DAY * _DAY or value >= (LATEST_DAY + 1) * _DAY:
            problems[row] = OUT_OF_RANGE
        else:
            values[row] = value


@compiled
def read_dates(
    data: Bytes, kinds: Bytes, starts: Int32s, ends: Int32s, values: Int32s, problems: Bytes
) -> None:
    """Days since 1970, from `YYYY-MM-DD` or from their number."""
    memory = address(data)
    for row in range(len(kinds)):
        kind = kinds[row]
        values[row] = 0
        if kind == ABSENT:
            continue
        start = int(starts[row])
        end = int(ends[row])
        if kind == PLAIN:
            value, right = scan_date(memory, start + 1, end - 1)
            if not right or end - start != 12:
                problems[row] = NOT_A_TIME
                continue
        elif kind == NUMBER:
            digits, exponent, status = scan_number(memory, start, end)
            value, overflow, cut = rescale(digits, exponent)
            if cut:
                problems[row] = NOT_WHOLE
                continue
            if status != 0 or overflow != 0:
                problems[row] = OUT_OF_RANGE
                continue
        else:
            problems[row] = WRONG_KIND
            continue
        if value < EARLIEST_DAY or value > LATEST_DAY:
            problems[row] = OUT_OF_RANGE
        else:
            values[row] = value
