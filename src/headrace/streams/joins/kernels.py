"""Compiled loops over the keys and times of rows that are to be joined."""

import numpy as np

from headrace.records.kernels.compiled import Int64s, UInt64s, compiled


@compiled
def numbered(keys: UInt64s, rows: UInt64s) -> tuple[Int64s, int]:
    """The number of each row's key, which two hashes identify, and how many keys there are."""
    size = 16
    while size < 2 * len(keys):
        size *= 2
    firsts = np.full(size, -1, np.int64)
    numbers = np.empty(len(keys), np.int64)
    count = 0
    mask = np.uint64(size - 1)
    for row in range(len(keys)):
        # The keys of a bucket are alike in the bits of the first hash that decided so.
        slot = np.int64(rows[row] & mask)
        while True:
            first = firsts[slot]
            if first < 0:
                firsts[slot] = row
                numbers[row] = count
                count += 1
                break
            if keys[first] == keys[row] and rows[first] == rows[row]:
                numbers[row] = numbers[first]
                break
            slot = (slot + 1) & (size - 1)
    return numbers, count


@compiled
def arranged(numbers: Int64s, order: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Rows that are in some order, put together by their numbers; and where each number begins."""
    starts = np.zeros(count + 1, np.int64)
    for row in range(len(numbers)):
        starts[numbers[row] + 1] += 1
    for number in range(count):
        starts[number + 1] += starts[number]
    free = starts.copy()
    found = np.empty(len(order), np.int64)
    for row in order:
        number = numbers[row]
        found[free[number]] = row
        free[number] += 1
    return found, starts


@compiled
def stretches(
    numbers: Int64s, times: Int64s, starts: Int64s, ordered: Int64s, back: int, reach: int
) -> tuple[Int64s, Int64s]:
    """Of each asking row, where the rows of its number begin and end that are close in time.

    `ordered` are the times of the rows that are asked for, as `arranged` has put them. Those are
    close that are not earlier than `back` before the asking row, nor later than `reach` after it.
    """
    begins = np.empty(len(numbers), np.int64)
    ends = np.empty(len(numbers), np.int64)
    for row in range(len(numbers)):
        first, last = starts[numbers[row]], starts[numbers[row] + 1]
        begins[row] = first + np.searchsorted(ordered[first:last], times[row] - back, "left")
        ends[row] = first + np.searchsorted(ordered[first:last], times[row] + reach, "right")
    return begins, ends
