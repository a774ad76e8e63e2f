"""The queries of Nexmark, each three times: as a flow, as native Spark, and in Polars as the truth.

| | |
|---|---|
| 0 | all bids as they are |
| 1 | bids in another currency |
| 2 | bids on some auctions |
| 3 | who sells in category 10 in Oregon, Idaho or California |
| 5 | of the last 10 seconds, every 2 seconds: the auction with the most bids |
| 7 | of every 10 seconds: the highest bid |
| 8 | who opened an account and an auction in the same 10 seconds |
| 11 | bids of each bidder until 10 seconds of silence |

Not here: query 4 joins bids to auctions and averages what changes; a join of Headrace's own is yet
to come, and native Spark cannot aggregate an aggregate that is updated. Query 12 has windows of
processing time, which Headrace does not have yet. Queries 3 and 8 are joins, too: as flows they
read with Headrace's source and are joined by Spark, inside of `pipe`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.auctions import Events
from headrace.streams import Stream
from headrace.streams.windows import hopping, session, tumbling

PEOPLE: Final = "people"
AUCTIONS: Final = "auctions"
BIDS: Final = "bids"
SCHEMAS: Final = {
    PEOPLE: "id bigint, name string, city string, state string, at timestamp",
    AUCTIONS: "id bigint, seller bigint, category bigint, expires timestamp, at timestamp",
    BIDS: "auction bigint, bidder bigint, price bigint, at timestamp",
}
WAIT: Final = "1 second"
"""How much out of order events may be; they are not, but nobody knows."""

_CHOSEN_STATES: Final = ("OR", "ID", "CA")
_TEN_SECONDS: Final = "10 seconds"

Streams = Mapping[str, Stream]
Frames = Mapping[str, DataFrame]


@dataclass(frozen=True, slots=True)
class Query:
    """One query in its three forms; what is expected has the columns that are compared."""

    reads: tuple[str, ...]
    flow: Callable[[Streams], DataFrame]
    native: Callable[[Frames], DataFrame]
    expected: Callable[[Events], pl.DataFrame]


def _window(rows: DataFrame) -> DataFrame:
    """A window of Spark's as the two columns that ours has."""
    bounds = {"window_start": F.col("window.start"), "window_end": F.col("window.end")}
    return rows.withColumns(bounds).drop("window")


def _local_sellers(auctions: DataFrame, people: DataFrame) -> DataFrame:
    chosen = people.where(F.col("state").isin(*_CHOSEN_STATES)).alias("p")
    joined = auctions.where("category = 10").alias("a").join(chosen, F.expr("a.seller = p.id"))
    return joined.select("p.name", "p.city", "p.state", F.col("a.id").alias("auction"))


def _new_sellers(auctions: DataFrame, people: DataFrame) -> DataFrame:
    """Per window a row for each new person with an auction in it, however many auctions."""
    late = [each.withWatermark("at", WAIT) for each in (auctions, people)]
    offers, accounts = (each.withColumn("w", F.window("at", _TEN_SECONDS)) for each in late)
    offers = offers.groupBy("w", "seller").agg(F.count("*").alias("auctions")).alias("o")
    same = F.expr("o.seller = p.id and o.w = p.w")
    joined = offers.join(accounts.alias("p"), same)
    return joined.selectExpr("p.id as id", "p.name as name", "p.w.start as window_start")


def _hot_items(bids: DataFrame) -> DataFrame:
    windows = F.window("at", _TEN_SECONDS, "2 seconds")
    counted = (
        bids.withWatermark("at", WAIT).groupBy(windows, "auction").agg(F.count("*").alias("n"))
    )
    made = counted.groupBy("window").agg(F.max_by("auction", "n").alias("auction"), F.max("n"))
    return _window(made.withColumnRenamed("max(n)", "n"))


def _highest_bids(bids: DataFrame) -> DataFrame:
    windows = bids.withWatermark("at", WAIT).groupBy(F.window("at", _TEN_SECONDS))
    chosen = {each: F.max_by(each, "price").alias(each) for each in ("auction", "bidder")}
    return _window(windows.agg(*chosen.values(), F.max("price").alias("price")))


def _sessions(bids: DataFrame) -> DataFrame:
    windows = bids.withWatermark("at", WAIT).groupBy(
        F.session_window("at", _TEN_SECONDS).alias("window"), "bidder"
    )
    return _window(windows.agg(F.count("*").alias("n")))


