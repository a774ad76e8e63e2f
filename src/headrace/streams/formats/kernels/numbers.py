"""Numbers, without a detour through floating point for those that are none."""

from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.records.kernels.compiled import Bytes, Int32s, Int64s, compiled
from headrace.streams.formats.kernels.memory import address, byte_at
from headrace.streams.formats.kernels.texts import WRONG_KIND
from headrace.streams.formats.kernels.tokens import ABSENT, FALSE, NUMBER, PLAIN, TRUE, skip_number

OUT_OF_RANGE: Final = 5
NOT_WHOLE: Final = 6
TOO_PRECISE: Final = 7
LATER: Final = 255
"""No problem, but more than these kernels can do: another way must read the row."""

_LARGEST: Final = (1 << 63) - 1
_EXACT: Final = 1 << 53
_POWERS: Final = np.array([10.0**power for power in range(23)])
_EXACT_POWER: Final = 22


@compiled
def read_booleans(kinds: Bytes, values: Bytes, problems: Bytes) -> None:
    """`true` and `false`."""
    for row in range(len(kinds)):
        kind = kinds[row]
        values[row] = kind == TRUE
        if kind != TRUE and kind != FALSE and kind != ABSENT:
            problems[row] = WRONG_KIND


@compiled
def read_integers(
    data: Bytes,
    kinds: Bytes,
    starts: Int32s,
    ends: Int32s,
    least: int,
    most: int,
    values: Int64s,
    problems: Bytes,
) -> None:
    """Whole numbers from `least` to `most`, written without a point or an exponent."""
    memory = address(data)
    for row in range(len(kinds)):
        values[row] = 0
        if kinds[row] == ABSENT:
            continue
        if kinds[row] != NUMBER:
            problems[row] = WRONG_KIND
            continue
        position = int(starts[row])
        end = int(ends[row])
        negative = byte_at(memory, position) == 0x2D
        position += negative
        # Counting down, because there is one more negative number than there are positive ones.
        value = 0
        while position < end:
            digit = byte_at(memory, position) - 0x30
            if digit < 0 or digit > 9:
                problems[row] = NOT_WHOLE
                break
            if value < -922337203685477580 or (value == -922337203685477580 and digit > 8):
                problems[row] = OUT_OF_RANGE
                break
            value = value * 10 - digit
            position += 1
        if problems[row] != 0:
            continue
        if not negative:
            if value == -_LARGEST - 1:
                problems[row] = OUT_OF_RANGE
                continue
            value = -value
        if value < least or value > most:
            problems[row] = OUT_OF_RANGE
        else:
            values[row] = value


@compiled
def read_doubles(
    data: Bytes,
    kinds: Bytes,
    starts: Int32s,
    ends: Int32s,
    values: npt.NDArray[np.float64],
    problems: Bytes,
) -> None:
    """Floating point numbers of up to 15 digits or so; longer ones are left for `LATER`.

    A number below 2^53 times or divided by a power of ten up to 10^22 is one rounding of two exact
    numbers, and so is the nearest double.
    """
    memory = address(data)
    for row in range(len(kinds)):
        values[row] = 0.0
        if kinds[row] == ABSENT:
            continue
        if kinds[row] != NUMBER:
            problems[row] = WRONG_KIND
            continue
        position = int(starts[row])
        digits, exponent, status = scan_number(memory, position, int(ends[row]))
        magnitude = abs(digits)
        if status != 0 or magnitude >= _EXACT or abs(exponent) > _EXACT_POWER:
            problems[row] = LATER
            continue
        number = float(magnitude)
        number = number * _POWERS[exponent] if exponent >= 0 else number / _POWERS[-exponent]
        values[row] = -number if byte_at(memory, position) == 0x2D else number


@compiled
def scan_number(memory: int, position: int, end: int) -> tuple[int, int, int]:
    """A number as `digits * 10^exponent`, and `LATER` if its digits are too many or it is none."""
    negative = byte_at(memory, position) == 0x2D
    position += negative
    digits = 0
    exponent = 0
    seen_point = False
    while position < end:
        byte = byte_at(memory, position)
        if 0x30 <= byte <= 0x39:
            if digits > (_LARGEST - 9) // 10:
                return 0, 0, LATER
            digits = digits * 10 + (byte - 0x30)
            exponent -= seen_point
        elif byte == 0x2E:
            seen_point = True
        elif byte | 0x20 == 0x65:
            position += 1
            below = byte_at(memory, position) == 0x2D
            position += below or byte_at(memory, position) == 0x2B
            power = 0
            while position < end:
                power = min(power * 10 + byte_at(memory, position) - 0x30, 100_000)
                position += 1
            exponent += -power if below else power
            break
        else:
            return 0, 0, LATER
        position += 1
    return -digits if negative else digits, exponent, 0


@compiled
def rescale(digits: int, exponent: int) -> tuple[int, int, bool]:
    """`digits * 10^exponent` as a whole number; whether it overflowed, and whether digits fell off.

    Returns the number, 0 or `OUT_OF_RANGE`, and True if it had to be cut.
    """
    while exponent > 0 and digits != 0:
        if abs(digits) > _LARGEST // 10:
            return 0, OUT_OF_RANGE, False
        digits *= 10
        exponent -= 1
    cut = False
    while exponent < 0 and digits != 0:
        # Towards negative infinity, as times are cut.
        cut = cut or digits % 10 != 0
        digits //= 10
        exponent += 1
    return digits, 0, cut


@compiled
def read_decimals(
    data: Bytes,
    kinds: Bytes,
    starts: Int32s,
    ends: Int32s,
    scale: int,
    bound: int,
    values: Int64s,
    problems: Bytes,
) -> None:
    """Decimals as whole numbers of units of `10^-scale`, below `bound`; from numbers or strings.

    What does not fit a word is left for `LATER`. Digits that the type has no place for are a
    problem, unless they are zeros.
    """
    memory = address(data)
    for row in range(len(kinds)):
        values[row] = 0
        kind = kinds[row]
        if kind == ABSENT:
            continue
        start = int(starts[row])
        end = int(ends[row])
        if kind == PLAIN:
            start += 1
            end -= 1
            if start == end or skip_number(memory, start, end) != end:
                problems[row] = WRONG_KIND
                continue
        elif kind != NUMBER:
            problems[row] = WRONG_KIND
            continue
        digits, exponent, status = scan_number(memory, start, end)
        if status == 0:
            value, status, cut = rescale(digits, exponent + scale)
            if cut:
                problems[row] = TOO_PRECISE
                continue
        if status != 0:
            problems[row] = LATER
        elif abs(value) >= bound:
            problems[row] = OUT_OF_RANGE
        else:
            values[row] = value
