"""Compaction as the broker runs it: which log is next, and swapping in what the worker wrote."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, TypeVarTuple

from headrace.broker.cleaning_process import CleaningProcess, WorkerGone
from headrace.broker.partition import Partition
from headrace.broker.traffic import Traffic, beside_producers
from headrace.log import CompactionPolicy, PartitionLog, RewrittenSegment
from headrace.log.compaction import (
    ActiveProducer,
    Cleanable,
    assess,
    read_progress,
    write_progress,
)
from headrace.log.compaction_job import (
    CompactionJob,
    RewrittenFiles,
    RoundEnd,
    RoundFailed,
    SourceSegment,
)
from headrace.log.disk import Disk
from headrace.log.errors import LogError
from headrace.log.manifest import REWRITTEN
from headrace.log.segment import Segment

if TYPE_CHECKING:
    from headrace.broker.core import BrokerCore

log = logging.getLogger("headrace.broker")

IDLE_CHECKS: Final = 4
"""After how many looks that found nothing to do the worker ends, and with it its memory."""

FIRST_RETRY_SECONDS: Final = 60.0
LAST_RETRY_SECONDS: Final = 3600.0
"""How long a log is left alone after a failure; the time doubles from the first to the last."""


MOVES_PER_BYTE: Final = 3
"""How often a byte is moved at most: read twice, and written once if it is kept."""

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class Candidate(NamedTuple):
    """A log that is due to be compacted."""

    partition: Partition
    policy: CompactionPolicy
    cleanable: Cleanable


@dataclass(slots=True)
class Progress:
    """How far the compaction of one log has come."""

    first_dirty: int
    failures: int = 0
    retry_at: float = 0.0
    uncleanable: bool = False
    """A batch is damaged: the log is left alone until the broker starts again."""


class Cleaner:
    """Compacts one log at a time, the dirtiest first.

    All of this happens in the event loop's thread, except for what blocks.
    """

    def __init__(self, core: "BrokerCore") -> None:
        self._core = core
        self._metrics = core.metrics.compaction
        self._process = CleaningProcess()
        self._progress: dict[Partition, Progress] = {}
        self._idle = 0
        self._rounds = 0

    def stop(self) -> None:
        """End the worker at once; a round that was under way will begin anew."""
        self._process.stop()

    async def check(self) -> None:
        """Compact everything that is due."""
        busy = False
        while (chosen := await self._choose()) is not None:
            busy = True
            partition, policy, cleanable = chosen
            if not partition.rewriting.locked():
                async with partition.rewriting:
                    await self._compact(partition, policy, cleanable)
        self._idle = 0 if busy else self._idle + 1
        if self._idle == IDLE_CHECKS:
            self.stop()

    async def _choose(self) -> Candidate | None:
        """The dirtiest of the logs that are due."""
        due: list[Candidate] = []
        compacted = {
            partition: policy
            for partition in self._core.partitions()
            if (policy := partition.log.settings.compaction) is not None
        }
        self._forget(compacted)
        for partition, policy in compacted.items():
            progress = await self._progress_of(partition)
            if partition.retired or partition.log.failure is not None:
                continue
            if partition.rewriting.locked():
                # Is being excised; a round would keep copies of what is to be erased.
                continue
            cleanable = self._assess(partition.log, policy, progress)
            name = (partition.topic, partition.index)
            self._metrics.dirty_ratios[name] = cleanable.dirty_ratio
            rested = not progress.uncleanable and time.monotonic() >= progress.retry_at
            if rested and cleanable.is_due(policy):
                due.append(Candidate(partition, policy, cleanable))
        return max(due, key=lambda each: each.cleanable.dirty_ratio, default=None)

    def _assess(
        self, partition_log: PartitionLog, policy: CompactionPolicy, progress: Progress
    ) -> Cleanable:
        return assess(
            partition_log.sealed_segments(),
            policy,
            first_dirty=progress.first_dirty,
            stable_end=partition_log.last_stable_offset,
            now_ms=self._core.clock.now_ms(),
        )

    async def _compact(
        self, partition: Partition, policy: CompactionPolicy, cleanable: Cleanable
    ) -> None:
        for segment in cleanable.segments:
            if not await partition.is_intact(segment):
                # A copy with checksums of its own would make the damage look right.
                self._fail(partition, f"{segment.path} is damaged", corrupt=True)
                return
        job = self._job(partition, policy, cleanable)
        segments = {segment.base_offset: segment for segment in cleanable.segments}
        started = time.monotonic()
        finished = False
        name = f"{partition.topic}-{partition.index}"
        log.info("compacting %s from offset %d on", name, cleanable.first_dirty)
        traffic = Traffic(self._core.settings.compaction_floor, MOVES_PER_BYTE)
        try:
            async with beside_producers(
                self._core, traffic, self._hold_back, concerns=_is_compacted
            ):
                async for report in self._process.run(job):
                    if isinstance(report, RewrittenFiles):
                        if not await self._swap(partition.log, segments, report):
                            # The next files must not come without these; see `compaction_round`.
                            return
                    elif isinstance(report, RoundFailed):
                        self._fail(partition, report.reason, corrupt=report.corrupt)
                    else:
                        finished = True
                        await self._finish(partition, cleanable, report, time.monotonic() - started)
        except (LogError, OSError, WorkerGone) as error:
            if not partition.retired:
                self._fail(partition, str(error))
        finally:
            if not finished:
                self._process.stop()
                where = cleanable.segments[0]
                await _in_thread(_remove_files, where.disk, job.path, job.tag)

    def _hold_back(self, bytes_per_second: int) -> None:
        self._process.limit(bytes_per_second)
        self._metrics.limit = bytes_per_second

    def _job(
        self, partition: Partition, policy: CompactionPolicy, cleanable: Cleanable
    ) -> CompactionJob:
        settings = self._core.settings
        self._rounds += 1
        producers = partition.log.producers.active()
        return CompactionJob(
            directory=str(cleanable.segments[0].directory),
            tag=f"compaction-{self._rounds}",
            segments=[
                SourceSegment(each.base_offset, each.end_offset, each.size, each.index_interval)
                for each in cleanable.segments
            ],
            first_dirty=cleanable.first_dirty,
            now_ms=self._core.clock.now_ms(),
            delete_retention_ms=policy.delete_retention_ms,
            segment_bytes=partition.log.settings.segment_bytes,
            memory=settings.compaction_memory,
            bytes_per_second=max(settings.compaction_rate, 0),
            floor=settings.compaction_floor,
            aborted=partition.log.aborted_transactions(
                cleanable.segments[0].base_offset, cleanable.segments[-1].end_offset
            ),
            producers=[
                ActiveProducer(
                    producer_id,
                    state.batches[-1].last_offset if state.batches else -1,
                    state.epoch,
                )
                for producer_id, state in producers.items()
            ],
        )

    async def _swap(
        self, partition_log: PartitionLog, segments: Mapping[int, Segment], files: RewrittenFiles
    ) -> bool:
        """Put files in the place of segments; False if these have left the log meanwhile."""
        swap = partition_log.swap(
            [
                RewrittenSegment(
                    replaces=[segments[base] for base in files.bases],
                    size=files.size,
                    max_timestamp=files.max_timestamp,
                    log_file=files.log_file,
                    index_file=files.index_file,
                )
            ]
        )
        try:
            await _in_thread(swap.prepare)
            return swap.commit()
        finally:
            await _in_thread(swap.finish)

    async def _finish(
        self, partition: Partition, cleanable: Cleanable, end: RoundEnd, seconds: float
    ) -> None:
        where = cleanable.segments[0]
        await _in_thread(write_progress, where.disk, where.directory, end.first_dirty)
        self._progress[partition] = Progress(end.first_dirty)
        removed = end.records_read - end.records_kept
        metrics = self._metrics
        metrics.runs += 1
        metrics.records_read += end.records_read
        metrics.records_removed += removed
        metrics.keyless_records += end.keyless
        metrics.bytes_read += end.bytes_read
        metrics.bytes_removed += end.bytes_read - end.bytes_kept
        metrics.bytes_pressed += end.bytes_pressed
        metrics.seconds += seconds
        metrics.last_run_ms = self._core.clock.now_ms()
        log.info(
            "compacted %s-%d from offset %d to %d in %.1f s: %d of %d records left, %d of %d bytes"
            "%s",
            partition.topic,
            partition.index,
            cleanable.first_dirty,
            end.first_dirty,
            seconds,
            end.records_kept,
            end.records_read,
            end.bytes_kept,
            end.bytes_read,
            f"; {end.keyless} records had no key and went" if end.keyless else "",
        )

    def _fail(self, partition: Partition, reason: str, *, corrupt: bool = False) -> None:
        progress = self._progress[partition]
        self._metrics.failures += 1
        progress.failures += 1
        progress.uncleanable = corrupt
        rest = min(FIRST_RETRY_SECONDS * 2 ** (progress.failures - 1), LAST_RETRY_SECONDS)
        progress.retry_at = time.monotonic() + rest
        self._metrics.uncleanable = sum(each.uncleanable for each in self._progress.values())
        log.error(
            "compaction of %s-%d failed and is tried again %s: %s",
            partition.topic,
            partition.index,
            "when the broker starts next" if corrupt else f"in {rest:g} s",
            reason,
        )

    async def _progress_of(self, partition: Partition) -> Progress:
        known = self._progress.get(partition)
        if known is not None:
            return known
        sealed = partition.log.sealed_segments()
        if not sealed:
            return Progress(0)
        where = sealed[0]
        offset = await _in_thread(read_progress, where.disk, where.directory)
        # A log that has lost its end since may have other records there now.
        found = Progress(offset if offset <= sealed[-1].end_offset else 0)
        return self._progress.setdefault(partition, found)

    def _forget(self, compacted: Mapping[Partition, object]) -> None:
        """Nothing need be known of topics that are gone, or not compacted any more."""
        for partition in self._progress.keys() - compacted.keys():
            del self._progress[partition]
            self._metrics.dirty_ratios.pop((partition.topic, partition.index), None)
        self._metrics.uncleanable = sum(each.uncleanable for each in self._progress.values())


def _is_compacted(partition: Partition) -> bool:
    return partition.log.settings.compaction is not None


async def _in_thread(function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    """Do something that blocks."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


def _remove_files(disk: Disk, directory: Path, tag: str) -> None:
    """Remove what a round left behind that came to nothing."""
    try:
        for name in disk.names(directory):
            if name.endswith(REWRITTEN) and f".{tag}." in name:
                disk.unlink(directory / name)
    except FileNotFoundError:
        return
