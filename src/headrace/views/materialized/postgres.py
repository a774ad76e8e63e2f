"""A view in PostgreSQL: for rows that others want to query as well, and for more than one disk.

All views of a database share four tables in the schema `headrace_views`. Rows are kept as the JSON
that they came as; a query looks into them as jsonb. An advisory lock keeps other servers away, and
a batch is written only on top of the state that its writer knows, so that one that was away for
long cannot do harm.
"""

import secrets
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import orjson

from headrace.views.errors import StoreDamaged, StoreUnavailable
from headrace.views.filters import Filter, Order
from headrace.views.filters.sql import Postgres, condition, ordering
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

_DIALECT: Final = Postgres()
_TABLES: Final = ("rows", "changes", "boundaries")
_SCHEMA: Final = """
CREATE SCHEMA IF NOT EXISTS headrace_views;
CREATE TABLE IF NOT EXISTS headrace_views.meta (
    view text PRIMARY KEY, format integer NOT NULL, description text NOT NULL, state text NOT NULL
);
CREATE TABLE IF NOT EXISTS headrace_views.rows (
    view text, key text COLLATE "C", value text NOT NULL, PRIMARY KEY (view, key)
);
CREATE TABLE IF NOT EXISTS headrace_views.changes (
    view text, sequence bigint, key text NOT NULL, before text, after text,
    partition integer NOT NULL, "offset" bigint NOT NULL, PRIMARY KEY (view, sequence)
);
CREATE TABLE IF NOT EXISTS headrace_views.boundaries (
    view text, sequence bigint, PRIMARY KEY (view, sequence)
);
"""


