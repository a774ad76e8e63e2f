"""The history of lag: samples in one SQLite file per cluster, thinned out as they grow old.

Samples are kept as they are for an hour, one per minute for a day, and one per hour until the
retention ends. A coarser row holds the worst lag of its span and the last offsets, so that a peak
stays visible however old it is.
"""

import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from headrace.errors import HeadraceError
from headrace.kafka.lag import LagSample

log = logging.getLogger("headrace.lag")

FORMAT_VERSION: Final = 1
"""The form of the file, kept in SQLite's user_version."""

MAX_ROWS: Final = 2_000_000
"""Rows beyond which the oldest go before their time: about 150 MB."""

_PATIENCE_SECONDS = 10.0
"""How long another process may hold the file."""

_MINUTE = 60_000
_HOUR = 60 * _MINUTE

_COARSER: Final = ((0, _MINUTE, _HOUR), (_MINUTE, _HOUR, 24 * _HOUR))
"""Spans of rows, 0 for a sample as it was; the next longer span; and the age of that change."""

_SPANS: Final = (0, _MINUTE, _HOUR)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS series (
    id INTEGER PRIMARY KEY,
    consumer_group TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
    UNIQUE (consumer_group, topic, partition)
);
CREATE TABLE IF NOT EXISTS lag (
    series INTEGER NOT NULL, span INTEGER NOT NULL, at INTEGER NOT NULL,
    records INTEGER, time INTEGER, lost INTEGER NOT NULL, committed INTEGER, latest INTEGER,
    PRIMARY KEY (series, span, at)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS lag_by_age ON lag (span, at);
"""

_COARSEN = """
INSERT INTO lag
SELECT series, :span, at / :span * :span, max(records), max(time), max(lost), max(committed),
    max(latest)
FROM lag WHERE span = :finer AND at < :before GROUP BY 1, 3
ON CONFLICT DO UPDATE SET
    records = max(ifnull(records, 0), ifnull(excluded.records, 0)),
    time = max(ifnull(time, 0), ifnull(excluded.time, 0)),
    lost = max(lost, excluded.lost), committed = excluded.committed, latest = excluded.latest
"""


_ADD_SERIES = """
INSERT OR IGNORE INTO series (consumer_group, topic, partition)
VALUES (:group, :topic, :partition)
"""

_ADD = """
INSERT OR REPLACE INTO lag
SELECT id, 0, :at, :records, :time, :lost, :committed, :latest FROM series
WHERE consumer_group = :group AND topic = :topic AND partition = :partition
"""

_ROWS = """
SELECT at, consumer_group, topic, partition, records, time, lost, committed, latest
FROM lag JOIN series ON series.id = lag.series
WHERE consumer_group = :group
    AND (:topic IS NULL OR topic = :topic) AND (:partition IS NULL OR partition = :partition)
    AND at >= :since AND (:until IS NULL OR at < :until)
ORDER BY at, topic, partition
"""

_POINTS = """
SELECT :since + piece * :span, sum(records), max(time)
FROM (
    SELECT (at - :since) / :span AS piece,
        max(ifnull(records, 0)) AS records, max(ifnull(time, 0)) AS time
    FROM lag JOIN series ON series.id = lag.series
    WHERE consumer_group = :group AND at >= :since AND at < :until
    GROUP BY lag.series, piece
)
GROUP BY piece ORDER BY piece
"""


_FORGET_UNUSED_SERIES = """
DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM lag WHERE lag.series = series.id)
"""


class HistoryUnusable(HeadraceError):
    """The history cannot be kept where the settings say, or is of another version."""


@dataclass(frozen=True, slots=True)
class LagRow:
    """A group's lag in one partition at some time, or its worst over some span before that."""

    at_ms: int
    group: str
    topic: str
    partition: int
    records: int | None
    time_ms: int | None
    lost: int
    committed: int | None
    latest: int | None


@dataclass(frozen=True, slots=True)
class LagPoint:
    """A group's lag over all partitions, the worst within a span that begins at `at_ms`."""

    at_ms: int
    records: int
    time_ms: int


