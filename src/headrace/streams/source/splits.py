"""Cutting what a batch reads into tasks."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headrace.kafka import Partition

RECORDS_PER_TASK: Final = 50_000
"""A task with fewer costs more to start than it saves."""


class Range(NamedTuple):
    """Records of one partition, from `start` up to, but not including, `end`."""

    partition: Partition
    start: int
    end: int


def split(
    starts: Mapping[Partition, int], ends: Mapping[Partition, int], tasks: int
) -> list[tuple[Range, ...]]:
    """What each task reads: at most `tasks` equal parts of everything, in order.

    One large partition is cut so that every core has a part of it, and many small ones are read by
    one task. The same arguments always give the same tasks. A partition without a start is left
    out, and there is no task without records.
    """
    ranges = [
        Range(partition, starts[partition], end)
        for partition, end in sorted(ends.items())
        if partition in starts and starts[partition] < end
    ]
    total = sum(each.end - each.start for each in ranges)
    if not total:
        return []
    count = min(max(tasks, 1), -(-total // RECORDS_PER_TASK))
    return _cut(ranges, [total * (index + 1) // count for index in range(count)])


def _cut(ranges: Sequence[Range], ends: Sequence[int]) -> list[tuple[Range, ...]]:
    """Cut the ranges, laid end to end, at these distances from their beginning."""
    tasks = []
    task: list[Range] = []
    passed = 0
    remaining = iter(ranges)
    current = next(remaining)
    for end in ends:
        while passed < end:
            size = min(current.end - current.start, end - passed)
            task.append(current._replace(end=current.start + size))
            passed += size
            current = current._replace(start=current.start + size)
            if current.start == current.end:
                current = next(remaining, current)
        tasks.append(tuple(task))
        task = []
    return tasks
