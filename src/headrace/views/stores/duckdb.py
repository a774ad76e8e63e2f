"""DuckDB as a store: a file that one process at a time can write.

Tasks of a flow are processes of their own, so each opens the file, writes and closes it again, one
after the other: a lock beside the file, `shop.duckdb.lock`, is how they wait for each other. Others
can open the file in between. Rows are handed over as Arrow has them.
"""

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Final

import pyarrow as pa

from headrace.views.stores.changes import Chunk, joined
from headrace.views.stores.columns import Conversion, converted, in_utc
from headrace.views.stores.contract import Refusal, Shape
from headrace.views.stores.errors import (
    InvalidStore,
    StoreError,
    StoreRefused,
    StoreUnreachable,
)
from headrace.views.stores.kinds import Kind, kind_of
from headrace.views.stores.relational import (
    POSITIONS,
    RelationalSession,
    assignments,
    sql_type,
)

TYPES: Final = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INT8: "TINYINT",
    Kind.INT16: "SMALLINT",
    Kind.INT32: "INTEGER",
    Kind.INT64: "BIGINT",
    Kind.FLOAT32: "REAL",
    Kind.FLOAT64: "DOUBLE",
    Kind.DECIMAL: "DECIMAL({}, {})",
    Kind.TEXT: "VARCHAR",
    Kind.BYTES: "BLOB",
    Kind.DATE: "DATE",
    Kind.INSTANT: "TIMESTAMP WITH TIME ZONE",
    Kind.LOCAL_TIME: "TIMESTAMP",
}
"""The types of columns; structures are DuckDB's own lists, maps and structs."""

_CONVERSIONS: Final[dict[Kind, Conversion]] = {Kind.INSTANT: in_utc}
_WHOLE: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_OPEN_SECONDS: Final = 30.0
"""How long to wait for another process that has the file open."""

_PAUSE_SECONDS: Final = 0.05
_INCOMING: Final = "headrace_incoming"


@dataclass(frozen=True, slots=True)
class DuckdbStore:
    """A DuckDB file, which is made if it is not there; its directory has to be."""

    path: str

    def session(self) -> "DuckdbSession":
        """See `Store`."""
        return DuckdbSession(self)


