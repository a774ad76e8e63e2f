"""Records shared out over partitions, without copying their bytes."""

from collections.abc import Iterator

import numpy as np

from headrace.records.kernels import partitioning as kernels
from headrace.records.kernels.compiled import Int32s, Int64s
from headrace.records.sources import Sources


def partitions_by_key(records: Sources, partitions: int, *, keyless: int = 0) -> Int32s:
    """The partition of each record among that many, as Kafka's own clients choose it.

    Records without a key all go to the partition `keyless`; vary it from call to call.
    """
    chosen = np.empty(len(records), np.int32)
    kernels.choose_partitions(records.keys, partitions, keyless, chosen)
    return chosen


def rows_by_group(groups: Int32s, count: int) -> Iterator[tuple[int, Int64s]]:
    """Each of the groups 0 to `count` that has rows, and which they are, in their order."""
    ends = np.zeros(count, np.int64)
    rows = np.empty(len(groups), np.int64)
    kernels.group_rows(groups, ends, rows)
    start = 0
    for group, end in enumerate(ends.tolist()):
        if end > start:
            yield group, rows[start:end]
        start = end
