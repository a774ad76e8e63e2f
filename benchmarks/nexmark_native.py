"""The queries of Nexmark as native Spark has them.

An average of averages that change is beyond what Spark's own operators do on streams, so queries 4
and 6 end in a Python `transformWithState`; all that is in front of it is Spark's own.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks.nexmark_flows import AUCTIONS, BIDS, LONGEST, PEOPLE, SIDE, TEN_SECONDS, WAIT

Frames = Mapping[str, DataFrame]


def bids(on: Frames) -> DataFrame:
    """Query 0."""
    return on[BIDS]


def converted(on: Frames) -> DataFrame:
    """Query 1."""
    return on[BIDS].selectExpr("auction", "bidder", "at", "price * 0.908D as price")


def chosen(on: Frames) -> DataFrame:
    """Query 2."""
    return on[BIDS].where("auction % 123 = 0").select("auction", "price")


def local_sellers(on: Frames) -> DataFrame:
    """Query 3."""
    people = on[PEOPLE].where("state in ('OR', 'ID', 'CA')").alias("p")
    offers = on[AUCTIONS].where("category = 10").alias("a")
    joined = offers.join(people, F.expr("a.seller = p.id"))
    return joined.select("p.name", "p.city", "p.state", F.col("a.id").alias("auction"))


def average_prices(on: Frames) -> DataFrame:
    """Query 4."""
    return (
        winning_bids(on)
        .groupBy("category")
        .transformWithState(Averaging(), "category bigint, price double", "append", "None")
    )


def hot_items(on: Frames) -> DataFrame:
    """Query 5."""
    windows = F.window("at", TEN_SECONDS, "2 seconds")
    counted = _timed(on[BIDS]).groupBy(windows, "auction").agg(F.count("*").alias("n"))
    best = F.min_by(F.struct("auction", "n"), F.struct(-F.col("n"), F.col("auction")))
    found = counted.groupBy("window").agg(best.alias("best"))
    return _window(found.select("window", "best.*"))


def average_of_sellers(on: Frames) -> DataFrame:
    """Query 6."""
    return (
        winning_bids(on)
        .groupBy("seller")
        .transformWithState(AveragingLast(), "seller bigint, price double", "append", "None")
    )


def highest_bids(on: Frames) -> DataFrame:
    """Query 7."""
    windows = _timed(on[BIDS]).groupBy(F.window("at", TEN_SECONDS))
    best = {each: F.max_by(each, "price").alias(each) for each in ("auction", "bidder")}
    return _window(windows.agg(*best.values(), F.max("price").alias("price")))


def new_sellers(on: Frames) -> DataFrame:
    """Query 8: a row for each new person with an auction in the window, however many auctions."""
    offers, accounts = (
        _timed(on[kind]).withColumn("w", F.window("at", TEN_SECONDS)) for kind in (AUCTIONS, PEOPLE)
    )
    offers = offers.groupBy("w", "seller").agg(F.count("*").alias("auctions")).alias("o")
    joined = offers.join(accounts.alias("p"), F.expr("o.seller = p.id and o.w = p.w"))
    return joined.selectExpr("p.id as id", "p.name as name", "p.w.start as window_start")


def winning_bids(on: Frames) -> DataFrame:
    """Query 9."""
    offers, made = _timed(on[AUCTIONS]).alias("a"), _timed(on[BIDS]).alias("b")
    # The last part says nothing new, but is what lets Spark forget auctions.
    open_then = "b.at between a.at and a.expires and b.at <= a.at + interval " + LONGEST
    joined = offers.join(made, F.expr(f"a.id = b.auction and {open_then}"))
    columns = ("a.id", "a.category", "a.seller", "a.expires", "b.bidder", "b.price", "b.at")
    sold = joined.select(*columns).groupBy(
        F.session_window("at", LONGEST), "id", "category", "seller", "expires"
    )
    first = F.struct(F.col("price"), -F.unix_millis("at"), F.col("bidder"))
    best = F.max_by(F.struct("bidder", "price"), first)
    return sold.agg(best.alias("best")).select("id", "category", "seller", "expires", "best.*")


def sessions(on: Frames) -> DataFrame:
    """Query 11."""
    gaps = F.session_window("at", TEN_SECONDS).alias("window")
    return _window(_timed(on[BIDS]).groupBy(gaps, "bidder").agg(F.count("*").alias("n")))


def processed(on: Frames) -> DataFrame:
    """Query 12."""
    read = on[BIDS].withColumn("read", F.current_timestamp()).withWatermark("read", "0 seconds")
    windows = read.groupBy(F.window("read", TEN_SECONDS), "bidder")
    return _window(windows.agg(F.count("*").alias("n")))


def enriched(on: Frames) -> DataFrame:
    """Query 13, with a table that lies in memory and is sent to all tasks."""
    keyed = on[BIDS].withColumn("key", F.expr("auction % 10000"))
    return keyed.join(F.broadcast(on[SIDE].cache()), "key")


class Averaging(StatefulProcessor):
    """The average of all prices of a key."""

    def init(self, handle: Any) -> None:
        """Called once per task."""
        self._sum = handle.getValueState("sum", "total bigint, n bigint")

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[Row], timer_values: Any
    ) -> Iterator[Row]:
        """Called once per key."""
        total, count = self._sum.get() or (0, 0)
        for row in rows:
            total, count = total + row["price"], count + 1
        self._sum.update((total, count))
        yield Row(category=key[0], price=total / count)

    def close(self) -> None:
        """Nothing is held."""


class AveragingLast(StatefulProcessor):
    """The average price of the last ten auctions of a key."""

    def init(self, handle: Any) -> None:
        """Called once per task."""
        self._last = handle.getListState("last", "expires double, id bigint, price bigint")

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[Row], timer_values: Any
    ) -> Iterator[Row]:
        """Called once per key."""
        known = [tuple(each) for each in self._last.get()]
        known += [(row["expires"].timestamp(), row["id"], row["price"]) for row in rows]
        last = sorted(known)[-10:]
        self._last.put(last)
        yield Row(seller=key[0], price=sum(price for _, _, price in last) / len(last))

    def close(self) -> None:
        """Nothing is held."""


def _timed(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("at", WAIT)


def _window(rows: DataFrame) -> DataFrame:
    """A window of Spark's as the two columns that ours has."""
    bounds = {"window_start": F.col("window.start"), "window_end": F.col("window.end")}
    return rows.withColumns(bounds).drop("window")
