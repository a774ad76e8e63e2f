"""What a Fetch response holds: whole batches, a cut off one perhaps, and aborted transactions.

Brokers hand out their files as they are. Which records count, a reader finds out by itself, and
does so by whole batches: those of an aborted transaction lie between the offset at which it began
and its marker.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from headrace.records.header import iterate_headers, read_header, require_whole
from headrace.records.kernels.batches import last_batch
from headrace.records.kernels.compiled import read_only
from headrace.records.markers import read_marker


class Fetched(NamedTuple):
    """The whole batches in a response."""

    batches: memoryview
    next_offset: int
    """Where to go on reading: behind the last batch."""


def fetched(records: memoryview) -> Fetched | None:
    """The whole batches that the bytes begin with; None if there is not even one.

    Raises `UnsupportedMagic` if they begin with a batch of an older format.
    """
    start, end = last_batch(read_only(records, np.uint8))
    if start < 0:
        if len(records) > 0:
            require_whole(read_header(records), 0, 2**62)
        return None
    return Fetched(records[:end], read_header(records, start).next_offset)


def committed_parts(batches: memoryview, aborted: Iterable[tuple[int, int]]) -> list[memoryview]:
    """The batches without those of aborted transactions, in as few pieces as can be.

    Args:
        batches: Whole batches.
        aborted: Each aborted transaction's producer and first offset, as the broker tells them.
    """
    waiting = sorted(aborted, key=lambda each: each[1], reverse=True)
    if not waiting:
        return [batches]
    parts = []
    open_aborted: set[int] = set()
    kept_from = 0
    for position, header in iterate_headers(batches):
        while waiting and waiting[-1][1] <= header.last_offset:
            open_aborted.add(waiting.pop()[0])
        if not header.is_transactional or header.producer_id not in open_aborted:
            continue
        end = position + header.size
        if not header.is_control:
            if position > kept_from:
                parts.append(batches[kept_from:position])
            kept_from = end
        elif not read_marker(batches[position:end], header).commit:
            open_aborted.remove(header.producer_id)
    if kept_from < len(batches):
        parts.append(batches[kept_from:])
    return parts
