"""Compaction as a broker runs it, but in one thread and on a simulated disk."""

from typing import NamedTuple

import pyarrow as pa

from headrace.log import CompactionPolicy, PartitionLog, RewrittenSegment
from headrace.log.compaction import (
    ActiveProducer,
    assess,
    read_progress,
    write_progress,
)
from headrace.log.compaction_job import (
    CompactionJob,
    RewrittenFiles,
    RoundEnd,
    SourceSegment,
    decode_report,
    encode_report,
)
from headrace.log.compaction_round import Round
from headrace.log.giving_way import Effort
from headrace.records import iterate_headers
from headrace.records.arrow import decode
from tests.log.batches import DIRECTORY
from tests.log.rewrites import swap
from tests.log.simulated_disk import SimulatedDisk


class Found(NamedTuple):
    """A record that a reader found."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


def compact(
    disk: SimulatedDisk,
    log: PartitionLog,
    now_ms: int,
    *,
    policy: CompactionPolicy | None = None,
    memory: int = 1 << 20,
    segment_bytes: int | None = None,
    effort: Effort | None = None,
) -> RoundEnd | None:
    """Run one round over everything that may be compacted, and swap its files in."""
    policy = policy or CompactionPolicy()
    cleanable = assess(
        log.sealed_segments(),
        policy,
        first_dirty=read_progress(disk, DIRECTORY),
        stable_end=log.last_stable_offset,
        now_ms=now_ms,
    )
    if not cleanable.dirty_bytes:
        return None
    job = CompactionJob(
        directory=str(DIRECTORY),
        tag="test",
        segments=[
            SourceSegment(each.base_offset, each.end_offset, each.size, each.index_interval)
            for each in cleanable.segments
        ],
        first_dirty=cleanable.first_dirty,
        now_ms=now_ms,
        delete_retention_ms=policy.delete_retention_ms,
        segment_bytes=segment_bytes or log.settings.segment_bytes,
        memory=memory,
        bytes_per_second=0,
        floor=0,
        aborted=log.aborted_transactions(0, log.last_stable_offset),
        producers=[
            ActiveProducer(
                producer_id, state.batches[-1].last_offset if state.batches else -1, state.epoch
            )
            for producer_id, state in log.producers.active().items()
        ],
    )
    segments = {each.base_offset: each for each in cleanable.segments}
    for said in Round(CompactionJob.decode(job.encode()), disk, effort).run():
        report = decode_report(encode_report(said))
        if isinstance(report, RewrittenFiles):
            replaces = [segments[base] for base in report.bases]
            assert swap(
                log,
                [
                    RewrittenSegment(
                        replaces,
                        report.size,
                        report.max_timestamp,
                        report.log_file,
                        report.index_file,
                    )
                ],
            )
        else:
            assert isinstance(report, RoundEnd)
            write_progress(disk, DIRECTORY, report.first_dirty)
            return report
    raise AssertionError("a round must have an end")


def read_records(log: PartitionLog, offset: int = 0) -> list[Found]:
    """Read from an offset to the end as a consumer does, markers left out."""
    found: list[Found] = []
    while data := log.read(offset, 10_000).read():
        table = decode(data, min_offset=offset, verify_crc=True)
        columns = table.set_column(1, "timestamp", table["timestamp"].cast(pa.int64()))
        for at, timestamp, key, value, headers in zip(*columns.to_pydict().values(), strict=True):
            pairs = tuple((each["key"], each["value"]) for each in headers)
            found.append(Found(at, key, value, timestamp, pairs))
        *_, (_, last) = iterate_headers(data)
        assert last.next_offset > offset, "a reader must get on"
        offset = last.next_offset
    assert offset == log.high_watermark, "a reader must get to the end"
    return found