class DuckdbSession(RelationalSession):
    """Writes to a DuckDB file, which is open only during a transaction."""

    mark: ClassVar[str] = "?"

    def __init__(self, store: DuckdbStore) -> None:
        super().__init__()
        self._driver = _driver()
        self._path = store.path
        self._connection: Any = None

    def alive(self) -> bool:
        """See `Session`; there is nothing that could have ended."""
        return True

    def close(self) -> None:
        """See `Session`."""

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._explained(), self._alone():
            self._connection = self._opened()
            try:
                self._run("BEGIN")
                try:
                    yield
                except BaseException:
                    with suppress(self._driver.Error):
                        self._run("ROLLBACK")
                    raise
                self._commit()
            finally:
                self._connection.close()

    def _commit(self) -> None:
        self._run("COMMIT")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StoreRefused(f"{self._path} cannot be written: {error}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _opened(self) -> Any:
        deadline = time.monotonic() + _OPEN_SECONDS
        while True:
            try:
                return self._driver.connect(self._path)
            except self._driver.IOException as error:
                if "lock" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self._driver.Error as error:
            raise self._meaning(error) from None

    def _meaning(self, error: Exception) -> StoreError:
        text = " ".join(str(error).split())
        if isinstance(error, (self._driver.IOException, self._driver.TransactionException)):
            return StoreUnreachable(f"{self._path} cannot be written now: {text}")
        return StoreRefused(f"{self._path} refused: {text}")

    def _run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.execute(sql, values).fetchall()
        return found

    def _positions_table(self) -> str:
        return (
            f"CREATE TABLE IF NOT EXISTS {POSITIONS} (writer VARCHAR, place VARCHAR, "
            "version INTEGER NOT NULL, epoch BIGINT NOT NULL, position BIGINT, note VARCHAR, "
            "changed BIGINT NOT NULL, PRIMARY KEY (writer, place))"
        )

    def _columns(self, table: str) -> dict[str, str]:
        found = self._run(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? "
            "AND schema_name = current_schema() AND database_name = current_database()",
            table,
        )
        return dict(found)

    def _is_unique(self, shape: Shape) -> bool:
        found = self._run(
            "SELECT constraint_column_names FROM duckdb_constraints() WHERE table_name = ? "
            "AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')",
            shape.table,
        )
        return any(set(names) == set(shape.key) for (names,) in found)

    def _type(self, field: Any, *, key: bool) -> str:
        return _type(field)

    def _holds(self, present: str, field: Any) -> bool:
        kind = kind_of(field)
        if kind in (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64):
            return present in _WHOLE
        if kind is Kind.FLOAT32:
            return present in ("FLOAT", "REAL", "DOUBLE")
        if kind is Kind.DECIMAL and present.startswith("DECIMAL("):
            return int(present.rstrip(")").partition(",")[2]) >= int(field.type.scale)
        wanted = "FLOAT" if _type(field) == "REAL" else _type(field)
        return present.replace(" ", "") == wanted.replace(" ", "") or kind is Kind.NESTED

    def _change(self, shape: Shape, chunks: Iterable[Chunk]) -> list[Refusal]:
        # Within one transaction a key that was deleted cannot come back, so all is one chunk.
        pending, taken, refused = joined(chunks, shape.key), list[Chunk](), list[Refusal]()
        while pending:
            chunk = pending.pop(0)
            reason = self._attempt(shape, chunk)
            if reason is None:
                taken.append(chunk)
                continue
            # An error ends the transaction here, and there are no savepoints. Whoever else writes
            # is kept out by the lock beside the file, so it can begin again.
            self._run("ROLLBACK")
            self._run("BEGIN")
            for each in taken:
                self._attempt(shape, each)
            if chunk.rows == 1:
                refused.append(Refusal(chunk.number, reason))
            else:
                pending[:0] = chunk.halves()
        return refused

    def _attempt(self, shape: Shape, chunk: Chunk) -> str | None:
        try:
            self._delete(shape, chunk)
            self._upsert(shape, chunk)
        except self._driver.Error as error:
            if (reason := self._refusal(error)) is None:
                raise
            return reason
        return None

    def _upsert(self, shape: Shape, chunk: Chunk) -> None:
        names = shape.columns.names
        sql = (
            f"INSERT INTO {self._quoted(shape.table)} ({self._names(names)}) "
            f"SELECT {self._names(names)} FROM {_INCOMING}"
        )
        if shape.key:
            changed = assignments(shape, self._quoted, "excluded.{}")
            action = f"DO UPDATE SET {changed}" if changed else "DO NOTHING"
            sql += f" ON CONFLICT ({self._names(shape.key)}) {action}"
        self._run_with(chunk.upserts.select(names), sql)

    def _delete(self, shape: Shape, chunk: Chunk) -> None:
        self._run_with(
            chunk.deletes.select(shape.key),
            f"DELETE FROM {self._quoted(shape.table)} t USING {_INCOMING} s "
            f"WHERE {self._same_key(shape)}",
        )

    def _run_with(self, rows: pa.Table, sql: str) -> None:
        if not rows.num_rows:
            return
        self._connection.register(_INCOMING, converted(rows, _CONVERSIONS))
        self._run(sql)

    def _refusal(self, error: Exception) -> str | None:
        driver = self._driver
        refused = (
            driver.ConstraintException,
            driver.ConversionException,
            driver.OutOfRangeException,
        )
        return " ".join(str(error).split()) if isinstance(error, refused) else None


def _type(field: Any) -> str:
    """The type of a column, with those inside it."""
    kind = field.type
    if kind_of(field) is not Kind.NESTED:
        return sql_type(field, TYPES)
    if pa.types.is_struct(kind):
        inner = ", ".join(f'"{each.name}" {_type(each)}' for each in kind)
        return f"STRUCT({inner})"
    if pa.types.is_map(kind):
        return f"MAP({_type(kind.key_field)}, {_type(kind.item_field)})"
    return f"{_type(kind.value_field)}[]"


def _driver() -> ModuleType:
    try:
        import duckdb
    except ImportError:
        raise InvalidStore(
            "Writing to DuckDB needs its package; install it with `pip install 'headrace[duckdb]'`."
        ) from None
    module: ModuleType = duckdb
    return module
