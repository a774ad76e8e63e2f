"""A PostgreSQL with changes in its log, which can be read as often as a benchmark likes.

Every measurement reads the same log: a replication slot stands before it, and each run gets a copy
of that slot. So nobody waits for the database to write, and all rounds have the same work.
"""

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from tests.capture.servers import PostgresServer

RUNS = 40
"""How many captures can read the log: a publication of each must be there before the log is."""

_ROW = "id bigint PRIMARY KEY, customer int NOT NULL, item text, price numeric(9,2), at timestamptz"
_VALUES = "i, i % 1000, 'item number ' || i, (i % 10000) / 100.0, now()"
_SINGLE = f"""
DO $$ BEGIN
    FOR i IN 1..%s LOOP
        IF i % 3 = 0 THEN UPDATE changes SET price = price + 1 WHERE id = i - 1;
        ELSE INSERT INTO changes VALUES ({_VALUES});
        END IF;
        COMMIT;
    END LOOP;
END $$
"""


class ShopDatabase:
    """The database of a benchmark, for as long as a `with` block.

    Args:
        changes: How many single-row transactions its log has.
        rows: How many rows its large table has.
    """

    def __init__(self, *, changes: int, rows: int) -> None:
        self.changes = changes
        self.rows = rows
        self._server = PostgresServer(
            max_wal_size="8GB", checkpoint_timeout="1h", shared_buffers="256MB"
        )
        self._connection: Any = None
        self._runs = 0

    @property
    def url(self) -> str:
        """Where it is."""
        return self._server.url()

    def __enter__(self) -> Self:
        self._server.start()
        self._connection = self._server.connect()
        for table in ("changes", "items", "events"):
            self.run(f"CREATE TABLE {table} ({_ROW})")
        for number in range(RUNS):
            self.run(f"CREATE PUBLICATION headrace_run_{number} FOR TABLE changes")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the server and remove its data."""
        self._connection.close()
        self._server.remove()

    def run(self, sql: str, *values: object) -> list[Any]:
        """Run a statement and give its rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    def connect(self) -> Any:
        """Another connection, in autocommit mode."""
        return self._server.connect()

    def write_single(self) -> int:
        """Write transactions of one change each, unless they are there; gives how many changes."""
        if self._keep_log("single"):
            self.run(_SINGLE.replace("%s", str(self.changes)))
        return self.changes

    def write_large(self) -> int:
        """Write one transaction that changes all rows; gives how many changes it has."""
        self.write_single()
        if self._keep_log("large"):
            self.run("UPDATE changes SET customer = customer + 1")
        return int(self.run("SELECT count(*) FROM changes")[0][0])

    def write_rows(self) -> int:
        """Fill the large table, unless it is full; gives how many rows it has."""
        if not self.run("SELECT 1 FROM items LIMIT 1"):
            self.run(f"INSERT INTO items SELECT {_VALUES} FROM generate_series(1, {self.rows}) i")
            self.run("VACUUM ANALYZE items")
        return self.rows

    @contextlib.contextmanager
    def place(self, log: str | None = None) -> Iterator[str]:
        """The name of a capture; with the name of a log, it stands before that.

        What it leaves in the database goes when the block ends.
        """
        name = f"run_{self._runs}"
        self._runs += 1
        slot = f"headrace_{name}"
        if log is None:
            self.run(f"DROP PUBLICATION {slot}")
        else:
            self.run("SELECT pg_copy_logical_replication_slot(%s, %s)", log, slot)
        try:
            yield name
        finally:
            self.run(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                " WHERE slot_name = %s",
                slot,
            )
            self.run(f"DROP PUBLICATION IF EXISTS {slot}")

    def _keep_log(self, name: str) -> bool:
        """Keep the log from now on under a name; False if it is kept already."""
        if self.run("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", name):
            return False
        self.run("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", name)
        return True
