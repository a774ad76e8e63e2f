"""Keeping a batch in stores beside Spark's JDBC writer and plain loops: `make bench NAME=sinks`.

The same rows lie in Spark's memory and go into new tables, from the same session. Headrace keeps
them by key and exactly once: rows are staged, what has the same key is replaced, and the position
is stored with them. Spark's JDBC writer appends to a table without a key, and would append again if
the batch came again. A plain loop is what one writes by hand: a statement per row that replaces by
key, all in one transaction of the store's own driver.
"""

import itertools
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import psycopg2
import redis
from pyspark.sql import DataFrame, SparkSession

from benchmarks.command import Options, command
from benchmarks.experiment import Experiment, Figures, NothingMeasured, run
from benchmarks.report import Better, Row
from headrace.settings import StreamsSettings
from headrace.streams.session import spark_session, stop_session
from headrace.streams.sinks.applying import apply, partitions_of, written
from headrace.streams.sinks.contract import Batch
from headrace.streams.sinks.storing import StoreSink
from headrace.views.stores import Store, store_of
from tests.capture.servers import PostgresServer
from tests.views.redis_server import RedisServer, unavailable

HEADRACE = "Headrace, by key and exactly once"
ADDED = "Headrace, added exactly once"
JDBC = "Spark's JDBC writer, appending"
LOOP = "a plain Python loop"

_DRIVER = "org.postgresql:postgresql:42.7.7"
_PARTITIONS = 2
_RATE = "rows_per_second"
_COLUMNS = ("id", "customer", "item", "price", "sold_at")
_TYPES = "id bigint primary key, customer {0}, item {0}, price double precision, sold_at {1}"

_tables = itertools.count()


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    rows: int
    looped: int
    """Rows of a plain loop, which would take minutes for as many as the others have."""


FULL = Scale(rounds=3, rows=500_000, looped=20_000)
QUICK = Scale(rounds=1, rows=50_000, looped=5_000)


class Stores:
    """Servers and files of this benchmark, with settings as they come: a commit is safe."""

    def __init__(self) -> None:
        self._resources = ExitStack()
        self.directory = Path(tempfile.mkdtemp(prefix="headrace-sinks-"))
        self._resources.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self.postgres = PostgresServer(
            fsync="on", full_page_writes="on", shared_buffers="128MB", max_wal_size="2GB"
        )
        self._resources.callback(self.postgres.remove)
        self.postgres.start()
        if (reason := unavailable()) is not None:
            self._resources.close()
            raise NothingMeasured(reason)
        self.redis = self._resources.enter_context(RedisServer())

    def url(self, kind: str) -> str:
        """The URL of a store."""
        if kind == "postgresql":
            return self.postgres.url()
        if kind == "redis":
            return self.redis.url
        return f"{kind}:///{self.directory}/shop.{kind}"

    def __enter__(self) -> "Stores":
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()


def experiments(stores: Stores, spark: SparkSession, scale: Scale) -> list[Experiment]:
    """PostgreSQL beside Spark's own writer, and each store beside a plain loop."""
    rows = _rows(spark, scale.rows)
    few = [tuple(row) for row in _rows(spark, scale.looped).toLocalIterator()]

    def kept(kind: str, key: tuple[str, ...] = ("id",)) -> Callable[[], Figures]:
        return partial(_measure, scale.rows, partial(_keep, store_of(stores.url(kind)), rows, key))

    def looped(kind: str) -> Callable[[], Figures]:
        return partial(_measure, scale.looped, partial(_LOOPS[kind], stores.url(kind), few))

    def rate(metric: str, side: str, peer: str, target: float | None = None) -> Row:
        return Row(metric, "rows/s", Better.HIGHER, _RATE, side, peer, target)

    beside_spark = Experiment(
        "PostgreSQL",
        {
            HEADRACE: kept("postgresql"),
            ADDED: kept("postgresql", ()),
            JDBC: partial(_measure, scale.rows, partial(_append, stores, rows)),
        },
        (
            rate("sinks_postgres", HEADRACE, JDBC, 1.0),
            rate("sinks_postgres_added", ADDED, JDBC),
        ),
        rounds=scale.rounds,
    )
    beside_loops = [
        Experiment(
            name,
            {HEADRACE: kept(kind), LOOP: looped(kind)},
            (rate(f"sinks_{name}_loop", HEADRACE, LOOP),),
            rounds=scale.rounds,
        )
        for kind, name in (
            ("postgresql", "postgres"),
            ("sqlite", "sqlite"),
            ("duckdb", "duckdb"),
            ("redis", "redis"),
        )
    ]
    return [beside_spark, *beside_loops]


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("Headrace's exactly-once sinks beside Spark's JDBC writer and loops.")
    with command(), Stores() as stores:
        spark = spark_session(StreamsSettings(master="local[2]"), name="benchmark")
        try:
            spark.sql(f"ADD JAR ivy://{_DRIVER}?transitive=false")
            run("sinks", experiments(stores, spark, QUICK if options.quick else FULL), options)
        finally:
            stop_session()


