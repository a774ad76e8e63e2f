"""A view in an SQLite file: the default, and nothing to set up.

One process writes, any thread of it reads. The file can be deleted at any time: it is built anew
from the topic. Its transactions survive the end of the process, however that comes, but not for
certain the machine's; then some batches may be missing, and applied once more, which is why the
handle changes when the file was open at another boot of the machine.
"""

import fcntl
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

import orjson

from headrace.clock import Clock, SystemClock
from headrace.views.errors import StoreDamaged, StoreUnavailable
from headrace.views.filters import Filter, Order
from headrace.views.filters.sql import Sqlite, condition, ordering
from headrace.views.materialized.description import ViewDescription
from headrace.views.materialized.records import Incoming
from headrace.views.materialized.store import (
    FORMAT,
    AppliedBatch,
    Change,
    KeyedRow,
    StoreState,
    applied_state,
    changed,
)
from headrace.views.materialized.stored_state import row_bytes, row_text, state_from, state_text

T = TypeVar("T")

HISTORY: Final = 100_000
"""Changes that are remembered, if nobody says otherwise."""

_AT_ONCE: Final = 500
"""Keys that are looked up with one query."""

_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rows (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE changes (
    sequence INTEGER PRIMARY KEY, key TEXT NOT NULL, before TEXT, after TEXT,
    partition INTEGER NOT NULL, offset INTEGER NOT NULL
);
CREATE TABLE boundaries (sequence INTEGER PRIMARY KEY);
"""

_SET: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_CHANGES: Final = (
    "SELECT sequence, key, before, after, partition, offset FROM changes "
    "WHERE sequence > ? AND sequence <= ? ORDER BY sequence"
)


class SqliteStore:
    """Keeps a view in a file of its own, which it locks."""

    def __init__(self, path: Path, *, history: int = HISTORY, clock: Clock | None = None) -> None:
        self._path = path
        self._history = history
        self._clock = clock or SystemClock()
        self._lock: int | None = None
        self._writer: sqlite3.Connection | None = None
        self._readers = threading.local()
        self._opened: list[tuple[threading.Lock, sqlite3.Connection]] = []
        """All connections, each with the lock that whoever uses it holds."""
        self._generation = 0

    def open(self, description: ViewDescription) -> StoreState:
        """Check the file if it was not closed properly, and make it if it is not there."""
        self._hold()
        self._disconnect()
        if not self._path.exists():
            return self._begin(description)
        try:
            self._writer = self._connect()
            stored = dict(self._writer.execute("SELECT name, value FROM meta").fetchall())
            if stored.get("format") != str(FORMAT):
                return self.reset(description, "it was written by another version of Headrace")
            if not ViewDescription.from_json(orjson.loads(stored["description"])).is_built_like(
                description
            ):
                return self.reset(description, "the view is described differently now")
            state = state_from(stored["state"])
            if stored.get("open_since") is not None:
                (said,) = self._writer.execute("PRAGMA quick_check(1)").fetchone()
                if said != "ok":
                    raise StoreDamaged(f"{self._path} is damaged: {said}.")
                if stored["open_since"] != _boot():
                    state = replace(state, handle=secrets.token_hex(6))
            with self._writer:
                self._set("open_since", _boot())
                self._set("state", state_text(state))
        except (sqlite3.DatabaseError, KeyError, ValueError, TypeError) as error:
            raise StoreDamaged(f"{self._path} cannot be read: {error}.") from error
        return state

    def apply(
        self,
        incoming: Sequence[Incoming],
        offsets: Mapping[int, int],
        *,
        state: StoreState,
        history: bool = True,
    ) -> AppliedBatch:
        """Rows, changes and offsets in one transaction."""
        assert self._writer is not None, "a store is opened first"
        try:
            with self._writer:
                return self._apply(self._writer, incoming, offsets, state, history)
        except sqlite3.OperationalError as error:
            if "disk" in str(error) or "locked" in str(error) or "full" in str(error):
                raise StoreUnavailable(f"{self._path} cannot be written: {error}.") from error
            raise StoreDamaged(f"{self._path} cannot be written: {error}.") from error
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(f"{self._path} cannot be written: {error}.") from error

    def read(self, look: Callable[["SqliteSnapshot"], T]) -> T:
        """Look from within a transaction of this thread's own connection."""
        try:
            lock, connection = self._reader()
            with lock:
                return _looked(connection, look)
        except (sqlite3.DatabaseError, TypeError) as error:
            raise StoreDamaged(f"{self._path} cannot be read: {error}.") from error

    def reset(self, description: ViewDescription, reason: str) -> StoreState:
        """Keep the old file beside the new one if it may be of interest to somebody."""
        self._disconnect()
        if "damaged" in reason or "cannot be read" in reason:
            with suppress(FileNotFoundError):
                self._path.replace(self._path.with_name(f"{self._path.name}.damaged"))
        self._remove()
        return self._begin(description)

    def drop(self) -> None:
        """Remove the file and what SQLite has beside it."""
        self._disconnect()
        self._remove()
        self._release()
        with suppress(FileNotFoundError):
            self._lock_path.unlink()

    def close(self) -> None:
        """Note that all is well, so that the next start need not look."""
        if self._writer is not None:
            with suppress(sqlite3.Error), self._writer:
                self._writer.execute("DELETE FROM meta WHERE name = 'open_since'")
        self._disconnect()
        self._release()

    @property
    def _lock_path(self) -> Path:
        return self._path.with_name(f"{self._path.name}.lock")

    def _hold(self) -> None:
        if self._lock is not None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._lock_path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise StoreUnavailable(
                f"Another process keeps {self._path}; stop that server, or let [serve] directory "
                "name another place."
            ) from None
        self._lock = handle

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _begin(self, description: ViewDescription) -> StoreState:
        state = StoreState(secrets.token_hex(6), columns=description.columns)
        self._writer = self._connect()
        with self._writer:
            for statement in _SCHEMA.split(";"):
                self._writer.execute(statement)
            self._set("format", str(FORMAT))
            self._set("description", orjson.dumps(description.to_json()).decode())
            self._set("open_since", _boot())
            self._set("state", state_text(state))
            self._writer.execute("INSERT INTO boundaries VALUES (0)")
        return state

    def _apply(
        self,
        connection: sqlite3.Connection,
        incoming: Sequence[Incoming],
        offsets: Mapping[int, int],
        state: StoreState,
        history: bool,
    ) -> AppliedBatch:
        connection.execute("BEGIN IMMEDIATE")
        changes: list[Change] = []
        if history:
            changes = changed(incoming, self._present(connection, incoming), state.sequence)
            rows = {each.key: each.after for each in changes}
        else:
            rows = {each.key: each.row for each in incoming}
        count = len(changes if history else incoming)
        after = applied_state(state, count, offsets, self._history, history=history)
        connection.executemany(
            "INSERT INTO rows VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            [(key, row.decode()) for key, row in rows.items() if row is not None],
        )
        connection.executemany(
            "DELETE FROM rows WHERE key = ?", [(key,) for key, row in rows.items() if row is None]
        )
        if changes:
            connection.executemany(
                "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (number, key, row_text(before), row_text(after), partition, offset)
                    for number, key, before, after, partition, offset in changes
                ],
            )
        if count:
            connection.execute("INSERT INTO boundaries VALUES (?)", (after.sequence,))
        if after.oldest != state.oldest:
            connection.execute("DELETE FROM changes WHERE sequence <= ?", (after.oldest,))
            connection.execute("DELETE FROM boundaries WHERE sequence <= ?", (after.oldest,))
        self._set("state", state_text(after))
        return AppliedBatch(after, tuple(changes), history)

    def _present(
        self, connection: sqlite3.Connection, incoming: Sequence[Incoming]
    ) -> dict[str, bytes]:
        keys = list(dict.fromkeys(each.key for each in incoming))
        found: dict[str, bytes] = {}
        for start in range(0, len(keys), _AT_ONCE):
            found.update(_rows_of(connection, keys[start : start + _AT_ONCE]))
        return found

    def _set(self, name: str, value: str) -> None:
        assert self._writer is not None
        self._writer.execute(_SET, (name, value))

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=30
        )
        # Without the id of this boot nobody could tell that the machine has failed meanwhile.
        connection.execute(f"PRAGMA synchronous = {'NORMAL' if _boot() else 'FULL'}")
        connection.execute("PRAGMA journal_mode = WAL")
        return connection

    def _reader(self) -> tuple[threading.Lock, sqlite3.Connection]:
        if self._writer is None:
            raise StoreUnavailable(f"{self._path} is closed.")
        known = getattr(self._readers, "known", None)
        if known is None or known[0] != self._generation:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            known = (self._generation, threading.Lock(), connection)
            self._readers.known = known
            self._opened.append(known[1:])
        return known[1], known[2]

    def _disconnect(self) -> None:
        """Close everything, when those who are reading have done so."""
        self._generation += 1
        for lock, connection in self._opened:
            with lock, suppress(sqlite3.Error):
                connection.close()
        self._opened.clear()
        if self._writer is not None:
            with suppress(sqlite3.Error):
                self._writer.close()
        self._writer = None

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                self._path.with_name(f"{self._path.name}{suffix}").unlink()


