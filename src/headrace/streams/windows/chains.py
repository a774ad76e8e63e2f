"""Which events of a key follow each other closely enough to be one session."""

from typing import TYPE_CHECKING

import numpy as np

from headrace.records.kernels.compiled import compiled

if TYPE_CHECKING:
    from headrace.records.kernels.compiled import Int64s


@compiled
def chained(
    keys: "Int64s", firsts: "Int64s", lasts: "Int64s", gap: int, maximum: int
) -> "tuple[Int64s, Int64s, Int64s]":
    """The number of the session of each part; of each session its first and its last event time.

    Parts are sorted by key and by the time of their first event. A maximum of 0 is none.
    """
    numbers = np.empty(len(keys), np.int64)
    starts = np.empty(len(keys), np.int64)
    reaches = np.empty(len(keys), np.int64)
    session = -1
    for part in range(len(keys)):
        if (
            session < 0
            or keys[part] != keys[part - 1]
            or firsts[part] - reaches[session] > gap
            or (maximum > 0 and firsts[part] - starts[session] >= maximum)
        ):
            session += 1
            starts[session] = firsts[part]
            reaches[session] = lasts[part]
        else:
            reaches[session] = max(reaches[session], lasts[part])
        numbers[part] = session
    return numbers, starts[: session + 1], reaches[: session + 1]
