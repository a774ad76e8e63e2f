"""Which aborted transactions a reader is told of: all that concern it, and few others."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.broker.handlers.fetch import _read
from headrace.broker.partition import Partition
from headrace.log import PartitionLog
from headrace.records import Marker, Record, build_batch, iterate_headers, read_header
from tests.log.batches import NOW, new_disk, open_log

ABORTED = 500


@pytest.fixture
def log() -> PartitionLog:
    """A log in which every other record is one of an aborted transaction."""
    log = open_log(new_disk())
    for number in range(ABORTED):
        batch = build_batch(
            [Record(b"k", b"v")],
            timestamp=NOW,
            producer_id=1,
            producer_epoch=0,
            base_sequence=number,
            transactional=True,
        )
        log.append(batch, read_header(batch))
        log.reveal(log.append_marker(Marker(1, 0, 0, commit=False)).base_offset)
    log.advance(log.flush())
    return log


@pytest.mark.parametrize("size", [1, 1_000, 10_000])
@pytest.mark.parametrize("offset", [0, 1, 300, 2 * ABORTED - 100, 2 * ABORTED - 1])
def test_a_fetch_tells_of_the_transactions_in_what_it_returns(
    log: PartitionLog, offset: int, size: int
) -> None:
    partition = Partition("t", 0, log, cast(Any, None), cast(Any, None))
    part = SimpleNamespace(partition=0, fetch_offset=offset, current_leader_epoch=-1)
    reply = _read(partition, part, size, True, at_least_one=True)
    assert reply.records is not None
    returned = reply.records.read(0, reply.records.length)
    begun = {each.base_offset for _, each in iterate_headers(returned) if not each.is_control}
    told = {first for _, first in reply.aborted or ()}
    assert begun <= told
    assert len(told) <= len(begun) + 50