class PostgresStore:
    """Keeps a view in a database that others may use, too."""

    def __init__(self, url: str, view: str, *, history: int) -> None:
        self._url = url
        self._view = view
        self._history = history
        self._writer: Any = None
        self._readers = threading.local()
        self._opened: list[Any] = []

    def open(self, description: ViewDescription) -> StoreState:
        """Take the lock, make the tables, and find what there is."""
        with self._explained("open"):
            connection = self._locked()
            with connection, connection.cursor() as cursor:
                cursor.execute(_SCHEMA)
                cursor.execute(
                    "SELECT format, description, state FROM headrace_views.meta WHERE view = %s",
                    (self._view,),
                )
                found = cursor.fetchone()
        if found is None:
            return self.reset(description, "it is new")
        written, described, stored = found
        try:
            known = ViewDescription.from_json(orjson.loads(described))
            if written == FORMAT and known.is_built_like(description):
                return state_from(stored)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreDamaged(f"View {self._view} is damaged: {error}.") from error
        return self.reset(description, "the view is described differently now")

    def apply(
        self,
        incoming: Sequence[Incoming],
        offsets: Mapping[int, int],
        *,
        state: StoreState,
        history: bool = True,
    ) -> AppliedBatch:
        """Rows, changes and offsets in one transaction."""
        with self._explained("write"):
            connection = self._locked()
            with connection, connection.cursor() as cursor:
                self._require(cursor, state)
                changes: list[Change] = []
                if history:
                    changes = changed(incoming, self._present(cursor, incoming), state.sequence)
                    self._write_changes(cursor, changes)
                self._write_rows(cursor, {each.key: each.row for each in incoming})
                count = len(changes if history else incoming)
                after = applied_state(state, count, offsets, self._history, history=history)
                if count:
                    cursor.execute(
                        "INSERT INTO headrace_views.boundaries VALUES (%s, %s)",
                        (self._view, after.sequence),
                    )
                if after.oldest != state.oldest:
                    self._trim(cursor, after.oldest)
                cursor.execute(
                    "UPDATE headrace_views.meta SET state = %s WHERE view = %s",
                    (state_text(after), self._view),
                )
        return AppliedBatch(after, tuple(changes), history)

    def read(self, look: "Callable[[PostgresSnapshot], T]") -> T:
        """Look from within a transaction of this thread's own connection."""
        with self._explained("read"):
            connection = self._reader()
            with connection, connection.cursor() as cursor:
                cursor.execute(
                    "SELECT state FROM headrace_views.meta WHERE view = %s", (self._view,)
                )
                found = cursor.fetchone()
                if found is None:
                    raise StoreUnavailable(f"Nothing is stored of view {self._view}.")
                return look(PostgresSnapshot(cursor, self._view, state_from(found[0])))

    def reset(self, description: ViewDescription, reason: str) -> StoreState:
        """Delete everything of the view, and begin with another handle."""
        state = StoreState(secrets.token_hex(6), columns=description.columns)
        with self._explained("begin"):
            connection = self._locked()
            with connection, connection.cursor() as cursor:
                self._delete(cursor)
                cursor.execute(
                    "INSERT INTO headrace_views.meta VALUES (%s, %s, %s, %s)",
                    (
                        self._view,
                        FORMAT,
                        orjson.dumps(description.to_json()).decode(),
                        state_text(state),
                    ),
                )
                cursor.execute(
                    "INSERT INTO headrace_views.boundaries VALUES (%s, 0)", (self._view,)
                )
        return state

    def drop(self) -> None:
        """Delete everything of the view; the tables stay for others."""
        with self._explained("drop"):
            connection = self._locked()
            with connection, connection.cursor() as cursor:
                self._delete(cursor)
        self.close()

    def close(self) -> None:
        """Hang up, which gives the lock back."""
        for each in self._opened:
            with suppress(Exception):
                each.close()
        self._opened.clear()
        self._writer = None

    def _locked(self) -> Any:
        if self._writer is None:
            connection = self._connect()
            with connection, connection.cursor() as cursor:
                number = zlib.crc32(f"headrace.view.{self._view}".encode())
                cursor.execute("SELECT pg_try_advisory_lock(%s)", (number,))
                if not cursor.fetchone()[0]:
                    connection.close()
                    raise StoreUnavailable(
                        f"Another server keeps view {self._view} in that database; stop it, or "
                        "let [serve] store name another database."
                    )
            self._writer = connection
        return self._writer

    def _reader(self) -> Any:
        known = getattr(self._readers, "known", None)
        if known is None or known.closed:
            known = self._connect()
            known.set_session(isolation_level="REPEATABLE READ", readonly=True)
            self._readers.known = known
        return known

    def _connect(self) -> Any:
        try:
            import psycopg2
        except ImportError:
            raise StoreUnavailable(
                "Views in PostgreSQL need psycopg2: pip install 'headrace[postgres]'."
            ) from None
        connection = psycopg2.connect(self._url, application_name="headrace views")
        self._opened.append(connection)
        return connection

    def _explained(self, attempt: str) -> "_Explained":
        return _Explained(self, attempt)

    def _forget(self) -> None:
        """Let the next attempt begin with new connections."""
        self.close()
        self._readers = threading.local()

    def _require(self, cursor: Any, state: StoreState) -> None:
        """StoreUnavailable unless the store is in that state; locks it for the transaction."""
        cursor.execute(
            "SELECT state FROM headrace_views.meta WHERE view = %s FOR UPDATE", (self._view,)
        )
        found = cursor.fetchone()
        now = None if found is None else state_from(found[0])
        if now is None or (now.handle, now.sequence) != (state.handle, state.sequence):
            raise StoreUnavailable(
                f"View {self._view} is not as this server left it: somebody else has written it."
            )

    def _present(self, cursor: Any, incoming: Sequence[Incoming]) -> dict[str, bytes]:
        cursor.execute(
            "SELECT key, value FROM headrace_views.rows WHERE view = %s AND key = ANY(%s)",
            (self._view, [each.key for each in incoming]),
        )
        return {key: value.encode() for key, value in cursor}

    def _write_rows(self, cursor: Any, rows: Mapping[str, bytes | None]) -> None:
        from psycopg2.extras import execute_values

        kept = [(self._view, key, row.decode()) for key, row in rows.items() if row is not None]
        if kept:
            execute_values(
                cursor,
                "INSERT INTO headrace_views.rows VALUES %s ON CONFLICT (view, key) "
                "DO UPDATE SET value = excluded.value",
                kept,
                page_size=1_000,
            )
        gone = [key for key, row in rows.items() if row is None]
        if gone:
            cursor.execute(
                "DELETE FROM headrace_views.rows WHERE view = %s AND key = ANY(%s)",
                (self._view, gone),
            )

    def _write_changes(self, cursor: Any, changes: Sequence[Change]) -> None:
        from psycopg2.extras import execute_values

        if changes:
            execute_values(
                cursor,
                "INSERT INTO headrace_views.changes VALUES %s",
                [
                    (self._view, number, key, row_text(before), row_text(after), partition, offset)
                    for number, key, before, after, partition, offset in changes
                ],
                page_size=1_000,
            )

    def _trim(self, cursor: Any, oldest: int) -> None:
        for table in ("changes", "boundaries"):
            cursor.execute(
                f"DELETE FROM headrace_views.{table} WHERE view = %s AND sequence <= %s",
                (self._view, oldest),
            )

    def _delete(self, cursor: Any) -> None:
        for table in (*_TABLES, "meta"):
            cursor.execute(f"DELETE FROM headrace_views.{table} WHERE view = %s", (self._view,))


