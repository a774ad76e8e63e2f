"""Threads that read tables in chunks, while another one reads the log."""

import queue
import threading
import uuid
from collections.abc import Callable
from typing import Final

from headrace.capture.changes import TableName
from headrace.capture.errors import CaptureError
from headrace.capture.snapshot.tasks import SnapshotTask
from headrace.capture.snapshot.windows import Windows, high_mark, low_mark
from headrace.capture.source import Chunk, KeyRange, Source, TableReader

_AGAIN_SECONDS: Final = 0.05
"""How long to wait before a stale chunk is read again: a commit is becoming visible."""

_FIRST_ROWS: Final = 256
_CHUNK_BYTES: Final = 8 << 20
"""How large a chunk may be; the first one, of which nothing is known yet, has few rows."""


class ChunkReaders:
    """Reads tables side by side, one chunk of each at a time.

    A task's next chunk is read when the log has come to the high mark of the one before and it was
    `accepted`; so at most one waits while another one is written.

    Args:
        source: Whose tables.
        windows: Where chunks are put.
        threads: How many tables at once.
        limit: How many rows a chunk has.
        failed: Told, from another thread, why a table cannot be read; the rest is given up too.
    """

    def __init__(
        self,
        source: Source,
        windows: Windows,
        *,
        threads: int,
        limit: int,
        failed: Callable[[Exception], None],
    ) -> None:
        self._source = source
        self._windows = windows
        self._limit = limit
        self._failed = failed
        self._tasks: queue.SimpleQueue[SnapshotTask | None] = queue.SimpleQueue()
        self._answers: dict[str, queue.SimpleQueue[bool]] = {}
        self._of_window: dict[str, SnapshotTask] = {}
        self._over = threading.Event()
        self._run = uuid.uuid4().hex[:12]
        self._number = 0
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, name=f"snapshot {number}", daemon=True)
            for number in range(threads)
        ]
        self._started = False

    def add(self, task: SnapshotTask) -> None:
        """Read this too."""
        if not self._started:
            self._started = True
            for thread in self._threads:
                thread.start()
        self._tasks.put(task)

    def task_of(self, window: str) -> SnapshotTask:
        """Whose chunk a window has."""
        return self._of_window[window]

    def accepted(self, window: str) -> None:
        """The chunk of a window holds, and its task has its new `low`: read what comes next."""
        self._answer(window, accepted=True)

    def refused(self, window: str) -> None:
        """The chunk of a window is stale: read it again."""
        self._answer(window, accepted=False)

    def close(self) -> None:
        """End all threads."""
        self._over.set()
        for answers in list(self._answers.values()):
            answers.put(False)
        for _ in self._threads:
            self._tasks.put(None)
        if self._started:
            for thread in self._threads:
                thread.join()

    def _answer(self, window: str, *, accepted: bool) -> None:
        task = self._of_window.pop(window)
        self._answers[task.id].put(accepted)

    def _work(self) -> None:
        try:
            while (task := self._tasks.get()) is not None and not self._over.is_set():
                reader = self._source.reader()
                try:
                    self._read(reader, task)
                finally:
                    reader.close()
        except Exception as error:
            if not self._over.is_set():
                self._failed(error)

    def _read(self, reader: TableReader, task: SnapshotTask) -> None:
        answers = self._answers[task.id] = queue.SimpleQueue()
        if not task.estimate:
            task.estimate = reader.estimate(task.table)
        low, done = task.low, False
        limit = min(self._limit, _FIRST_ROWS)
        while not done and not self._over.is_set():
            window = self._window(task)
            chunk = self._chunk(reader, window, task.table, KeyRange(low, task.high), limit)
            if answers.get():
                low, done = chunk.last or low, chunk.complete
                limit = self._next_limit(chunk)
            else:
                self._over.wait(_AGAIN_SECONDS)
        del self._answers[task.id]

    def _next_limit(self, chunk: Chunk) -> int:
        """How many rows to read next: as many as are wanted, unless they are long."""
        length = max(chunk.size // max(len(chunk.rows), 1), 1)
        return max(min(self._limit, _CHUNK_BYTES // length), 1)

    def _window(self, task: SnapshotTask) -> str:
        with self._lock:
            self._number += 1
            window = f"{self._run}-{self._number}"
        self._of_window[window] = task
        self._windows.expect(window, task.table)
        return window

    def _chunk(
        self, reader: TableReader, window: str, name: TableName, within: KeyRange, limit: int
    ) -> Chunk:
        reader.mark(low_mark(window))
        chunk = reader.chunk(name, within, limit)
        if not chunk.table.key:
            raise CaptureError(f"The rows of {name} cannot be read in parts: it has no key.")
        self._windows.fill(window, chunk)
        reader.mark(high_mark(window))
        return chunk