def _rows(spark: SparkSession, number: int) -> DataFrame:
    """Sales in Spark's memory, where reading them costs all sides the same."""
    rows = spark.range(0, number, 1, _PARTITIONS).selectExpr(
        "id",
        "concat('customer ', id % 10000) customer",
        "concat('item ', id % 500, ' of the catalogue') item",
        "id % 1000 / 10.0d price",
        "timestamp_seconds(1767225600 + id) sold_at",
    )
    rows.persist().count()
    return rows


def _measure(number: int, write: Callable[[str], None]) -> Figures:
    table = f"sales_{next(_tables)}"
    began = time.monotonic()
    write(table)
    return {_RATE: number / (time.monotonic() - began)}


def _keep(store: Store, rows: DataFrame, key: tuple[str, ...], table: str) -> None:
    sink = StoreSink(store, table, key)
    batch = Batch(table, 0, partitions_of(rows))
    if apply(sink, batch, written(rows, sink)).repeated:
        raise NothingMeasured("a batch that was new has been found in the output")


def _append(stores: Stores, rows: DataFrame, table: str) -> None:
    server = stores.postgres
    rows.write.format("jdbc").mode("append").options(
        url=f"jdbc:postgresql://127.0.0.1:{server.port}/postgres",
        user="postgres",
        dbtable=table,
        driver="org.postgresql.Driver",
    ).save()


def _loop_postgres(url: str, rows: list[tuple[Any, ...]], table: str) -> None:
    connection = psycopg2.connect(url)
    with connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} ({_TYPES.format('text', 'timestamptz')})")
        for row in rows:
            cursor.execute(_upsert(table, "%s"), row)
    connection.close()


def _loop_sqlite(url: str, rows: list[tuple[Any, ...]], table: str) -> None:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    with connection:
        connection.execute(f"CREATE TABLE {table} ({_TYPES.format('text', 'text')})")
        for row in rows:
            connection.execute(_upsert(table, "?"), (*row[:-1], row[-1].isoformat()))
    connection.close()


def _loop_duckdb(url: str, rows: list[tuple[Any, ...]], table: str) -> None:
    connection = duckdb.connect(url.removeprefix("duckdb:///"))
    connection.execute("BEGIN")
    connection.execute(f"CREATE TABLE {table} ({_TYPES.format('text', 'timestamp')})")
    for row in rows:
        connection.execute(_upsert(table, "?"), row)
    connection.execute("COMMIT")
    connection.close()


def _loop_redis(url: str, rows: list[tuple[Any, ...]], table: str) -> None:
    client = redis.Redis.from_url(url)
    for row in rows:
        values = (*row[:-1], row[-1].isoformat())
        client.hset(
            f"{table}:{row[0]}",
            items=[word for pair in zip(_COLUMNS, values, strict=True) for word in pair],
        )
    client.close()


def _upsert(table: str, mark: str) -> str:
    changed = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])
    marks = ", ".join([mark] * len(_COLUMNS))
    return (
        f"INSERT INTO {table} ({', '.join(_COLUMNS)}) VALUES ({marks}) "
        f"ON CONFLICT (id) DO UPDATE SET {changed}"
    )


_LOOPS: dict[str, Callable[[str, list[tuple[Any, ...]], str], None]] = {
    "postgresql": _loop_postgres,
    "sqlite": _loop_sqlite,
    "duckdb": _loop_duckdb,
    "redis": _loop_redis,
}

if __name__ == "__main__":
    main()
