"""What has to be so before a MariaDB or MySQL server can be captured, and the one table we make."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from headrace.capture.changes import Position, Table, TableName
from headrace.capture.errors import NotPrepared
from headrace.capture.mariadb.connection import ask, driver, quoted
from headrace.capture.source import Check

_OLDEST: Final = {True: (10, 5), False: (8, 0)}
"""The first versions whose logs can name columns."""

_DAY_SECONDS: Final = 86_400

_WANTED: Final = {
    "log_bin": ("ON", "it writes no binary log: set log_bin and server_id in its configuration"),
    "binlog_format": ("ROW", "run SET GLOBAL binlog_format = 'ROW'"),
    "binlog_row_image": ("FULL", "run SET GLOBAL binlog_row_image = 'FULL'"),
    "binlog_row_metadata": ("FULL", "run SET GLOBAL binlog_row_metadata = 'FULL'"),
}
_WANTED_OF_MYSQL: Final = {
    "gtid_mode": ("ON", "set gtid_mode and enforce_gtid_consistency to ON"),
    "binlog_order_commits": ("ON", "run SET GLOBAL binlog_order_commits = ON"),
    "binlog_transaction_compression": (
        "OFF",
        "run SET GLOBAL binlog_transaction_compression = OFF",
    ),
    "binlog_row_value_options": ("", "run SET GLOBAL binlog_row_value_options = ''"),
}
_ACTIONS_SQL: Final = """
SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME
FROM information_schema.REFERENTIAL_CONSTRAINTS
WHERE DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
   OR UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
