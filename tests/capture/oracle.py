"""Random tables, random transactions and random interruptions, all of one seed.

Two clients change rows of tables that are made up, while tables get and lose columns, and while the
capture is killed, ended, paused and started again, and the database too. Then the topics, read from
their first record, must lead to what the tables are.

Clients are interleaved statement by statement, so that transactions overlap and a seed always means
the same; each has keys of its own, so that none waits for another.
"""

import base64
import datetime
import json
import random
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from headrace.capture import control
from headrace.kafka import Cluster as Kafka
from headrace.settings import KafkaSettings
from tests.capture.killing import CaptureProcess
from tests.capture.replaying import Rows, await_equal, replayed
from tests.clusters import Cluster

STEPS = 120
KEYS = 12
LONG = 3000
"""Letters of a text that PostgreSQL keeps apart from its row."""

OPTIONS = ("chunk=5", "decimals=string", "times=iso")


@dataclass(frozen=True)
class Kind:
    """A type of columns: values for them, and what is told of what is read back."""

    sql: str
    value: Callable[[random.Random], Any]
    told: Callable[[Any], Any] = lambda value: value


def _text(chance: random.Random) -> str:
    letters = "".join(chance.choices("aä€😀'\"\\ \n", k=chance.randint(0, 9)))
    return letters + "x" * chance.choice((0, 0, 0, LONG))


def _day(chance: random.Random) -> datetime.date:
    return datetime.date(2000, 1, 1) + datetime.timedelta(days=chance.randint(-9999, 9999))


def _bytes(value: Any) -> str:
    return base64.b64encode(bytes(value)).decode()


WHOLE = Kind("BIGINT", lambda chance: chance.randint(-(2**63), 2**63 - 1))
TEXT = Kind("TEXT", _text)
FLOAT = Kind("DOUBLE PRECISION", lambda chance: chance.uniform(-1e9, 1e9))
DECIMAL = Kind("DECIMAL(12,3)", lambda chance: Decimal(chance.randint(-(10**9), 10**9)) / 1000, str)
DAY = Kind("DATE", _day, lambda value: value.isoformat())


def binary(sql: str) -> Kind:
    """Bytes, which every database calls otherwise."""
    return Kind(sql, lambda chance: chance.randbytes(chance.randint(0, 9)), _bytes)


@dataclass(frozen=True)
class Dialect:
    """How a database wants to be spoken to."""

    kinds: tuple[Kind, ...]
    connect: Callable[[], Any]
    """A connection on which transactions are ended by `commit` and `rollback`."""

    violated: type[Exception]
    """What it raises if a key is there already."""

    schema: str
    overwrite: str = "ON CONFLICT ({key}) DO UPDATE SET"
    excluded: str = "excluded.{name}"
    mark: str = "%s"
    clients: int = 2
    loses_columns: bool = True
    restart: Callable[[], None] | None = None
    """Ends the server and starts it again, where there is one."""

    adorn: Callable[[random.Random, str], list[str]] = lambda chance, table: []
    """More statements about a new table."""


@dataclass
class _Table:
    name: str
    key: dict[str, Kind]
    columns: dict[str, Kind] = field(default_factory=dict)