class LagHistory:
    """Remembers samples and answers questions about them; close it.

    Any thread may call any method, and several processes may share a file.
    """

    def __init__(self, database: sqlite3.Connection, *, retention_ms: int) -> None:
        self._database = database
        self._retention_ms = retention_ms
        self._lock = threading.Lock()
        self._thinned_ms: int | None = None
        self._said_full = False

    @classmethod
    def open(cls, directory: Path, cluster_id: str, *, retention_ms: int) -> "LagHistory":
        """The history of a cluster; HistoryUnusable if it cannot be read and written."""
        path = directory / f"lag-{cluster_id}.sqlite3"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            return cls._prepared(_connect(str(path)), retention_ms, str(path))
        except (OSError, sqlite3.Error) as error:
            raise HistoryUnusable(
                f"Cannot keep the history of lag in {path}: {error}. Name another directory with "
                "[lag] state, or keep none with --no-history."
            ) from None

    @classmethod
    def in_memory(cls, *, retention_ms: int) -> "LagHistory":
        """A history that nobody finds again."""
        return cls._prepared(_connect(":memory:"), retention_ms, "memory")

    @classmethod
    def _prepared(cls, database: sqlite3.Connection, retention_ms: int, where: str) -> "LagHistory":
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version == 0:
            database.executescript(f"{_SCHEMA} PRAGMA user_version = {FORMAT_VERSION};")
        elif version != FORMAT_VERSION:
            database.close()
            raise HistoryUnusable(
                f"{where} was written by another version of Headrace (format {version}, this one "
                f"knows {FORMAT_VERSION}). Name another directory with [lag] state."
            )
        return cls(database, retention_ms=retention_ms)

    def add(self, sample: LagSample) -> None:
        """Remember a sample; now and then, thin out what has grown old."""
        rows = [
            {
                "group": group.name,
                "topic": each.partition.topic,
                "partition": each.partition.number,
                "at": sample.at_ms,
                "records": each.records,
                "time": each.time_ms,
                "lost": each.lost,
                "committed": each.committed,
                "latest": each.latest,
            }
            for group in sample.groups
            for each in group.partitions
        ]
        with self._writing():
            self._database.executemany(_ADD_SERIES, rows)
            self._database.executemany(_ADD, rows)
        if self._thinned_ms is None or not 0 <= sample.at_ms - self._thinned_ms < _MINUTE:
            self.thin(sample.at_ms)

    def rows(
        self,
        group: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        since_ms: int = 0,
        until_ms: int | None = None,
    ) -> list[LagRow]:
        """What is remembered of a group, oldest first; `until_ms` is exclusive."""
        found = self._select(
            _ROWS, group=group, topic=topic, partition=partition, since=since_ms, until=until_ms
        )
        return [LagRow(*row) for row in found]

    def points(self, group: str, *, since_ms: int, until_ms: int, count: int) -> list[LagPoint]:
        """A group's total lag in at most `count` equal spans; those without samples are missing."""
        span = max(-(-(until_ms - since_ms) // count), 1)
        found = self._select(_POINTS, group=group, since=since_ms, until=until_ms, span=span)
        return [LagPoint(*row) for row in found]

    def thin(self, now_ms: int) -> None:
        """Make old rows coarser, and let go of those beyond the retention or the limit."""
        self._thinned_ms = now_ms
        with self._writing():
            for finer, span, age in _COARSER:
                # Whole spans only, so that a coarse row is finished when it is written.
                before = (now_ms - age) // span * span
                values = {"finer": finer, "span": span, "before": before}
                self._database.execute(_COARSEN, values)
                self._database.execute(
                    "DELETE FROM lag WHERE span = :finer AND at < :before", values
                )
            self._remove_before(now_ms - self._retention_ms)
            self._bound()
            self._database.execute(_FORGET_UNUSED_SERIES)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, all or nothing."""
        try:
            with self._lock, self._database:
                yield
        except sqlite3.Error as error:
            raise HistoryUnusable(f"The history of lag cannot be written: {error}.") from None

    def _bound(self) -> None:
        (count,) = self._database.execute("SELECT count(*) FROM lag").fetchone()
        if count > MAX_ROWS:
            # Room for a while: deleting a few rows after each sample would cost more.
            surplus = count - MAX_ROWS * 9 // 10
            (oldest,) = self._database.execute(
                "SELECT at FROM lag ORDER BY at LIMIT 1 OFFSET ?", (surplus,)
            ).fetchone()
            self._remove_before(oldest)
            if not self._said_full:
                self._said_full = True
                log.warning("the history of lag is full, and forgets the oldest before its time")

    def _remove_before(self, moment_ms: int) -> None:
        for span in _SPANS:
            self._database.execute("DELETE FROM lag WHERE span = ? AND at < ?", (span, moment_ms))

    def _select(self, query: str, **values: object) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise HistoryUnusable(f"The history of lag cannot be read: {error}.") from None


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_PATIENCE_SECONDS, check_same_thread=False)
