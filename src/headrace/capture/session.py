"""One attempt to capture: from taking over to being told to stop, or failing."""

import logging
import queue
import threading
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headrace.capture.changes import (
    Begin,
    Commit,
    Events,
    Message,
    Reached,
    RowChange,
    SchemaChange,
    Table,
    TableDropped,
    Truncate,
    Watermark,
)
from headrace.capture.delivery import Delivery, Topics
from headrace.capture.errors import CaptureError, LogRetained, PositionLost
from headrace.capture.progress import CaptureProgress, Condition, TableProgress
from headrace.capture.selection import Selection, not_there
from headrace.capture.snapshot import ChunkReaders, Closed, Opened, SnapshotTask, Stale, Windows
from headrace.capture.source import LogStream, Source
from headrace.capture.state import CaptureState, KnownTable, SnapshotRequest, Wishes, fingerprint
from headrace.capture.store import ensure_store, read_store
from headrace.capture.watching import Watch
from headrace.capture.writing import Writer
from headrace.clock import Clock
from headrace.kafka import Cluster, ClusterError
from headrace.settings import CaptureSettings

_GROUP_RECORDS: Final = 20_000
_GROUP_BYTES: Final = 16 << 20
_GROUP_SECONDS: Final = 0.1
"""When a transaction that groups others is committed at last."""

_LATE_MS: Final = 2000
_LATE_GROUP_SECONDS: Final = 0.5
"""What is as old as that is a backlog, which is worked off sooner in larger groups."""

_MANY: Final = 100
_BREATH_SECONDS: Final = 0.002
"""If many changes wait to be committed and the next ones come in drops, let some gather first.

Commits cost the cluster more than changes do, and looking for what is not there yet costs us more
than reading it. Who writes little is told at once.
"""

_IDLE_SECONDS: Final = 0.25
"""How long to wait for something to happen, before looking whether we are to stop."""

_CONFIRM_SECONDS: Final = 1.0
"""How often the database is told what it may forget; it is asked to go on from elsewhere anyway."""

_END_SECONDS: Final = 5.0
"""How long a transaction that is being told may take to end when we are to stop."""

logger = logging.getLogger(__name__)


