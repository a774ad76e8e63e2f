"""A table of stored batches with all that compaction has to know, and which of them may go.

The rules are Kafka's. Records of aborted transactions go. A marker goes once nothing of its
transaction is left and its delete horizon has passed. A batch from which an active producer's last
sequence number can be read stays, if only as a header, and so does the last one of a round.
"""

from typing import Final, NamedTuple

import numpy as np

from headrace.records.header import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LENGTH_END,
    TRANSACTIONAL,
)
from headrace.records.kernels.batches import (
    IMPOSSIBLE_COUNT,
    IMPOSSIBLE_OFFSET,
    UNKNOWN_CODEC,
    int32_at,
    int64_at,
)
from headrace.records.kernels.compiled import Bytes, Int64s, compiled

# Columns of the table.
POSITION: Final = 0
END: Final = 1
ATTRIBUTES: Final = 2
CODEC: Final = 3
BASE_OFFSET: Final = 4
LAST_OFFSET: Final = 5
BASE_TIMESTAMP: Final = 6
MAX_TIMESTAMP: Final = 7
PRODUCER_ID: Final = 8
PRODUCER_EPOCH: Final = 9
RECORD_COUNT: Final = 10
IS_CONTROL: Final = 11
DATA_START: Final = 12
DATA_END: Final = 13
# Columns that `judge` fills.
DISCARDED: Final = 14
RETAINED: Final = 15
LONELY_MARKER: Final = 16
STORED_COLUMNS: Final = 17

_LENGTH_AT: Final = 8
_ATTRIBUTES_LOW_BYTE_AT: Final = 22
_LAST_OFFSET_DELTA_AT: Final = 23
_BASE_TIMESTAMP_AT: Final = 27
_MAX_TIMESTAMP_AT: Final = 35
_PRODUCER_ID_AT: Final = 43
_PRODUCER_EPOCH_AT: Final = 51
_RECORD_COUNT_AT: Final = 57
_LAST_CODEC: Final = 4
_INT16_SHIFT: Final = 16


class Aborted(NamedTuple):
    """Aborted transactions, sorted by producer and then by offset."""

    producer_ids: Int64s
    first_offsets: Int64s
    last_offsets: Int64s


class Producers(NamedTuple):
    """The active producers, sorted by id, with the offset of their last record or -1."""

    ids: Int64s
    last_offsets: Int64s
    epochs: Int64s


@compiled
def list_batches(
    data: Bytes, first_offset: int, end_offset: int, batches: Int64s
) -> tuple[int, int]:
    """Fill a row for each of the whole batches that `count_batches` found.

    Their offsets must rise from `first_offset` on, and end by `end_offset`: no checksum covers
    them. Returns the index of the first row that is wrong, and what is wrong there.
    """
    position = 0
    for index in range(len(batches)):
        batch = batches[index]
        end = position + LENGTH_END + int32_at(data, position + _LENGTH_AT)
        attributes = data[position + _ATTRIBUTES_LOW_BYTE_AT]
        base_offset = int64_at(data, position)
        last_offset_delta = int32_at(data, position + _LAST_OFFSET_DELTA_AT)
        record_count = int32_at(data, position + _RECORD_COUNT_AT)
        if attributes & CODEC_MASK > _LAST_CODEC:
            return index, UNKNOWN_CODEC
        if (
            base_offset < first_offset
            or last_offset_delta < 0
            or base_offset >= end_offset - last_offset_delta
        ):
            return index, IMPOSSIBLE_OFFSET
        first_offset = base_offset + last_offset_delta + 1
        if record_count < 0 or record_count > last_offset_delta + 1:
            return index, IMPOSSIBLE_COUNT
        batch[POSITION] = position
        batch[END] = end
        batch[ATTRIBUTES] = attributes
        batch[CODEC] = attributes & CODEC_MASK
        batch[BASE_OFFSET] = base_offset
        batch[LAST_OFFSET] = base_offset + last_offset_delta
        batch[BASE_TIMESTAMP] = int64_at(data, position + _BASE_TIMESTAMP_AT)
        batch[MAX_TIMESTAMP] = int64_at(data, position + _MAX_TIMESTAMP_AT)
        batch[PRODUCER_ID] = int64_at(data, position + _PRODUCER_ID_AT)
        batch[PRODUCER_EPOCH] = int32_at(data, position + _PRODUCER_EPOCH_AT) >> _INT16_SHIFT
        batch[RECORD_COUNT] = record_count
        batch[IS_CONTROL] = attributes & CONTROL
        batch[DATA_START] = position + HEADER_SIZE
        batch[DATA_END] = end
        position = end
    return len(batches), 0


@compiled
def _is_aborted(aborted: Aborted, producer_id: int, offset: int) -> bool:
    low = 0
    high = len(aborted.producer_ids)
    while low < high:
        middle = (low + high) // 2
        before = aborted.producer_ids[middle] < producer_id or (
            aborted.producer_ids[middle] == producer_id and aborted.first_offsets[middle] <= offset
        )
        if before:
            low = middle + 1
        else:
            high = middle
    return bool(
        low > 0
        and aborted.producer_ids[low - 1] == producer_id
        and aborted.last_offsets[low - 1] >= offset
    )


@compiled
def _ends_a_producer(producers: Producers, batch: Int64s) -> bool:
    """Whether an active producer's last sequence or epoch stands in this batch."""
    place = np.searchsorted(producers.ids, batch[PRODUCER_ID])
    if place == len(producers.ids) or producers.ids[place] != batch[PRODUCER_ID]:
        return False
    if producers.last_offsets[place] >= 0:
        return bool(producers.last_offsets[place] == batch[LAST_OFFSET])
    return bool(batch[IS_CONTROL] and producers.epochs[place] == batch[PRODUCER_EPOCH])


@compiled
def judge(
    batches: Int64s,
    round_end: int,
    now_ms: int,
    aborted: Aborted,
    producers: Producers,
    transactional_ids: Int64s,
    has_records: Bytes,
) -> None:
    """Decide which batches lose all their records, and which stay even so.

    `has_records` says of each transactional producer, in the order of their sorted ids, whether a
    batch of its current transaction was met; it is kept from one table to the next.
    """
    for index in range(len(batches)):
        batch = batches[index]
        batch[DISCARDED] = batch[RETAINED] = batch[LONELY_MARKER] = 0
        if batch[BASE_OFFSET] >= round_end:
            continue
        batch[RETAINED] = batch[LAST_OFFSET] + 1 == round_end or (
            batch[PRODUCER_ID] >= 0 and _ends_a_producer(producers, batch)
        )
        if not batch[ATTRIBUTES] & (TRANSACTIONAL | CONTROL):
            continue
        producer = np.searchsorted(transactional_ids, batch[PRODUCER_ID])
        if batch[IS_CONTROL]:
            if not has_records[producer]:
                batch[LONELY_MARKER] = 1
                batch[DISCARDED] = (
                    batch[ATTRIBUTES] & DELETE_HORIZON != 0 and batch[BASE_TIMESTAMP] <= now_ms
                )
            has_records[producer] = 0
        else:
            has_records[producer] = 1
            batch[DISCARDED] = _is_aborted(aborted, batch[PRODUCER_ID], batch[BASE_OFFSET])
