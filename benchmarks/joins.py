"""Joins beside Spark's own and beside Python's: `make bench NAME=joins`.

Two streams are joined within ten seconds by Headrace, by Spark's join in Java, and by a Python
`transformWithState`. Events are looked up in a table of a million rows, one in a hundred of which
changes with every batch, and a table of orders is joined with one of customers; Spark has neither
join, so that `transformWithState` is what there is beside it. All sides read the same files, and
what is reported is the rate of the batches after the first, which fills the state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks import report
from benchmarks.batches import Batches, batches, keys_of, rate, session
from benchmarks.command import Options, command
from benchmarks.event_time import DELAY, MOMENT, SECOND, LatestTime, times_of
from benchmarks.experiment import Experiment, Figures, run
from benchmarks.join_peers import LEFT, RIGHT, EnrichmentByRow, PairsByRow, TableJoinByRow
from benchmarks.report import Better
from headrace.streams.joins.lookup import Lookup
from headrace.streams.joins.sides import Side
from headrace.streams.joins.within import WithinJoin
from headrace.streams.plan import DELETED
from headrace.streams.state.keyed import Input, keyed
from headrace.streams.tables.joined import TableJoin
from headrace.streams.tables.sides import TableSide

HEADRACE = "Headrace"
PER_KEY = "transformWithState"
NATIVE = "Spark's join"

_RATE = "rows_per_second"
_EVENTS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("at", MOMENT)])
_PEOPLE = pa.schema(
    [("k", pa.int64()), ("name", pa.string()), ("city", pa.int64()), (DELETED, pa.bool_())]
)
_ORDERS = pa.schema(
    [("customer", pa.int64()), ("id", pa.int64()), ("price", pa.int64()), (DELETED, pa.bool_())]
)
_CUSTOMERS = pa.schema([("customer", pa.int64()), ("city", pa.int64()), (DELETED, pa.bool_())])


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work a run does."""

    rounds: int
    batches: int
    pairs: int
    """Events of each stream in a batch, a minute long, and a fifth as many keys."""

    table: int
    """Rows of the table that is looked up in."""

    lookups: int
    orders: int
    """Rows of the table that is joined with a table; a quarter as many customers."""


FULL = Scale(3, 4, 100_000, 1_000_000, 200_000, 400_000)
QUICK = Scale(1, 4, 20_000, 20_000, 10_000, 10_000)