class Session:
    """A capture that holds its transactional id, its place in the log and its state.

    Args:
        settings: What to do.
        cluster: Where to write.
        source: What to read.
        clock: The time.
        progress: Kept up to date.
        stopping: Set when it is to end.
        wishes: What people want, as it comes.
    """

    def __init__(
        self,
        settings: CaptureSettings,
        cluster: Cluster,
        source: Source,
        *,
        clock: Clock,
        progress: CaptureProgress,
        stopping: threading.Event,
        wishes: "queue.SimpleQueue[Wishes]",
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._source = source
        self._clock = clock
        self._progress = progress
        self._stopping = stopping
        self._wishes = wishes
        self._paused = self._resumed = False
        self._failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self._begin: Begin | None = None
        self._flushed = self._confirmed = clock.monotonic()
        self._changes = self._rows = self._transactions = 0
        self._last_commit_us = 0
        self._read_on = False
        self._described: dict[str, Table] = {}
        self._suspected: dict[str, tuple[Table, int]] = {}
        self._being_read: set[str] = set()
        self._ending: float | None = None

    def run(self) -> None:
        """Capture until told to stop or to pause; anything that goes wrong is raised."""
        settings = self._settings
        ensure_store(self._cluster, settings.called)
        topics = Topics(self._cluster, partitions=settings.partitions, replicas=settings.replicas)
        self._delivery = Delivery(self._cluster, settings.called, topics, self._held_up)
        try:
            # Only now, when nobody else can write it any more.
            stored = read_store(self._cluster, settings.called, settled=True)
            self._state = stored.state or CaptureState(settings.called, settings.prefix)
            self._resumed = self._state.position is not None
            self._check_prefix()
            self._heed(stored.wishes)
            if not self._paused:
                self._capture()
            if self._begin is None:
                self._store_condition()
        finally:
            self._delivery.close()

    @property
    def paused(self) -> bool:
        """Whether it ended because it is to pause."""
        return self._paused

    @property
    def resumed(self) -> bool:
        """Whether this database was captured before, so that it can be found."""
        return self._resumed

    def _capture(self) -> None:
        self._writer = Writer(self._settings, self._source, self._delivery, self._state)
        self._windows = Windows(self._state.recent)
        self._readers = ChunkReaders(
            self._source,
            self._windows,
            threads=self._settings.readers,
            limit=self._settings.chunk,
            failed=self._failures.put,
        )
        watch = Watch(self._source, self._settings, self._failures.put)
        stream = self._open()
        try:
            tables = self._source.tables()
            self._say_what_is_missing(tables)
            self._join(tables)
            self._read_tables()
            self._flush(stream)
            watch.start()
            self._follow(stream, watch)
            self._confirm(stream)
        except LogRetained:
            stream.close()
            # A later run has to read tables anew.
            self._source.drop()
            self._delivery.abort()
            self._state.position = None
            self._delivery.commit(self._state)
            raise
        finally:
            watch.stop()
            self._readers.close()
            stream.close()

    def _open(self) -> LogStream:
        """The log from where we left off; from now on, the first time."""
        state = self._state
        try:
            if state.position is None and state.tasks:
                raise PositionLost(
                    f"The capture {state.name} gave up its place in the log of "
                    f"{self._source.database}. Run it with --lost snapshot to read its tables anew."
                )
            made = self._source.prepare(state.position)
            stream = self._source.open(state.position or made)
            state.position = stream.start
            return stream
        except PositionLost as lost:
            if self._settings.lost != "snapshot":
                raise
            logger.warning("%s All tables are read anew.", lost)
        self._source.drop()
        stream = self._source.open(self._source.prepare(None))
        state.position = stream.start
        for task in list(state.tasks.values()):
            del state.tasks[task.id]
            # Rows that went meanwhile must go from the topic too.
            state.tasks[str(task.table)] = SnapshotTask(str(task.table), task.table, afresh=True)
        return stream

    def _follow(self, stream: LogStream, watch: Watch) -> None:
        heartbeat = self._settings.heartbeat_ms / 1000
        events: Events = ()
        while not self._is_to_end():
            whole = self._begin is None
            waiting = whole and (self._delivery.pending or self._read_on)
            if self._delivery.pending >= _MANY > len(events):
                self._stopping.wait(_BREATH_SECONDS)
            events = stream.read(0.0 if waiting else _IDLE_SECONDS)
            if events:
                self._handle(stream, events)
                if self._is_group_old():
                    self._flush(stream)
            elif waiting:
                self._flush(stream)
            if self._is_idle() and self._clock.monotonic() - self._flushed >= heartbeat:
                # Also while the log tells of nothing but what others do.
                self._flush(stream)
            self._attend(watch)
        if self._begin is None:
            self._flush(stream)
        else:
            self._delivery.abort()

    def _held_up(self, reason: str) -> None:
        """The cluster takes nothing for now: say so, and wait unless we are to end."""
        logger.warning("%s", reason)
        self._progress.condition = Condition.WAITING
        self._progress.failure = reason
        if self._stopping.is_set():
            raise ClusterError(reason)

    def _is_idle(self) -> bool:
        """Whether all that came is committed, apart from how far the log has been read."""
        return self._begin is None and not self._delivery.pending

    def _is_to_end(self) -> bool:
        """Whether to end here: between two transactions, or within one that takes too long."""
        if not self._stopping.is_set() and not self._paused:
            return False
        if self._ending is None:
            self._ending = self._clock.monotonic()
        return self._begin is None or self._clock.monotonic() - self._ending > _END_SECONDS

    def _handle(self, stream: LogStream, events: Events) -> None:
        writer, windows = self._writer, self._windows
        for event in events:
            if isinstance(event, RowChange):
                if windows.watching:
                    windows.changed(event)
                writer.change(event)
                self._changes += 1
            elif isinstance(event, Begin):
                self._begin = event
                writer.begin(event)
            elif isinstance(event, Commit):
                self._commit(stream, event)
            elif isinstance(event, Reached):
                self._state.position = event.position
            elif isinstance(event, Watermark):
                self._mark(event)
            elif isinstance(event, SchemaChange):
                writer.schema_change(event)
                self._described[str(event.table.name)] = event.table
            elif isinstance(event, Truncate):
                windows.emptied(event.table.name)
                writer.truncate(event)
            elif isinstance(event, TableDropped):
                windows.emptied(event.name)
                writer.dropped(event)
            elif isinstance(event, Message):
                writer.message(event)

    def _commit(self, stream: LogStream, commit: Commit) -> None:
        assert self._begin is not None
        self._writer.commit(commit)
        self._windows.committed(self._begin.id)
        self._begin = None
        self._state.position = commit.position
        self._transactions += 1
        self._last_commit_us = commit.time_us
        if self._delivery.pending >= _GROUP_RECORDS or self._delivery.pending_bytes >= _GROUP_BYTES:
            self._flush(stream)

    def _is_group_old(self) -> bool:
        """Whether what waits to be committed has waited long enough."""
        if self._begin is not None or not self._delivery.pending:
            return False
        late = self._clock.now_ms() - self._last_commit_us // 1000 > _LATE_MS
        waited = self._clock.monotonic() - self._flushed
        return waited >= (_LATE_GROUP_SECONDS if late else _GROUP_SECONDS)

    def _suspect(self, table: Table, version: int) -> None:
        """A table looks different, and the log has not come to where it began to.

        A log that tells a table's shape with its rows only says nothing as long as there are none.
        Behind a mark that is written now, there are no rows of the shape before.
        """
        mark = f"shape {uuid.uuid4().hex}"
        self._suspected[mark] = table, version
        reader = self._source.reader()
        try:
            reader.mark(mark)
        finally:
            reader.close()

    def _tell_suspected(self, table: Table, version: int) -> None:
        known = self._state.tables.get(str(table.name))
        # Whatever the log has told meanwhile is as new, or newer.
        if known is not None and known.version == version:
            self._writer.shape(table)
            self._described[str(table.name)] = table

    def _mark(self, mark: Watermark) -> None:
        if (suspected := self._suspected.pop(mark.id, None)) is not None:
            self._tell_suspected(*suspected)
            return
        outcome = self._windows.mark(mark.id)
        if isinstance(outcome, Opened):
            task = self._readers.task_of(outcome.id)
            if task.afresh and (table := self._described.get(str(task.table))) is not None:
                self._writer.forget(table, mark.place)
                task.afresh = False
        elif isinstance(outcome, Stale):
            self._readers.refused(outcome.id)
        elif isinstance(outcome, Closed):
            task = self._readers.task_of(outcome.id)
            # The next chunk is read while this one is written.
            self._readers.accepted(outcome.id)
            self._writer.chunk(outcome.chunk, outcome.rows, mark.place)
            task.low = outcome.chunk.last or task.low
            task.rows += len(outcome.chunk.rows)
            task.done = outcome.chunk.complete
            self._rows += len(outcome.rows)
            self._read_on = True

    def _flush(self, stream: LogStream) -> None:
        """Commit what was written, with the position that it leads to."""
        state = self._state
        reading = bool(state.open_tasks())
        state.recent = self._windows.last_told() if reading else []
        told = self._told(Condition.READING if reading else Condition.FOLLOWING)
        state.status = told.status(self._clock.now_ms())
        self._delivery.commit(state)
        self._progress.become(told)
        self._changes = self._rows = self._transactions = 0
        self._read_on = False
        self._flushed = self._clock.monotonic()
        if self._flushed - self._confirmed >= _CONFIRM_SECONDS:
            self._confirm(stream)

    def _told(self, condition: Condition) -> CaptureProgress:
        """What there is to tell once this is committed."""
        before, state = self._progress, self._state
        age = self._clock.now_ms() - self._last_commit_us // 1000 if self._delivery.pending else 0
        return replace(
            before,
            condition=condition,
            changes=before.changes + self._changes,
            rows_read=before.rows_read + self._rows,
            transactions=before.transactions + self._transactions,
            position=state.position,
            behind_ms=max(age, 0),
            failure="",
            tables=[
                TableProgress(str(task.table), task.rows, max(task.estimate, task.rows), task.done)
                for task in state.tasks.values()
            ],
        )

    def _confirm(self, stream: LogStream) -> None:
        if self._progress.position is not None:
            stream.confirm(self._progress.position)
            self._confirmed = self._clock.monotonic()

    def _attend(self, watch: Watch) -> None:
        """Look what others want of us, or have found."""
        if not self._failures.empty():
            raise self._failures.get()
        while not self._wishes.empty():
            self._heed(self._wishes.get())
        if (distance := watch.distance) is not None:
            self._progress.behind_bytes = distance.behind_bytes
            self._progress.retained_bytes = distance.retained_bytes
        if (tables := watch.new_tables()) is not None:
            self._join(tables)
        self._read_tables()

    def _heed(self, wishes: Wishes) -> None:
        self._paused = wishes.paused
        for request in wishes.snapshots:
            if request.id not in self._state.tasks:
                self._request(request)

    def _request(self, request: SnapshotRequest) -> None:
        """Read a table again, as somebody asked for."""
        known = [task.table for task in self._state.tasks.values()]
        wanted = [name for name in known if request.table in (str(name), name.table)]
        if not wanted:
            logger.warning("no table %s is captured, so there is nothing to read", request.table)
            return
        task = SnapshotTask(request.id, wanted[0], request.low, request.high)
        self._state.tasks[task.id] = task

    def _read_tables(self) -> None:
        """Begin to read what is not being read yet."""
        for task in self._state.open_tasks():
            if task.id not in self._being_read:
                self._being_read.add(task.id)
                self._readers.add(task)

    def _join(self, tables: Sequence[Table]) -> None:
        """Begin with tables that are new, or new under an old name."""
        state = self._state
        covered = {task.table for task in state.tasks.values()}
        for table in tables:
            name = str(table.name)
            self._described.setdefault(name, table)
            known = state.tables.get(name)
            anew = known is not None and 0 != known.native != table.native
            if table.name in covered and not anew:
                if known is not None and known.fingerprint != fingerprint(table):
                    self._suspect(table, known.version)
                continue
            if known is not None and anew:
                state.tables[name] = KnownTable(table.native, known.fingerprint, known.version)
                self._described[name] = table
            id_ = f"{name} {table.native}" if anew else name
            task = SnapshotTask(id_, table.name, afresh=anew)
            # Where nothing is read, the task says that nothing is to be read.
            task.done = not (
                self._settings.snapshot and table.key and not self._writer.is_outbox(table.name)
            )
            state.tasks[task.id] = task
            if not self._writer.is_outbox(table.name):
                self._writer.shape(table)
        present = {str(table.name) for table in tables}
        for task in [each for each in state.tasks.values() if str(each.table) not in present]:
            del state.tasks[task.id]
            self._writer.gone(task.table)

    def _say_what_is_missing(self, tables: Sequence[Table]) -> None:
        names = [table.name for table in tables]
        for pattern in Selection(self._settings.tables).unmatched(names, self._source.schema):
            logger.warning("%s: %s", self._settings.called, not_there(pattern))

    def _check_prefix(self) -> None:
        if self._state.prefix != self._settings.prefix:
            raise CaptureError(
                f"The capture {self._state.name} writes to topics that begin with "
                f"{self._state.prefix}, and not {self._settings.prefix}. Give it another name, or "
                f"drop it first with `headrace capture drop {self._state.name}`."
            )

    def _store_condition(self) -> None:
        """Leave word that nobody follows the log now."""
        self._progress.condition = Condition.PAUSED if self._paused else Condition.STOPPED
        self._state.status = self._progress.status(self._clock.now_ms())
        self._delivery.commit(self._state)
