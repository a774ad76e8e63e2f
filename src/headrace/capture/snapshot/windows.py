"""Chunks of a table between two marks in the log, and which of their rows still hold.

This is the algorithm of DBLog. A chunk is read while changes flow: a low mark is written into the
log, the rows are read, a high mark is written. Whatever the log tells between the two marks may be
newer or older than the chunk, and nobody knows which; so it wins, and the chunk's rows of the same
keys are left out. All other rows are told where the high mark is: after every change that they
could be older than, before every change that they could be newer than.

Intuitively: a row that nobody touched while we looked is as we saw it, and of all others the log
knows best.

`Windows` knows no database and no Kafka. It is used by the thread that reads the log; only `expect`
and `fill` are called by those that read tables.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from headrace.capture.changes import Row, RowChange, Table, TableName
from headrace.capture.source import Chunk

RECENT: Final = 100_000
"""How many transactions are remembered: as many as may commit while one becomes visible."""


REMEMBERED: Final = 500
"""How many are stored: more than a database has connections that wait for a standby."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The log has come to a low mark."""

    id: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The log has come to a high mark."""

    id: str
    chunk: Chunk
    rows: Sequence[Row]
    """Those that still hold."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The log has come to a high mark, and the chunk must be read again."""

    id: str


@dataclass(slots=True)
class _Window:
    name: TableName
    chunk: Chunk | None = None
    low: int | None = None
    touched: set[Any] = field(default_factory=set)
    emptied: bool = False


def low_mark(window: str) -> str:
    """What is written into the log before a chunk is read."""
    return f"{window} low"


def high_mark(window: str) -> str:
    """What is written into the log when it has been read."""
    return f"{window} high"


class Windows:
    """The chunks that are being read.

    Marks of windows that nobody expects are those of a run before this one, and mean nothing. But
    what that run told last still counts: one of its transactions may be invisible to this day, if
    the database waits for a standby.

    Args:
        recent: What `last_told` was, of the run before.
    """

    def __init__(self, recent: Sequence[str] = ()) -> None:
        self._windows: dict[str, _Window] = {}
        self._open: dict[TableName, list[_Window]] = {}
        self._recent: OrderedDict[str, int] = OrderedDict()
        self._count = 0
        for each in recent:
            self.committed(each)

    def expect(self, window: str, name: TableName) -> None:
        """A chunk of a table will be read; before its low mark is written."""
        self._windows[window] = _Window(name)

    def fill(self, window: str, chunk: Chunk) -> None:
        """The chunk was read; before its high mark is written."""
        self._windows[window].chunk = chunk

    def mark(self, mark: str) -> Opened | Closed | Stale | None:
        """The log has come to a mark."""
        name, _, side = mark.rpartition(" ")
        window = self._windows.get(name)
        if window is None:
            return None
        if side == "low":
            window.low = self._count
            self._open.setdefault(window.name, []).append(window)
            return Opened(name)
        del self._windows[name]
        if window.low is not None:
            self._open[window.name].remove(window)
            if not self._open[window.name]:
                del self._open[window.name]
        # Without its low mark, what came before it is not known.
        if window.low is None or window.chunk is None or self._told_before(window):
            return Stale(name)
        return Closed(name, window.chunk, _untouched(window.chunk, window))

    def committed(self, transaction: str) -> None:
        """The log has told a transaction."""
        self._count += 1
        self._recent[transaction] = self._count
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def changed(self, change: RowChange) -> None:
        """The log has told a change of a row."""
        windows = self._open.get(change.table.name)
        if windows is None:
            return
        for row in (change.before, change.after):
            if row is not None:
                key = identity(change.table, row)
                for window in windows:
                    window.touched.add(key)

    def emptied(self, name: TableName) -> None:
        """The log has told that all rows of a table went."""
        for window in self._open.get(name, ()):
            window.emptied = True

    def last_told(self) -> list[str]:
        """The transactions that the log told last, for the run after this one."""
        return list(islice(reversed(self._recent), REMEMBERED))[::-1]

    @property
    def watching(self) -> bool:
        """Whether any window is open, so that changes are of interest."""
        return bool(self._open)

    def _told_before(self, window: _Window) -> bool:
        """Whether the log told a transaction before the window that the chunk did not see."""
        assert window.chunk is not None
        assert window.low is not None
        return any(0 < self._recent.get(each, 0) <= window.low for each in window.chunk.unseen)


def _untouched(chunk: Chunk, window: _Window) -> Sequence[Row]:
    if window.emptied:
        # A row that came after that is told by the log.
        return ()
    if not window.touched:
        return chunk.rows
    table, touched = chunk.table, window.touched
    return [row for row in chunk.rows if identity(table, row) not in touched]


def identity(table: Table, row: Row) -> Any:
    """A row's key as something that sets can hold."""
    key = table.key_of(row)
    try:
        hash(key)
    except TypeError:
        return tuple(map(_frozen, key))
    return key if all(part == part for part in key) else tuple(map(_frozen, key))


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    # Not even NaN is equal to NaN, but rows with it as a key are one row.
    return value if value == value else "NaN"
