"""Rewriting segments in the simplest way that keeps offsets, for tests of swaps."""

from collections.abc import Callable, Sequence

from headrace.log import PartitionLog, RewrittenSegment
from headrace.log.disk import Disk, write_all
from headrace.log.handles import FileHandle
from headrace.log.index_file import IndexFile, rebuild_index
from headrace.log.segment import Segment
from headrace.log.walk import headers
from headrace.records import HEADER_SIZE, NO_TIMESTAMP, BatchHeader
from headrace.records.header import CODEC_MASK, LAYOUT, LENGTH_END
from headrace.records.validate import write_checksum
from tests.log.batches import DIRECTORY

Keeps = Callable[[BatchHeader], bool]
"""Which batches stay."""


def empty_batch(header: BatchHeader) -> bytes:
    """The batch without its records."""
    batch = bytearray(
        LAYOUT.pack(
            *header._replace(
                length=HEADER_SIZE - LENGTH_END,
                record_count=0,
                attributes=header.attributes & ~CODEC_MASK,
            )
        )
    )
    write_checksum(batch)
    return bytes(batch)


def rewrite(
    disk: Disk, segments: Sequence[Segment], keeps: Keeps, *, tag: str = "test"
) -> RewrittenSegment:
    """Write segments anew as one, without some of their batches; the last one is emptied then."""
    data = bytearray()
    newest = NO_TIMESTAMP
    for segment in segments:
        handle = FileHandle.open(disk, segment.path)
        for position, header in headers(handle, 0, segment.size):
            if keeps(header):
                data += handle.read(header.size, position)
                newest = max(newest, header.max_timestamp)
            elif segment is segments[-1] and header.next_offset == segment.end_offset:
                data += empty_batch(header)
    name = f"{segments[0].base_offset:020d}.{tag}"
    log_file, index_file = f"{name}.log.rewritten", f"{name}.index.rewritten"
    written = FileHandle(disk, DIRECTORY / log_file, disk.create(DIRECTORY / log_file))
    write_all(disk, written.descriptor, data, 0)
    disk.sync(written.descriptor)
    index = rebuild_index(written, segments[0].base_offset, len(data), segments[0].index_interval)
    IndexFile(disk, DIRECTORY / index_file).save(index, len(index))
    return RewrittenSegment(segments, len(data), newest, log_file, index_file)


def swap(log: PartitionLog, rewritten: Sequence[RewrittenSegment]) -> bool:
    """Do what a broker does, all in one thread; return whether the log reads the new files."""
    swapping = log.swap(rewritten)
    try:
        swapping.prepare()
        return swapping.commit()
    finally:
        swapping.finish()
