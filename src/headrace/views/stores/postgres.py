"""PostgreSQL as a store.

Rows go into a temporary table by COPY, as text that Arrow writes, and from there into the table by
one statement; rows without a key go into it directly.
"""

import io
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa
import pyarrow.csv

from headrace.settings.address import shown
from headrace.views.stores.changes import Chunk
from headrace.views.stores.columns import Conversion, as_json, converted, hexadecimal, in_utc
from headrace.views.stores.connected import ConnectedSession
from headrace.views.stores.contract import Shape
from headrace.views.stores.errors import (
    InvalidStore,
    StoreError,
    StoreRefused,
    StoreUnreachable,
)
from headrace.views.stores.kinds import Kind, kind_of
from headrace.views.stores.relational import (
    POSITIONS,
    assignments,
    sql_type,
)

TYPES: Final = {
    Kind.BOOLEAN: "boolean",
    Kind.INT8: "smallint",
    Kind.INT16: "smallint",
    Kind.INT32: "integer",
    Kind.INT64: "bigint",
    Kind.FLOAT32: "real",
    Kind.FLOAT64: "double precision",
    Kind.DECIMAL: "numeric({}, {})",
    Kind.TEXT: "text",
    Kind.BYTES: "bytea",
    Kind.DATE: "date",
    Kind.INSTANT: "timestamp with time zone",
    Kind.LOCAL_TIME: "timestamp without time zone",
    Kind.NESTED: "jsonb",
}
"""The types of columns that are made."""

_WHOLE: Final = ("smallint", "integer", "bigint", "numeric")
_TEXTS: Final = ("text", "character varying", "character", "citext")
_HELD: Final = {
    Kind.BOOLEAN: ("boolean",),
    Kind.INT8: _WHOLE,
    Kind.INT16: _WHOLE,
    Kind.INT32: _WHOLE,
    Kind.INT64: _WHOLE,
    Kind.FLOAT32: ("real", "double precision"),
    Kind.FLOAT64: ("double precision",),
    Kind.DECIMAL: ("numeric",),
    Kind.TEXT: (*_TEXTS, "uuid", "json", "jsonb", "USER-DEFINED", "name", "inet", "xml"),
    Kind.BYTES: ("bytea",),
    Kind.DATE: ("date",),
    Kind.INSTANT: ("timestamp with time zone",),
    Kind.LOCAL_TIME: ("timestamp without time zone",),
    Kind.NESTED: ("jsonb", "json", *_TEXTS),
}
"""The types of columns that are there which take such values as they are, or refuse them."""

_CONVERSIONS: Final[dict[Kind, Conversion]] = {
    Kind.DECIMAL: lambda column: column.cast(pa.string()),
    Kind.BYTES: partial(hexadecimal, prefix="\\x"),
    Kind.INSTANT: in_utc,
    Kind.NESTED: as_json,
}
_CONNECT_SECONDS: Final = "10"
_STALLED_MS: Final = "60000"
"""After so long the server undoes a transaction in which nobody says anything any more."""


@dataclass(frozen=True, slots=True)
class PostgresStore:
    """A PostgreSQL database; a table may be named with its schema, as in `shop.orders`."""

    url: str = field(repr=False)

    def session(self) -> "PostgresSession":
        """See `Store`."""
        return PostgresSession(self)