def _expected_hot_items(found: Events) -> pl.DataFrame:
    starts = [pl.col("at").dt.truncate("2s").dt.offset_by(f"-{back}s") for back in range(0, 10, 2)]
    every = found.bids.select("auction", pl.concat_list(starts).alias("at")).explode("at")
    windows = every.group_by("at", "auction").agg(pl.len().cast(pl.Int64).alias("n"))
    # Which of several auctions with the most bids is named is nobody's business.
    best = windows.group_by("at").agg(pl.col("n").max())
    return best.select(
        pl.col("at").alias("window_start"),
        pl.col("at").dt.offset_by("10s").alias("window_end"),
        "n",
    )


def _expected_highest_bids(found: Events) -> pl.DataFrame:
    return (
        found.bids.group_by_dynamic("at", every="10s")
        .agg(pl.col("price").max(), pl.col("auction", "bidder").sort_by("price").last())
        .select(
            pl.col("at").alias("window_start"),
            pl.col("at").dt.offset_by("10s").alias("window_end"),
            "auction",
            "bidder",
            "price",
        )
    )


def _expected_sessions(found: Events) -> pl.DataFrame:
    begins = pl.col("at").diff().over("bidder").fill_null(pl.duration(days=1)) >= pl.duration(
        seconds=10
    )
    numbered = found.bids.sort("at", maintain_order=True).with_columns(
        begins.cum_sum().over("bidder").alias("session")
    )
    made = numbered.group_by("bidder", "session").agg(
        pl.col("at").min().alias("window_start"),
        pl.col("at").max().dt.offset_by("10s").alias("window_end"),
        pl.len().cast(pl.Int64).alias("n"),
    )
    return made.select("window_start", "window_end", "bidder", "n")


def _expected_local_sellers(found: Events) -> pl.DataFrame:
    people = found.people.filter(pl.col("state").is_in(_CHOSEN_STATES))
    joined = found.auctions.filter(pl.col("category") == 10).join(
        people, left_on="seller", right_on="id"
    )
    return joined.select("name", "city", "state", pl.col("id").alias("auction"))


def _expected_new_sellers(found: Events) -> pl.DataFrame:
    window = pl.col("at").dt.truncate("10s").alias("window_start")
    people = found.people.select("id", "name", window)
    offers = found.auctions.select(pl.col("seller").alias("id"), window).unique()
    return people.join(offers, on=["id", "window_start"]).select("id", "name", "window_start")


QUERIES: Final[Mapping[str, Query]] = {
    "q0": Query(
        (BIDS,),
        lambda on: on[BIDS].select("auction", "bidder", "price", "at").df,
        lambda on: on[BIDS],
        lambda found: found.bids,
    ),
    "q1": Query(
        (BIDS,),
        lambda on: on[BIDS].select("auction", "bidder", "at", price="price * 0.908D").df,
        lambda on: on[BIDS].selectExpr("auction", "bidder", "at", "price * 0.908D as price"),
        lambda found: found.bids.select("auction", "bidder", "at", pl.col("price") * 0.908),
    ),
    "q2": Query(
        (BIDS,),
        lambda on: on[BIDS].where("auction % 123 = 0").select("auction", "price").df,
        lambda on: on[BIDS].where("auction % 123 = 0").select("auction", "price"),
        lambda found: found.bids.filter(pl.col("auction") % 123 == 0).select("auction", "price"),
    ),
    "q3": Query(
        (AUCTIONS, PEOPLE),
        lambda on: on[AUCTIONS].pipe(lambda rows: _local_sellers(rows, on[PEOPLE].df)).df,
        lambda on: _local_sellers(on[AUCTIONS], on[PEOPLE]),
        _expected_local_sellers,
    ),
    "q5": Query(
        (BIDS,),
        lambda on: (
            on[BIDS]
            .window(hopping(_TEN_SECONDS, "2 seconds"))
            .agg(best="top_k(auction, 1, 100000)")
            .select("window_start", "window_end", auction="best[0].value", n="best[0].count")
            .df
        ),
        lambda on: _hot_items(on[BIDS]),
        _expected_hot_items,
    ),
    "q7": Query(
        (BIDS,),
        lambda on: (
            on[BIDS]
            .window(tumbling(_TEN_SECONDS))
            .agg(
                price="max(price)",
                auction="max_by(auction, price)",
                bidder="max_by(bidder, price)",
            )
            .df
        ),
        lambda on: _highest_bids(on[BIDS]),
        _expected_highest_bids,
    ),
    "q8": Query(
        (AUCTIONS, PEOPLE),
        lambda on: on[AUCTIONS].pipe(lambda rows: _new_sellers(rows, on[PEOPLE].df)).df,
        lambda on: _new_sellers(on[AUCTIONS], on[PEOPLE]),
        _expected_new_sellers,
    ),
    "q11": Query(
        (BIDS,),
        lambda on: on[BIDS].window(session(_TEN_SECONDS), by="bidder").agg(n="count(*)").df,
        lambda on: _sessions(on[BIDS]),
        _expected_sessions,
    ),
}
