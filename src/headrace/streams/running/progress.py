"""How a running query is doing: what it counts, and a picture of it at one moment."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.streams.skipping import Skipped, skipped
from headrace.streams.time.standing import Standing

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.streams.running.branches import Heard
    from headrace.streams.sinks.applying import Applied

_WHOLE = "triggerExecution"
"""What Spark calls the time that all steps of a batch took together."""

_Offsets: TypeAlias = dict[tuple[str, str], int]
"""A number for each topic and partition."""


class QueryState(StrEnum):
    """What a query is doing."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    """It failed, and will be tried again."""

    GIVEN_UP = "given up"
    STOPPED = "stopped"
    FINISHED = "finished"
    """All that was there has been read."""


RECENT_BATCHES = 50
"""Finished batches of a query that are remembered one by one."""


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """One batch: what it read, and when."""

    number: int
    started_ms: int
    took_ms: int
    rows: int
    reads: Mapping[str, Mapping[str, tuple[int, int]]]
    """By topic and partition the first offset, and the one behind the last."""

    split_ms: Mapping[str, int] = field(default_factory=dict)
    """How long each of its steps took, by Spark's names of them."""


ENDED = frozenset({QueryState.GIVEN_UP, QueryState.STOPPED, QueryState.FINISHED})
"""The states in which nothing more happens."""


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """One query at one moment."""

    flow: str
    output: str
    state: QueryState = QueryState.STARTING
    batch: int | None = None
    """The last batch that was finished."""

    read: int = 0
    """Rows read since the run began."""

    written: int = 0
    """Rows written since the run began; of a batch that is repeated, only what was missing."""

    rate: float = 0.0
    """Rows read per second in the last batch."""

    batch_ms: int | None = None
    """How long the last batch took."""

    lag: int | None = None
    """Records that were there when the last batch was planned, and that are still to be read."""

    backlog: int | None = None
    """Records that were to be read when the run began."""

    restarts: int = 0
    error: str | None = None
    """Why it was last started again, or given up."""

    rejected: int = 0
    """Records that did not parse and were skipped, in the batches finished since the run began."""

    refused: int = 0
    """Rows that the store did not take and that became dead letters, since the run began."""

    lost: int = 0
    """Records that were gone before they were read and were skipped, in the same batches."""

    late: int = 0
    """Events that one of their windows or all did not take, being too late or without a time, since
    the run began; told by the first output of the windows."""

    implausible: int = 0
    """Events whose time was too far ahead of the clock to count, in the batches finished since the
    run began."""

    time: Standing | None = None
    """How far event time had come with the last batch, by every source of it; None without
    windows. Told by their first output."""

    state_rows: int = 0
    """Rows of state that Spark kept after the last batch."""

    state_bytes: int = 0
    """Memory that they took."""

    recent: tuple[FinishedBatch, ...] = ()
    """The last batches that were finished in this run, the newest last."""