def fill_pairs(files: Batches, scale: Scale, count: int) -> None:
    """Two streams of events, each with the same keys equally often in every minute."""
    chance = np.random.default_rng(7)
    for number in range(count):
        for side, offset in ((LEFT, 0), (RIGHT, scale.pairs // 2)):
            keys = keys_of(number + offset, scale.pairs, scale.pairs // 5)
            values = pa.array(chance.integers(0, 1000, scale.pairs))
            at = times_of(number, scale.pairs, chance)
            files.write(pa.Table.from_arrays([keys, values, at], schema=_EVENTS), side)


def fill_lookups(files: Batches, scale: Scale, count: int) -> None:
    """A table that is whole after the first batch and then changes a little, and events."""
    chance = np.random.default_rng(7)
    for number in range(count):
        everybody = np.arange(scale.table)
        some = everybody if not number else chance.choice(everybody, scale.table // 100, False)
        people = [
            pa.array(some),
            pa.array([f"person {each}" for each in some]),
            pa.array(some % 1000 + number),
            pa.array(np.zeros(len(some), np.bool_)),
        ]
        files.write(pa.Table.from_arrays(people, schema=_PEOPLE), "table")
        keys = pa.array(chance.integers(0, scale.table, scale.lookups))
        files.write(pa.table({"k": keys, "v": pa.array(np.arange(scale.lookups))}), "events")


def fill_tables(files: Batches, scale: Scale, count: int) -> int:
    """Orders and their customers, all of them at first, then changes of a part of each.

    Returns how many rows of both change with each batch.
    """
    chance = np.random.default_rng(7)
    customers = scale.orders // 4
    changes = scale.orders // 4, customers // 50
    for number in range(count):
        ids, people = np.arange(scale.orders), np.arange(customers)
        if number:
            ids = chance.choice(ids, changes[0], False)
            people = chance.choice(people, changes[1], False)
        orders = [ids % customers, ids, ids + number, np.zeros(len(ids), np.bool_)]
        files.write(pa.Table.from_arrays([*map(pa.array, orders)], schema=_ORDERS), LEFT)
        cities = [people, people % 100 + number, np.zeros(len(people), np.bool_)]
        files.write(pa.Table.from_arrays([*map(pa.array, cities)], schema=_CUSTOMERS), RIGHT)
    return sum(changes)


def pairs(files: Batches, spark: SparkSession, side: str, how: str = "inner") -> DataFrame:
    """Each left event with the right ones of the next ten seconds."""
    left, right = files.stream(spark, LEFT), files.stream(spark, RIGHT)
    if side == HEADRACE:
        described = Side(_EVENTS, ("k",), "at")
        operator = WithinJoin("join", described, described, how, 0, 10 * SECOND)
        inputs = {LEFT: Input(left, ("k",)), RIGHT: Input(right, ("k",))}
        return keyed(
            inputs, operator, flow="benchmark", watermark=LatestTime((LEFT, RIGHT))
        ).output("main")
    if side == NATIVE:
        ours = left.withWatermark("at", DELAY)
        theirs = right.select("k", *(F.col(each).alias(f"{each}_right") for each in ("v", "at")))
        theirs = theirs.withColumnRenamed("k", "k_right").withWatermark("at_right", DELAY)
        close = "k = k_right and at_right >= at and at_right <= at + interval 10 seconds"
        return ours.join(theirs, F.expr(close), {"left": "left_outer"}.get(how, how))
    both = [rows.withColumn("side", F.lit(name)) for name, rows in ((LEFT, left), (RIGHT, right))]
    schema = "k bigint, v bigint, at double, v_right bigint, at_right double"
    events = both[0].unionByName(both[1]).withWatermark("at", DELAY)
    return events.groupBy("k").transformWithState(PairsByRow(), schema, "append", "EventTime")


def lookups(files: Batches, spark: SparkSession, side: str) -> DataFrame:
    """Each event with its row of the table."""
    events, table = files.stream(spark), files.stream(spark, "table")
    if side == HEADRACE:
        schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
        operator = Lookup("lookup", Side(schema, ("k",), None), _PEOPLE, ("k",), {"k": "k"})
        inputs = {"events": Input(events, ("k",)), "table": Input(table, ("k",))}
        return keyed(inputs, operator, flow="benchmark").output("main")
    both = events.unionByName(table.drop(DELETED), allowMissingColumns=True)
    schema = "k bigint, v bigint, name string, city bigint"
    return both.groupBy("k").transformWithState(EnrichmentByRow(), schema, "append", "None")


def table_join(files: Batches, spark: SparkSession, side: str) -> DataFrame:
    """Each order with its customer's city, again whenever one of them has changed."""
    orders, customers = files.stream(spark, LEFT), files.stream(spark, RIGHT)
    if side == HEADRACE:
        left = TableSide(_ORDERS, ("customer", "id"), ("customer",))
        right = TableSide(_CUSTOMERS, ("customer",), ("customer",))
        inputs = {LEFT: Input(orders, ("customer",)), RIGHT: Input(customers, ("customer",))}
        return keyed(inputs, TableJoin("join", left, right), flow="benchmark").output("main")
    both = orders.drop(DELETED).unionByName(customers.drop(DELETED), allowMissingColumns=True)
    schema = "customer bigint, id bigint, price bigint, city bigint"
    return both.groupBy("customer").transformWithState(TableJoinByRow(), schema, "append", "None")


def experiments(spark: SparkSession, scale: Scale) -> list[Experiment]:
    """Rates of each kind of join, against each of the others."""
    joined, outer = partial(_pairs, spark, scale, "inner"), partial(_pairs, spark, scale, "left")
    return [
        _rates("joins_pairs_native", joined, NATIVE, 0.8, scale.rounds),
        _rates("joins_left_native", outer, NATIVE, None, scale.rounds),
        _rates("joins_pairs_tws", joined, PER_KEY, 10.0, 1),
        _rates("joins_lookup_tws", partial(_lookups, spark, scale), PER_KEY, 10.0, 1),
        _rates("joins_tables_tws", partial(_tables, spark, scale), PER_KEY, None, 1),
    ]


def main() -> None:
    """Run the benchmark from the command line."""
    options = Options.parse("Joins beside Spark's own.")
    with command(), session() as spark:
        run("joins", experiments(spark, QUICK if options.quick else FULL), options)


def _rates(
    metric: str, measure: Callable[[str], Figures], peer: str, target: float | None, rounds: int
) -> Experiment:
    row = report.Row(metric, "rows/s", Better.HIGHER, _RATE, HEADRACE, peer, target)
    sides = {side: partial(measure, side) for side in (HEADRACE, peer)}
    return Experiment(metric, sides, (row,), rounds, warm_up=0 if rounds == 1 else 1)


def _pairs(spark: SparkSession, scale: Scale, how: str, side: str) -> Figures:
    with batches() as files:
        fill_pairs(files, scale, _count(scale, side))
        took = files.run(pairs(files, spark, side, how), _mode(side))
    return {_RATE: rate(2 * scale.pairs, took)}


def _lookups(spark: SparkSession, scale: Scale, side: str) -> Figures:
    with batches() as files:
        fill_lookups(files, scale, _count(scale, side))
        took = files.run(lookups(files, spark, side), _mode(side))
    return {_RATE: rate(scale.lookups, took)}


def _tables(spark: SparkSession, scale: Scale, side: str) -> Figures:
    with batches() as files:
        changed = fill_tables(files, scale, _count(scale, side))
        took = files.run(table_join(files, spark, side), _mode(side))
    return {_RATE: rate(changed, took)}


def _count(scale: Scale, side: str) -> int:
    """What takes minutes for a batch gets two: one to begin with, one that counts."""
    return 2 if side == PER_KEY else scale.batches


def _mode(side: str) -> str:
    return "update" if side == HEADRACE else "append"


if __name__ == "__main__":
    main()
