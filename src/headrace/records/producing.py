"""Record batches as a producer sends them: each by itself, numbered in sequence."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.records.codecs import Codec
from headrace.records.encode import MAX_BATCH_BYTES, encode
from headrace.records.header import iterate_headers
from headrace.records.sources import Sources
from headrace.records.validate import stamp

_SEQUENCE_MASK: Final = (1 << 31) - 1


class Producer(NamedTuple):
    """Who writes: what the broker knows an idempotent producer by."""

    id: int
    epoch: int


class ProducerBatch(NamedTuple):
    """A batch that can be sent as it is."""

    data: memoryview
    first_row: int
    """The row, among those that were encoded, of its first record."""
    records: int


def encode_for_producer(
    records: Sources,
    producer: Producer,
    *,
    sequence: int,
    transactional: bool,
    codec: Codec = Codec.NONE,
    max_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[ProducerBatch]:
    """Encode records as the batches that one producer sends to one partition, in order.

    `sequence` is how many records it has sent there before. A batch exceeds `max_bytes` before
    compression only if it is a single record.
    """
    encoded = memoryview(
        encode(
            records,
            codec=codec,
            max_bytes=max_bytes,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=sequence & _SEQUENCE_MASK,
            transactional=transactional,
        )
    )
    for position, header in iterate_headers(encoded):
        # What a producer sends begins at offset 0; the broker knows better.
        stamp(encoded, 0, -1, position)
        yield ProducerBatch(
            encoded[position : position + header.size], header.base_offset, header.record_count
        )
