"""MariaDB and MySQL as stores.

The server is told to be strict: what does not fit into a column is refused, and not cut to fit.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa

from headrace.settings.address import shown
from headrace.views.stores.changes import Chunk
from headrace.views.stores.columns import Conversion, as_json, converted, on_the_wall, tuples
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
    Kind.BOOLEAN: "tinyint(1)",
    Kind.INT8: "tinyint",
    Kind.INT16: "smallint",
    Kind.INT32: "int",
    Kind.INT64: "bigint",
    Kind.FLOAT32: "float",
    Kind.FLOAT64: "double",
    Kind.DECIMAL: "decimal({}, {})",
    Kind.TEXT: "longtext",
    Kind.BYTES: "longblob",
    Kind.DATE: "date",
    Kind.INSTANT: "datetime(6)",
    Kind.LOCAL_TIME: "datetime(6)",
    Kind.NESTED: "json",
}
"""The types of columns that are made; moments are told in UTC."""

_KEYS: Final = {Kind.TEXT: "varchar(255)", Kind.BYTES: "varbinary(255)"}
"""Those of columns of a key, which cannot be of any length."""

_WHOLE: Final = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal")
_TEXTS: Final = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json", "enum")
_BLOBS: Final = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_HELD: Final = {
    Kind.BOOLEAN: ("tinyint", "smallint", "int", "bigint"),
    Kind.INT8: _WHOLE,
    Kind.INT16: _WHOLE,
    Kind.INT32: _WHOLE,
    Kind.INT64: _WHOLE,
    Kind.FLOAT32: ("float", "double"),
    Kind.FLOAT64: ("double",),
    Kind.DECIMAL: ("decimal",),
    Kind.TEXT: (*_TEXTS, "uuid", "inet6"),
    Kind.BYTES: _BLOBS,
    Kind.DATE: ("date",),
    Kind.INSTANT: ("datetime", "timestamp"),
    Kind.LOCAL_TIME: ("datetime",),
    Kind.NESTED: _TEXTS,
}
"""The types of columns that are there which take such values as they are, or refuse them."""

_CONVERSIONS: Final[dict[Kind, Conversion]] = {
    Kind.FLOAT32: lambda column: column.cast(pa.float64()),
    Kind.DECIMAL: lambda column: column.cast(pa.string()),
    Kind.DATE: lambda column: column.cast(pa.string()),
    Kind.INSTANT: lambda column: on_the_wall(column).cast(pa.string()),
    Kind.LOCAL_TIME: lambda column: on_the_wall(column).cast(pa.string()),
    Kind.NESTED: as_json,
}
_TABLE_EXISTS: Final = 1050
_CONNECT_SECONDS: Final = 10
_STALLED_SECONDS: Final = 60
_LOST: Final = {
    *(1040, 1053, 1077, 1129, 1159, 1160, 1161, 1203, 1205, 1213, 1021, 1114),
    *(2002, 2003, 2006, 2013, 2055),
}
"""Numbers of errors that another try may not see: connections, locks, full disks."""

_REFUSED: Final = {
    *(1048, 1062, 1261, 1264, 1265, 1292, 1364, 1365, 1366, 1406, 1411, 1425, 1451, 1452),
    *(1690, 3819, 4025, 1644),
}
"""Numbers of errors that are about the values of a row: too long, too large, a constraint."""


@dataclass(frozen=True, slots=True)
class MariadbStore:
    """A database of MariaDB or MySQL."""

    url: str = field(repr=False)

    def session(self) -> "MariadbSession":
        """See `Store`."""
        return MariadbSession(self)


class MariadbSession(ConnectedSession):
    """A connection to MariaDB or MySQL."""

    locking: ClassVar[str] = " FOR UPDATE"

    def __init__(self, store: MariadbStore) -> None:
        self._driver = _driver()
        super().__init__(self._driver.Error, OSError)
        self._url = store.url
        with self._explained():
            self._connection = self._driver.connect(
                **_parameters(store.url),
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                init_command="SET time_zone = '+00:00', sql_mode = "
                "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO'",
            )
            with suppress(self._driver.Error):
                # MariaDB undoes a transaction in which nobody says anything any more.
                self._run(f"SET idle_transaction_timeout = {_STALLED_SECONDS}")

    def alive(self) -> bool:
        """See `Session`."""
        try:
            self._connection.ping(reconnect=False)
        except self._errors:
            return False
        return True

    def _meaning(self, error: Any) -> StoreError:
        return _meaning(error, self._url)

    def _run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())

    def _positions_table(self) -> str:
        return (
            f"CREATE TABLE IF NOT EXISTS {POSITIONS} (writer varchar(700) NOT NULL, "
            "place varchar(300) NOT NULL, version int NOT NULL, epoch bigint NOT NULL, "
            "position bigint, note text, changed bigint NOT NULL, PRIMARY KEY (writer, place)) "
            "ENGINE = InnoDB CHARACTER SET ascii COLLATE ascii_bin"
        )

    def _claiming(self) -> str:
        return (
            f"INSERT INTO {POSITIONS} (writer, place, version, changed, epoch) "
            "VALUES (?, ?, ?, ?, 1) ON DUPLICATE KEY UPDATE epoch = epoch + 1"
        )

    def _columns(self, table: str) -> dict[str, str]:
        found = self._run(
            "SELECT column_name, column_type FROM information_schema.columns "
            "WHERE table_schema = database() AND table_name = %s",
            table,
        )
        return dict(found)

    def _is_unique(self, shape: Shape) -> bool:
        found = self._run(
            "SELECT group_concat(column_name), sum(sub_part IS NOT NULL) "
            "FROM information_schema.statistics WHERE table_schema = database() "
            "AND table_name = %s AND NOT non_unique GROUP BY index_name",
            shape.table,
        )
        return any(set(names.split(",")) == set(shape.key) and not cut for names, cut in found)

    def _type(self, field: Any, *, key: bool) -> str:
        if key and kind_of(field) in _KEYS:
            return _KEYS[kind_of(field)]
        return sql_type(field, TYPES)

    def _create(self, shape: Shape) -> None:
        try:
            super()._create(shape)
        except self._driver.Error as error:
            # There is no lock that would let others wait, since making a table ends transactions.
            if error.args[0] != _TABLE_EXISTS:
                raise
            self._evolve(shape, self._columns(shape.table))

    def _holds(self, present: str, field: Any) -> bool:
        name, _, rest = present.partition("(")
        if name.split()[0] not in _HELD[kind_of(field)] or "unsigned" in present:
            return False
        # The server would round, and say nothing.
        if kind_of(field) is Kind.DECIMAL:
            return int(rest.partition(")")[0].partition(",")[2] or 0) >= int(field.type.scale)
        moment = kind_of(field) in (Kind.INSTANT, Kind.LOCAL_TIME)
        return not moment or rest.startswith("6)")

    def _quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def _upsert(self, shape: Shape, chunk: Chunk) -> None:
        names = shape.columns.names
        marks = ", ".join(["%s"] * len(names))
        sql = f"INSERT INTO {self._quoted(shape.table)} ({self._names(names)}) VALUES ({marks})"
        if shape.key:
            # Without other columns a row that is there is left as it is.
            itself = f"{self._quoted(shape.key[0])} = {self._quoted(shape.key[0])}"
            changed = assignments(shape, self._quoted, "VALUES({})")
            sql += f" ON DUPLICATE KEY UPDATE {changed or itself}"
        self._run_for_all(sql, chunk.upserts.select(names))

    def _delete(self, shape: Shape, chunk: Chunk) -> None:
        condition = " AND ".join(f"{self._quoted(name)} = %s" for name in shape.key)
        sql = f"DELETE FROM {self._quoted(shape.table)} WHERE {condition}"
        self._run_for_all(sql, chunk.deletes.select(shape.key))

    def _run_for_all(self, sql: str, rows: pa.Table) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(sql, tuples(converted(rows, _CONVERSIONS)))

    def _refusal(self, error: Exception) -> str | None:
        if isinstance(error, self._driver.Error) and error.args[0] in _REFUSED:
            return str(error.args[-1])
        return None


def _driver() -> ModuleType:
    try:
        import pymysql
    except ImportError:
        raise InvalidStore(
            "Writing to MariaDB or MySQL needs PyMySQL; "
            "install it with `pip install 'headrace[mysql]'`."
        ) from None
    module: ModuleType = pymysql
    return module


def _parameters(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {
        "host": parts.hostname or "localhost",
        "port": parts.port or 3306,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.strip("/")),
        **dict(parse_qsl(parts.query)),
    }


def _meaning(error: Exception, url: str) -> StoreError:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = " ".join(str(error.args[-1] if error.args else error).split())
    if isinstance(error, OSError) or code in _LOST or code == 0:
        return StoreUnreachable(f"No connection to {shown(url)}: {text}")
    return StoreRefused(f"{shown(url)} refused: {text} ({code}).")
