"""Transaction markers: the control batches that say how a transaction ended.

A marker is a batch of one record. Its key holds a version and the kind of end, its value a version
and the epoch of the coordinator that decided; everything else is fixed, so that a marker is laid
out with one call and no loop.
"""

import struct
from typing import Final, NamedTuple

from headrace.records.errors import InvalidBatch
from headrace.records.header import (
    CONTROL,
    HEADER_SIZE,
    LAYOUT,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Readable,
)
from headrace.records.validate import write_checksum

_ABORT: Final = 0
_COMMIT: Final = 1

_RECORD: Final = struct.Struct(">5BhhBhiB")
"""Length, attributes, deltas and key length; version and kind; value length; version and epoch."""

_LENGTH: Final = (_RECORD.size - 1) << 1
_KEY_LENGTH: Final = 4 << 1
_VALUE_LENGTH: Final = 6 << 1

_END: Final = struct.Struct(">BhhBhiB")
"""The record from its key's length on. Compaction may change what stands before that."""

MARKER_SIZE: Final = HEADER_SIZE + _RECORD.size
"""Bytes of every marker as it is written."""


class Marker(NamedTuple):
    """The end of one producer's transaction in one partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    """Whether the transaction's records count; otherwise readers are to skip them."""


def build_marker(marker: Marker, timestamp: int) -> bytearray:
    """The batch that a broker appends to end a transaction."""
    batch = bytearray(MARKER_SIZE)
    LAYOUT.pack_into(
        batch,
        0,
        *BatchHeader(
            base_offset=0,
            length=MARKER_SIZE - LENGTH_END,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=TRANSACTIONAL | CONTROL,
            last_offset_delta=0,
            base_timestamp=timestamp,
            max_timestamp=timestamp,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            base_sequence=-1,
            record_count=1,
        ),
    )
    _RECORD.pack_into(
        batch,
        HEADER_SIZE,
        *(_LENGTH, 0, 0, 0, _KEY_LENGTH),
        *(0, _COMMIT if marker.commit else _ABORT),
        *(_VALUE_LENGTH, 0, marker.coordinator_epoch, 0),
    )
    write_checksum(batch)
    return batch


def read_marker(batch: Readable, header: BatchHeader) -> Marker:
    """What a control batch says; `InvalidBatch` if it does not end a transaction."""
    if header.size < MARKER_SIZE or header.record_count != 1:
        raise InvalidBatch(
            f"a control batch of {header.size} bytes is no transaction marker",
            0,
            header.base_offset,
        )
    fields = _END.unpack_from(batch, header.size - _END.size)
    kind, coordinator_epoch = fields[2], fields[5]
    if kind not in (_ABORT, _COMMIT):
        raise InvalidBatch(
            f"a control record of kind {kind} is no transaction marker", 0, header.base_offset
        )
    return Marker(header.producer_id, header.producer_epoch, coordinator_epoch, kind == _COMMIT)