class Oracle:
    """One run.

    Args:
        dialect: The database.
        url: Where it is.
        cluster: Where changes go.
        prefix: How the names of topics begin.
        seed: Of all that happens.
    """

    def __init__(
        self, dialect: Dialect, url: str, cluster: Cluster, prefix: str, seed: int
    ) -> None:
        self._dialect = dialect
        self._chance = random.Random(seed)
        self._cluster = cluster
        self._kafka = Kafka(KafkaSettings(bootstrap=cluster.bootstrap))
        self._prefix = prefix
        self._columns = 0
        self._process = CaptureProcess(url, cluster, prefix, *OPTIONS)
        self._tables: list[_Table] = []

    def run(self) -> None:
        """Let everything happen, and compare."""
        with ExitStack() as resources:
            self._connect()
            resources.callback(self._leave)
            for number in range(self._chance.randint(1, 3)):
                self._make_table(f"t{number}")
            for client in range(self._dialect.clients):
                for _ in range(KEYS):
                    self._change(client)
                self._connections[client].commit()
            resources.enter_context(self._process)
            self._process.start()
            for _ in range(STEPS):
                self._step()
            for each in self._connections:
                each.commit()
            for table in self._tables:
                self._await_equal(table)
            assert "Traceback" not in self._process.end(signal.SIGTERM)

    def _step(self) -> None:
        chance = self._chance.random()
        client = self._chance.randrange(self._dialect.clients)
        if chance < 0.7:
            self._change(client)
        elif chance < 0.88:
            self._connections[client].commit()
        elif chance < 0.92:
            self._connections[client].rollback()
        elif chance < 0.95:
            self._alter(self._chance.choice(self._tables))
        elif chance < 0.98:
            how = self._chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
            self._process.end(how)
            self._process.start()
        elif chance < 0.99 or self._dialect.restart is None:
            self._pause_and_resume()
        elif self._begun():
            self._leave()
            self._dialect.restart()
            self._connect()

    def _connect(self) -> None:
        self._connections = [self._dialect.connect() for _ in range(self._dialect.clients)]

    def _leave(self) -> None:
        for each in self._connections:
            each.close()

    def _make_table(self, name: str) -> None:
        key = {"k": Kind("INT", lambda chance: chance.randint(0, KEYS))}
        if self._chance.random() < 0.4:
            key["part"] = Kind("VARCHAR(9)", lambda chance: chance.choice("abc"))
        if self._chance.random() < 0.5:
            key = dict(reversed(key.items()))
        table = _Table(name, key)
        for _ in range(self._chance.randint(0, 4)):
            self._add_column(table)
        columns = {**key, **table.columns}
        listed = list(columns.items())
        self._chance.shuffle(listed)
        table.columns = {column: kind for column, kind in listed if column not in key}
        described = ", ".join(f"{column} {kind.sql}" for column, kind in listed)
        self._run(0, f"CREATE TABLE {name} ({described}, PRIMARY KEY ({', '.join(key)}))")
        for statement in self._dialect.adorn(self._chance, name):
            self._run(0, statement)
        self._connections[0].commit()
        self._tables.append(table)

    def _add_column(self, table: _Table) -> tuple[str, Kind]:
        self._columns += 1
        name, kind = f"c{self._columns}", self._chance.choice(self._dialect.kinds)
        table.columns[name] = kind
        return name, kind

    def _alter(self, table: _Table) -> None:
        for each in self._connections:
            each.commit()
        kind = self._chance.random()
        if kind < 0.5 or not table.columns or not self._dialect.loses_columns:
            name, added = self._add_column(table)
            self._run(0, f"ALTER TABLE {table.name} ADD COLUMN {name} {added.sql}")
        else:
            name = self._chance.choice(list(table.columns))
            del table.columns[name]
            self._run(0, f"ALTER TABLE {table.name} DROP COLUMN {name}")
        self._connections[0].commit()

    def _change(self, client: int) -> None:
        table, chance = self._chance.choice(self._tables), self._chance.random()
        key = self._key(table, client)
        where = " AND ".join(f"{name} = {self._dialect.mark}" for name in key)
        try:
            if chance < 0.5:
                self._overwrite(client, table, key)
            elif chance < 0.75 and table.columns:
                values = self._values(table)
                chosen = self._chance.sample(list(values), self._chance.randint(1, len(values)))
                self._update(client, table, {name: values[name] for name in chosen}, where, key)
            elif chance < 0.85:
                self._update(client, table, self._key(table, client), where, key)
            else:
                self._run(client, f"DELETE FROM {table.name} WHERE {where}", *key.values())
        except self._dialect.violated:
            self._connections[client].rollback()

    def _overwrite(self, client: int, table: _Table, key: Mapping[str, Any]) -> None:
        row = {**key, **self._values(table)}
        marks = ", ".join([self._dialect.mark] * len(row))
        overwrite = self._dialect.overwrite.format(key=", ".join(key))
        updated = list(table.columns) or list(key)
        settings = ", ".join(
            f"{name} = {self._dialect.excluded.format(name=name)}" for name in updated
        )
        sql = f"INSERT INTO {table.name} ({', '.join(row)}) VALUES ({marks}) {overwrite} {settings}"
        self._run(client, sql, *row.values())

    def _update(
        self,
        client: int,
        table: _Table,
        values: Mapping[str, Any],
        where: str,
        key: Mapping[str, Any],
    ) -> None:
        settings = ", ".join(f"{name} = {self._dialect.mark}" for name in values)
        sql = f"UPDATE {table.name} SET {settings} WHERE {where}"
        self._run(client, sql, *values.values(), *key.values())

    def _key(self, table: _Table, client: int) -> dict[str, Any]:
        found = {name: kind.value(self._chance) for name, kind in table.key.items()}
        found["k"] = found["k"] * self._dialect.clients + client
        return found

    def _values(self, table: _Table) -> dict[str, Any]:
        return {
            name: None if self._chance.random() < 0.15 else kind.value(self._chance)
            for name, kind in table.columns.items()
        }

    def _run(self, client: int, sql: str, *values: Any) -> list[Any]:
        cursor = self._connections[client].cursor()
        try:
            cursor.execute(sql, values)
            return list(cursor.fetchall()) if cursor.description else []
        finally:
            cursor.close()

    def _pause_and_resume(self) -> None:
        if self._begun():
            control.pause(self._kafka, self._prefix, paused=True)
            control.pause(self._kafka, self._prefix, paused=False)

    def _begun(self) -> bool:
        """Whether the capture is known; until then a database that is away is a mistake."""
        return any(state.name == self._prefix for state, _ in control.states(self._kafka))

    def _await_equal(self, table: _Table) -> None:
        columns = {**table.key, **table.columns}
        listed = self._run(0, f"SELECT {', '.join(columns)} FROM {table.name}")
        self._connections[0].commit()
        wanted: Rows = {}
        for row in listed:
            told = {
                name: None if value is None else kind.told(value)
                for (name, kind), value in zip(columns.items(), row, strict=True)
            }
            key = {name: told[name] for name in table.key}
            written = json.dumps(key, separators=(",", ":"), ensure_ascii=False)
            wanted[written] = told
        topic = f"{self._prefix}.{self._dialect.schema}.{table.name}"

        def found() -> Rows:
            # What was told before a column came has none, and what was told before it went has it.
            return {
                key: {name: row.get(name) for name in columns}
                for key, row in replayed(self._cluster.bootstrap, topic).items()
            }

        await_equal(found, wanted, topic)