class SqliteSnapshot:
    """A view as one transaction sees it."""

    def __init__(self, connection: sqlite3.Connection, state: StoreState) -> None:
        self._connection = connection
        self.state = state

    def get(self, keys: Sequence[str]) -> list[KeyedRow]:
        """By the primary key."""
        found: dict[str, bytes] = {}
        for start in range(0, len(keys), _AT_ONCE):
            found.update(_rows_of(self._connection, keys[start : start + _AT_ONCE]))
        return [KeyedRow(key, row) for key, row in found.items()]

    def select(
        self,
        wanted: Filter | None,
        order: Sequence[Order] = (),
        *,
        limit: int | None = None,
        after_key: str | None = None,
    ) -> list[KeyedRow]:
        """SQLite looks at every row, unless it is by key."""
        where, by = condition(wanted, _DIALECT), ordering(order, _DIALECT)
        behind, parameters = ("", ()) if after_key is None else (" AND key > ?", (after_key,))
        found = self._connection.execute(
            f"SELECT key, value FROM rows WHERE {where.text}{behind} ORDER BY {by.text} LIMIT ?",
            (*where.parameters, *parameters, *by.parameters, -1 if limit is None else limit),
        )
        return [KeyedRow(key, value.encode()) for key, value in found]

    def count(self, wanted: Filter | None) -> int:
        """Likewise."""
        where = condition(wanted, _DIALECT)
        (found,) = self._connection.execute(
            f"SELECT count(*) FROM rows WHERE {where.text}", where.parameters
        ).fetchone()
        return int(found)

    def changes(self, after: int, until: int) -> list[Change]:
        """By the primary key."""
        with closing(self._connection.execute(_CHANGES, (after, until))) as found:
            return [
                Change(sequence, key, row_bytes(before), row_bytes(now), partition, offset)
                for sequence, key, before, now, partition, offset in found
            ]

    def boundary(self, after: int, at_most: int) -> int:
        """The last one that is near enough, or the first one that is not."""
        (near,) = self._connection.execute(
            "SELECT max(sequence) FROM boundaries WHERE sequence > ? AND sequence <= ?",
            (after, after + at_most),
        ).fetchone()
        if near is None:
            (near,) = self._connection.execute(
                "SELECT min(sequence) FROM boundaries WHERE sequence > ?", (after,)
            ).fetchone()
        return after if near is None else int(near)


_DIALECT: Final = Sqlite()


def _looked(connection: sqlite3.Connection, look: Callable[[SqliteSnapshot], T]) -> T:
    connection.execute("BEGIN")
    try:
        (stored,) = connection.execute("SELECT value FROM meta WHERE name = 'state'").fetchone()
        return look(SqliteSnapshot(connection, state_from(stored)))
    finally:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


def _rows_of(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, bytes]:
    marks = ",".join("?" * len(keys))
    found = connection.execute(f"SELECT key, value FROM rows WHERE key IN ({marks})", list(keys))
    return {key: value.encode() for key, value in found}


def _boot() -> str:
    """The id that the system gave itself when it was started; nothing if it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