class Tally:
    """What a query has done so far; changed by its threads, looked at by anybody."""

    def __init__(self, flow: str, output: str) -> None:
        self._lock = threading.Lock()
        self._now = QueryProgress(flow, output)
        self._applied: dict[int, int] = {}

    @property
    def now(self) -> QueryProgress:
        """The query at this moment."""
        with self._lock:
            return self._now

    def becomes(self, state: QueryState, error: str | None = None) -> None:
        """The query's state has changed, perhaps for a reason."""
        with self._lock:
            written = self._now.written
            if state in ENDED:
                # Spark may not have come to say that the last batch is done.
                written += sum(self._applied.values())
                self._applied.clear()
            error = error or self._now.error
            self._now = replace(self._now, state=state, error=error, written=written)

    def restarted(self) -> None:
        """The query is tried again."""
        with self._lock:
            restarts = self._now.restarts + 1
            self._now = replace(self._now, state=QueryState.STARTING, restarts=restarts)

    def applied(self, applied: "Applied") -> None:
        """The sink has written a batch, which counts when Spark says what was read for it."""
        with self._lock:
            number = applied.batch.id
            self._applied[number] = self._applied.get(number, 0) + applied.rows
            self._now = replace(self._now, refused=self._now.refused + applied.refused)

    def heard(self, heard: "Heard") -> None:
        """Windows have told how a batch went."""
        with self._lock:
            late = self._now.late + heard.left_out
            self._now = replace(self._now, late=late, time=heard.time or self._now.time)

    def look_at(self, query: "StreamingQuery") -> None:
        """Add up the batches that Spark has finished since the last look."""
        last, seen = query.lastProgress, self.now.batch
        if last is None:
            return
        # All recent ones are a lot to read, and mostly there is at most one that is new.
        missed = last.batchId > (0 if seen is None else seen + 1)
        for progress in query.recentProgress if missed else (last,):
            self._add(progress)

    def _add(self, progress: "StreamingQueryProgress") -> None:
        before = self.now
        if before.batch is not None and progress.batchId <= before.batch:
            return
        backlog = before.backlog
        if backlog is None:
            backlog = _records_since(progress, _begin)
        # When there is nothing to do, Spark reports the batch that would be next.
        finished = "addBatch" in progress.durationMs
        skips = skipped(progress) if finished else Skipped()
        recent = before.recent
        if finished:
            recent = (*recent, _batch(progress))[-RECENT_BATCHES:]
        with self._lock:
            written = self._now.written + (_written_by_spark(progress) if finished else 0)
            done = [each for each in self._applied if finished and each <= progress.batchId]
            written += sum(self._applied.pop(each) for each in done)
            self._now = replace(
                self._now,
                batch=progress.batchId if finished else before.batch,
                read=before.read + (progress.numInputRows - skips.rows if finished else 0),
                rejected=before.rejected + skips.rejected,
                implausible=before.implausible + skips.implausible,
                lost=before.lost + skips.lost + (_passed_over(progress) if finished else 0),
                written=written,
                rate=progress.processedRowsPerSecond if finished else 0.0,
                batch_ms=progress.durationMs[_WHOLE] if finished else before.batch_ms,
                lag=_records_since(progress, _end),
                backlog=backlog,
                state_rows=sum(each.numRowsTotal for each in progress.stateOperators),
                state_bytes=sum(each.memoryUsedBytes for each in progress.stateOperators),
                recent=recent,
            )


def _batch(progress: "StreamingQueryProgress") -> FinishedBatch:
    reads: dict[str, dict[str, tuple[int, int]]] = {}
    for source in progress.sources:
        begin = _begin(source)
        for (topic, number), end in _end(source).items():
            if begin.get((topic, number), 0) < end:
                reads.setdefault(topic, {})[number] = (begin.get((topic, number), 0), end)
    started = datetime.fromisoformat(progress.timestamp)
    split = {name: took for name, took in progress.durationMs.items() if name != _WHOLE}
    return FinishedBatch(
        progress.batchId,
        round(started.timestamp() * 1000),
        progress.durationMs[_WHOLE],
        progress.numInputRows,
        reads,
        split,
    )


def _written_by_spark(progress: "StreamingQueryProgress") -> int:
    """Rows that a sink of Spark's own has written; ours tell it by themselves."""
    return max(progress.sink.numOutputRows, 0)


def _records_since(
    progress: "StreamingQueryProgress", place: Callable[["SourceProgress"], _Offsets]
) -> int | None:
    """Records from a place of each source to its end; None if Spark does not know."""
    total = 0
    for source in progress.sources:
        first, last = place(source), _offsets(source.latestOffset, "topics")
        if not last:
            return None
        total += sum(max(offset - first.get(each, 0), 0) for each, offset in last.items())
    return total


def _passed_over(progress: "StreamingQueryProgress") -> int:
    """Records that were known to be gone when the batch was planned."""
    return sum(
        sum(_offsets(source.endOffset, "lost").values())
        - sum(_offsets(source.startOffset, "lost").values())
        for source in progress.sources
    )


def _begin(source: "SourceProgress") -> _Offsets:
    """Where the batch begins; the first one, and new partitions, only say so at its end."""
    return _offsets(source.startOffset, "topics") | _offsets(source.endOffset, "begins")


def _end(source: "SourceProgress") -> _Offsets:
    return _offsets(source.endOffset, "topics")


def _offsets(text: str | None, name: str) -> _Offsets:
    """One of the maps in what the source stores as its offsets; empty for other sources."""
    try:
        stored: Any = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(stored, dict):
        return {}
    # Spark's own connector, in the real-time lane, has topics and nothing around them.
    stored = stored if "topics" in stored else {"topics": stored}
    return {
        (topic, number): offset
        for topic, offsets in stored.get(name, {}).items()
        for number, offset in offsets.items()
    }
