"""Searching any bytes for any of many strings at once, in compiled loops.

Each string is represented by eight of its bytes. One pass over the data holds the last eight bytes
in a register; where these are somebody's eight, the whole string is compared.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.records.kernels.compiled import Bytes, Int64s, compiled

WINDOW: Final = 8
"""Bytes that represent a string; shorter strings cannot be searched for."""

SKETCH_BITS: Final = 20
"""The table of what may be somebody's eight bytes has two to this many entries."""

_LOOKS: Final = 32
_MULTIPLIER: Final = 0x9E3779B97F4A7C15


class Patterns(NamedTuple):
    """The strings, and where to find them by their eight bytes."""

    ends: Int64s
    data: Bytes
    places: Int64s
    """Where in each string its eight bytes are."""

    windows: npt.NDArray[np.uint64]
    sketch: Bytes
    slots: Int64s
    """A string's number plus one, or 0; the length is a power of two and leaves half empty."""


@compiled
def _window_at(data: Bytes, position: int) -> np.uint64:
    window = np.uint64(0)
    for index in range(WINDOW):
        window = (window << np.uint64(8)) | np.uint64(data[position + index])
    return window


@compiled
def _digest(window: np.uint64, bits: int) -> np.uint64:
    return (window * np.uint64(_MULTIPLIER)) >> np.uint64(64 - bits)


@compiled
def prepare(patterns: Patterns, bits: int) -> None:
    """Choose the eight bytes of each string, and enter them; `bits` says how many slots there are.

    Values often begin and end alike, so of several places that one is taken whose bytes are the
    rarest among all the strings.
    """
    seen = np.zeros(1 << SKETCH_BITS, np.int64)
    start = 0
    for end in patterns.ends:
        step = max((end - start) // _LOOKS, 1)
        for position in range(start, end - WINDOW + 1, step):
            seen[_digest(_window_at(patterns.data, position), SKETCH_BITS)] += 1
        start = end
    mask = np.uint64(len(patterns.slots) - 1)
    start = 0
    for number in range(len(patterns.ends)):
        end = patterns.ends[number]
        step = max((end - start) // _LOOKS, 1)
        rarest = np.iinfo(np.int64).max
        for position in range(start, end - WINDOW + 1, step):
            window = _window_at(patterns.data, position)
            count = seen[_digest(window, SKETCH_BITS)]
            if count < rarest:
                rarest = count
                patterns.places[number] = position - start
                patterns.windows[number] = window
        window = patterns.windows[number]
        patterns.sketch[_digest(window, SKETCH_BITS)] = 1
        slot = _digest(window, bits) & mask
        while patterns.slots[slot]:
            slot = (slot + np.uint64(1)) & mask
        patterns.slots[slot] = number + 1
        start = end


@compiled
def _is_at(patterns: Patterns, number: int, data: Bytes, position: int) -> int:
    """Where the string ends whose eight bytes begin at `position`; 0 if it is not there."""
    first = patterns.ends[number - 1] if number else 0
    length = patterns.ends[number] - first
    start = position - patterns.places[number]
    if start < 0 or start + length > len(data):
        return 0
    for index in range(length):
        if patterns.data[first + index] != data[start + index]:
            return 0
    return int(start + length)


@compiled
def count_occurrences(patterns: Patterns, bits: int, data: Bytes, seen: int) -> int:
    """How often any of the strings is in `data` and ends behind its first `seen` bytes."""
    mask = np.uint64(len(patterns.slots) - 1)
    found = 0
    window = np.uint64(0)
    for position in range(len(data)):
        window = (window << np.uint64(8)) | np.uint64(data[position])
        if position < WINDOW - 1 or not patterns.sketch[_digest(window, SKETCH_BITS)]:
            continue
        slot = _digest(window, bits) & mask
        while patterns.slots[slot]:
            number = patterns.slots[slot] - 1
            if (
                patterns.windows[number] == window
                and _is_at(patterns, number, data, position - WINDOW + 1) > seen
            ):
                found += 1
            slot = (slot + np.uint64(1)) & mask
    return found
