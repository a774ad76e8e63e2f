"""Aborted transactions whose marker compaction has taken away.

A marker goes once nothing of its transaction is left. A reader who were still told to skip the
transaction would wait for the marker, and skip what its producer wrote later.
"""

from collections.abc import Iterable

from headrace.log.handles import FileHandle
from headrace.log.index import SparseIndex
from headrace.log.transactions import AbortedTransaction
from headrace.log.walk import headers


def without_marker(
    handle: FileHandle, index: SparseIndex, size: int, aborted: Iterable[AbortedTransaction]
) -> set[AbortedTransaction]:
    """Those of the aborted transactions that ended in a segment which no longer has their end.

    Costs a look at the batches between two index entries for each.
    """
    return {each for each in aborted if not _has_marker(handle, index, size, each.last_offset)}


def _has_marker(handle: FileHandle, index: SparseIndex, size: int, offset: int) -> bool:
    place = index.at_or_below_offset(offset)
    for _, header in headers(handle, place.position, size):
        if header.base_offset >= offset:
            return header.base_offset == offset and header.is_control and header.record_count > 0
    return False