"""

_REPLICATES: Final = ("REPLICATION SLAVE", "REPLICATION REPLICA", "ALL PRIVILEGES")
_MONITORS: Final = ("REPLICATION CLIENT", "BINLOG MONITOR", "SUPER", "ALL PRIVILEGES")


class Setup:
    """One capture on one server.

    Args:
        connection: In autocommit mode.
        marks: The table that marks are written to.
        where: The database as people are told of it.
    """

    def __init__(self, connection: Any, marks: TableName, where: str) -> None:
        self._connection = connection
        self._marks = marks
        self._full = f"{quoted(marks.schema)}.{quoted(marks.table)}"
        self._where = where
        self.mariadb = is_mariadb(connection)

    def check(self, tables: Sequence[Table]) -> Check:
        """What is missing, and what could be better."""
        return Check(tuple(self._problems(tables)), tuple(self._advice(tables)))

    def make(self, tables: Sequence[Table]) -> Position | None:
        """Make the table of marks; the end of the log if it was not there."""
        if problems := tuple(self._problems(tables)):
            raise NotPrepared(self._where, problems)
        if self.exists():
            return None
        position = self.end()
        pymysql = driver()
        try:
            ask(
                self._connection,
                f"CREATE TABLE IF NOT EXISTS {self._full}"
                " (id VARCHAR(190) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,"
                " mark VARCHAR(190) CHARACTER SET ascii NOT NULL) ENGINE = InnoDB",
            )
        except pymysql.Error as error:
            user = self._user()
            refusal = (
                f"the user {user} may not make the table {self._marks}, which marks how far tables "
                f"are read ({error.args[-1]}): run GRANT CREATE, DROP, SELECT, INSERT, UPDATE, "
                f"DELETE ON {self._full} TO {user}."
            )
            raise NotPrepared(self._where, [refusal]) from None
        return position

    def exists(self) -> bool:
        """Whether the table of marks is there."""
        rows = ask(
            self._connection,
            "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            *self._marks,
        )
        return bool(rows)

    def end(self) -> Position:
        """The position behind everything that is in the log by now."""
        name = "gtid_binlog_pos" if self.mariadb else "gtid_executed"
        ((found,),) = ask(self._connection, f"SELECT @@GLOBAL.{name}")
        return "".join(found.split())

    def replaced(self, name: TableName) -> None:
        """Count that a name is another table's now."""
        ask(
            self._connection,
            f"INSERT INTO {self._full} VALUES (%s, '1')"
            " ON DUPLICATE KEY UPDATE mark = CAST(mark AS UNSIGNED) + 1",
            _id(name),
        )

    def generations(self) -> dict[str, int]:
        """How often each name became another table's."""
        if not self.exists():
            return {}
        rows = ask(self._connection, f"SELECT id, mark FROM {self._full} WHERE id LIKE 't%%'")
        return {id_: int(mark) for id_, mark in rows}

    def drop(self) -> list[str]:
        """Remove the table of marks, and say that there was one."""
        if not self.exists():
            return []
        ask(self._connection, f"DROP TABLE {self._full}")
        return [f"table {self._marks}"]

    def behind(self, file: str, position: int) -> int:
        """How many bytes of the log come after a place."""
        sizes = [(row[0], int(row[1])) for row in ask(self._connection, "SHOW BINARY LOGS")]
        return max(sum(size for name, size in sizes if name >= file) - position, 0) if file else 0

    def _problems(self, tables: Sequence[Table]) -> Iterator[str]:
        version = version_of(self._connection)
        if version < _OLDEST[self.mariadb]:
            product = "MariaDB" if self.mariadb else "MySQL"
            oldest = ".".join(map(str, _OLDEST[self.mariadb]))
            yield f"it is {product} {'.'.join(map(str, version))}; it takes {oldest} or newer."
            return
        asked = (
            "SHOW GLOBAL VARIABLES WHERE Variable_name LIKE 'binlog\\_%'"
            " OR Variable_name IN ('log_bin', 'gtid_mode')"
        )
        variables: dict[str, str] = {row[0]: row[1] for row in ask(self._connection, asked)}
        wanted = _WANTED if self.mariadb else _WANTED | _WANTED_OF_MYSQL
        for name, (value, remedy) in wanted.items():
            found = variables.get(name)
            if found is not None and found.upper() != value:
                yield (
                    f"{name} is {found or 'empty'}, and must be {value or 'empty'}: {remedy}, and "
                    "write it into its configuration, so that it is still so after a restart."
                )
                if name == "log_bin":
                    return
        yield from self._missing_privileges()
        if not tables:
            yield "no table matches; see SHOW TABLES for what there is."

    def _missing_privileges(self) -> Iterator[str]:
        grants = [row[0].upper() for row in ask(self._connection, "SHOW GRANTS")]
        everywhere = " ".join(each for each in grants if re.search(r" ON \*\.\* ", each))
        user = self._user()
        if not any(each in everywhere for each in _REPLICATES):
            yield (
                f"the user {user} may not read the log: run GRANT REPLICATION SLAVE ON *.* TO "
                f"{user}."
            )
        if not any(each in everywhere for each in _MONITORS):
            yield (
                f"the user {user} may not ask how long the log is: run GRANT REPLICATION CLIENT ON "
                f"*.* TO {user}."
            )

    def _advice(self, tables: Sequence[Table]) -> Iterator[str]:
        for each in tables:
            if not each.key:
                yield (
                    f"{each.name} has no primary key: its changes are captured, but the rows that "
                    "are in it already are not, and its topic cannot be compacted."
                )
        captured = {each.name for each in tables}
        for schema, table, constraint in ask(self._connection, _ACTIONS_SQL):
            if TableName(schema, table) in captured:
                yield (
                    f"the foreign key {constraint} of {schema}.{table} changes or deletes its rows "
                    "when others do, and the server does not write that into its log: such changes "
                    "are not captured. Let the application make them, or a trigger."
                )
        rows = ask(
            self._connection, "SHOW GLOBAL VARIABLES LIKE 'binlog\\_expire\\_logs\\_seconds'"
        )
        if rows and 0 < int(rows[0][1]) < _DAY_SECONDS:
            yield (
                f"the server removes its log after {rows[0][1]} seconds, whether it was captured "
                "or not: raise binlog_expire_logs_seconds to at least a day."
            )

    def _user(self) -> str:
        ((found,),) = ask(self._connection, "SELECT CURRENT_USER()")
        name, _, host = found.rpartition("@")
        return f"'{name}'@'{host}'"


def is_mariadb(connection: Any) -> bool:
    """Whether a server is not MySQL."""
    return "mariadb" in connection.get_server_info().lower()


def version_of(connection: Any) -> tuple[int, int]:
    """The first two numbers of a server's version."""
    # Old clients were told that MariaDB is MySQL 5.5.5.
    text = connection.get_server_info().removeprefix("5.5.5-")
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _id(name: TableName) -> str:
    """What a table is called in the table of marks, in ASCII and short enough."""
    return f"t{str(name).encode('punycode').decode()}"[:190]


def generation_of(generations: dict[str, int], name: TableName) -> int:
    """How often a name became another table's, counted from one."""
    return generations.get(_id(name), 0) + 1