class PostgresSnapshot:
    """A view as one transaction sees it."""

    def __init__(self, cursor: Any, view: str, state: StoreState) -> None:
        self._cursor = cursor
        self._view = view
        self.state = state

    def get(self, keys: Sequence[str]) -> list[KeyedRow]:
        """By the primary key."""
        return self._rows("key = ANY(%s)", (list(keys),), "")

    def select(
        self,
        wanted: Filter | None,
        order: Sequence[Order] = (),
        *,
        limit: int | None = None,
        after_key: str | None = None,
    ) -> list[KeyedRow]:
        """PostgreSQL looks at every row of the view, unless it is by key."""
        where, by = condition(wanted, _DIALECT), ordering(order, _DIALECT)
        behind, key = ("", ()) if after_key is None else (" AND key > %s", (after_key,))
        parameters = (*where.parameters, *key, *by.parameters, limit)
        return self._rows(f"{where.text}{behind}", parameters, f"ORDER BY {by.text} LIMIT %s")

    def count(self, wanted: Filter | None) -> int:
        """Likewise."""
        where = condition(wanted, _DIALECT)
        self._cursor.execute(
            f"SELECT count(*) FROM headrace_views.rows WHERE view = %s AND {where.text}",
            (self._view, *where.parameters),
        )
        return int(self._cursor.fetchone()[0])

    def changes(self, after: int, until: int) -> list[Change]:
        """By the primary key."""
        self._cursor.execute(
            'SELECT sequence, key, before, after, partition, "offset" FROM headrace_views.changes '
            "WHERE view = %s AND sequence > %s AND sequence <= %s ORDER BY sequence",
            (self._view, after, until),
        )
        return [
            Change(sequence, key, row_bytes(before), row_bytes(now), partition, offset)
            for sequence, key, before, now, partition, offset in self._cursor
        ]

    def boundary(self, after: int, at_most: int) -> int:
        """The last one that is near enough, or the first one that is not."""
        self._cursor.execute(
            "SELECT max(sequence) FILTER (WHERE sequence <= %s), min(sequence) "
            "FROM headrace_views.boundaries WHERE view = %s AND sequence > %s",
            (after + at_most, self._view, after),
        )
        near, first = self._cursor.fetchone()
        return int(near or first or after)

    def _rows(self, where: str, parameters: tuple[object, ...], rest: str) -> list[KeyedRow]:
        self._cursor.execute(
            f"SELECT key, value FROM headrace_views.rows WHERE view = %s AND {where} {rest}",
            (self._view, *parameters),
        )
        return [KeyedRow(key, value.encode()) for key, value in self._cursor]


class _Explained:
    """Turns what the driver raises into what a view's follower understands."""

    def __init__(self, store: PostgresStore, attempt: str) -> None:
        self._store = store
        self._attempt = attempt

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or not type(error).__module__.startswith("psycopg2"):
            return
        self._store._forget()
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise StoreUnavailable(f"PostgreSQL cannot {self._attempt} the view: {said}.") from error