class PostgresSession(ConnectedSession):
    """A connection to PostgreSQL."""

    locking: ClassVar[str] = " FOR UPDATE"

    def __init__(self, store: PostgresStore) -> None:
        self._driver = _driver()
        super().__init__(self._driver.Error)
        self._url = store.url
        with self._explained():
            self._connection = self._driver.connect(**_parameters(store.url))
        self._connection.autocommit = True

    def alive(self) -> bool:
        """See `Session`."""
        try:
            self._run("SELECT 1")
        except self._driver.Error:
            return False
        return True

    def _meaning(self, error: Any) -> StoreError:
        return _meaning(error, self._url)

    def _run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    def _positions_table(self) -> str:
        return (
            f"CREATE TABLE IF NOT EXISTS {POSITIONS} (writer text NOT NULL, place text NOT NULL, "
            "version integer NOT NULL, epoch bigint NOT NULL, position bigint, note text, "
            "changed bigint NOT NULL, PRIMARY KEY (writer, place))"
        )

    def _lock_schema(self, table: str) -> None:
        # Two who make one table at the same moment fail otherwise, in spite of IF NOT EXISTS.
        self._run("SELECT pg_advisory_xact_lock(hashtext(%s))", f"headrace {table}")

    def _columns(self, table: str) -> dict[str, str]:
        found = self._run(
            "SELECT column_name, data_type, numeric_scale FROM information_schema.columns "
            "WHERE (quote_ident(table_schema) || '.' || quote_ident(table_name))::regclass "
            "= to_regclass(%s)",
            self._quoted_table(table),
        )
        return {
            name: kind if kind != "numeric" or scale is None else f"numeric({scale})"
            for name, kind, scale in found
        }

    def _is_unique(self, shape: Shape) -> bool:
        found = self._run(
            "SELECT array_agg(attname::text) FROM pg_index JOIN pg_attribute "
            "ON attrelid = indrelid AND attnum = ANY (indkey) WHERE indrelid = to_regclass(%s) "
            "AND indisunique AND indpred IS NULL AND indexprs IS NULL GROUP BY indexrelid",
            self._quoted_table(shape.table),
        )
        return any(set(columns) == set(shape.key) for (columns,) in found)

    def _type(self, field: Any, *, key: bool) -> str:
        return sql_type(field, TYPES)

    def _holds(self, present: str, field: Any) -> bool:
        name, _, scale = present.partition("(")
        if name not in _HELD[kind_of(field)]:
            return False
        # The server would round, and say nothing.
        rounded = kind_of(field) is Kind.DECIMAL and scale
        return not rounded or int(scale.rstrip(")")) >= field.type.scale

    def _quoted_table(self, table: str) -> str:
        return ".".join(map(self._quoted, table.split(".")))

    def _upsert(self, shape: Shape, chunk: Chunk) -> None:
        names, table = shape.columns.names, self._quoted_table(shape.table)
        rows = chunk.upserts.select(names)
        if not shape.key:
            self._copy(table, rows)
            return
        staging = self._staging(shape, "rows", names)
        self._copy(staging, rows)
        changed = assignments(shape, self._quoted, "excluded.{}")
        action = f"DO UPDATE SET {changed}" if changed else "DO NOTHING"
        self._run(
            f"INSERT INTO {table} ({self._names(names)}) SELECT {self._names(names)} "
            f"FROM {staging} ON CONFLICT ({self._names(shape.key)}) {action}"
        )
        self._run(f"TRUNCATE {staging}")

    def _delete(self, shape: Shape, chunk: Chunk) -> None:
        staging = self._staging(shape, "keys", shape.key)
        self._copy(staging, chunk.deletes.select(shape.key))
        self._run(
            f"DELETE FROM {self._quoted_table(shape.table)} t USING {staging} s "
            f"WHERE {self._same_key(shape)}"
        )
        self._run(f"TRUNCATE {staging}")

    def _staging(self, shape: Shape, what: str, names: Any) -> str:
        """A temporary table of this connection for some columns of a table, empty."""
        name = f"pg_temp.headrace_{what}_{abs(hash((shape.table, tuple(names))))}"
        self._run(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {name} ON COMMIT DELETE ROWS AS "
            f"SELECT {self._names(names)} FROM {self._quoted_table(shape.table)} WITH NO DATA"
        )
        return name

    def _copy(self, table: str, rows: pa.Table) -> None:
        text = io.BytesIO()
        pyarrow.csv.write_csv(
            converted(rows, _CONVERSIONS), text, pyarrow.csv.WriteOptions(include_header=False)
        )
        text.seek(0)
        with self._connection.cursor() as cursor:
            cursor.copy_expert(
                f"COPY {table} ({self._names(rows.column_names)}) FROM STDIN (FORMAT csv)", text
            )

    def _refusal(self, error: Exception) -> str | None:
        code = getattr(error, "pgcode", None) or ""
        # Data that cannot be, and constraints.
        if not isinstance(error, self._driver.Error) or not code.startswith(("22", "23")):
            return None
        text = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
        detail = getattr(getattr(error, "diag", None), "message_detail", None)
        return f"{text}: {detail}" if detail else str(text)


def _driver() -> ModuleType:
    try:
        import psycopg2
    except ImportError:
        raise InvalidStore(
            "Writing to PostgreSQL needs psycopg2; "
            "install it with `pip install 'headrace[postgres]'`."
        ) from None
    module: ModuleType = psycopg2
    return module


def _parameters(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    given = {
        "host": parts.hostname,
        "port": str(parts.port) if parts.port else None,
        "user": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else None,
        "dbname": unquote(parts.path.strip("/")),
        "connect_timeout": _CONNECT_SECONDS,
        "application_name": "headrace sink",
        "client_encoding": "utf8",
        # A server that is gone without a word is noticed within half a minute.
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "4",
    }
    options = dict(parse_qsl(parts.query))
    session = f"-c idle_in_transaction_session_timeout={_STALLED_MS} -c timezone=UTC"
    options["options"] = f"{options.get('options', '')} {session}".strip()
    return {name: value for name, value in given.items() if value} | options


def _meaning(error: Any, url: str) -> StoreError:
    text = " ".join(str(error).split())
    code = error.pgcode or ""
    # Lost connections, servers that stop or start, full disks, deadlocks.
    if not code or code.startswith(("08", "57P", "53", "40", "25P03", "55P03")):
        return StoreUnreachable(f"No connection to {shown(url)}: {text}")
    return StoreRefused(f"{shown(url)} refused: {text} ({code}).")
