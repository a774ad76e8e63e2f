"""What the queries of Nexmark answer, in the SQL of DuckDB over all events at once.

Where several rows are equally good, the texts say which one is meant, so that there is one answer.
"""

from collections.abc import Mapping
from typing import Final

import duckdb
import polars as pl
from polars.testing import assert_frame_equal

from benchmarks.auctions import Events
from benchmarks.experiment import NothingMeasured

_WINNING_BIDS: Final = """
    with winning as (
        select a.id, a.category, a.seller, a.expires, b.bidder, b.price
        from auctions a join bids b on b.auction = a.id and b."at" between a."at" and a.expires
        qualify row_number() over (
            partition by a.id order by b.price desc, b."at", b.bidder desc
        ) = 1
    )
"""

TRUTH: Final[Mapping[str, str]] = {
    "q0": 'select auction, bidder, price, "at" from bids',
    "q1": 'select auction, bidder, "at", price * 0.908::double as price from bids',
    "q2": "select auction, price from bids where auction % 123 = 0",
    "q3": """
        select p.name, p.city, p.state, a.id as auction
        from auctions a join people p on p.id = a.seller
        where a.category = 10 and p.state in ('OR', 'ID', 'CA')
    """,
    "q4": f"{_WINNING_BIDS} select category, avg(price) as price from winning group by category",
    "q5": """
        with hops as (select auction, "at", unnest(range(5)) as back from bids),
        counted as (
            select time_bucket(interval '2 seconds', "at") - back * interval '2 seconds'
                as window_start, auction, count(*) as n
            from hops group by all
        )
        select window_start, window_start + interval '10 seconds' as window_end, auction, n
        from counted
        qualify row_number() over (partition by window_start order by n desc, auction) = 1
    """,
    "q6": f"""
        {_WINNING_BIDS},
        last as (
            select seller, price from winning
            qualify row_number() over (partition by seller order by expires desc, id desc) <= 10
        )
        select seller, avg(price) as price from last group by seller
    """,
    "q7": """
        select time_bucket(interval '10 seconds', "at") as window_start,
            window_start + interval '10 seconds' as window_end, auction, bidder, price
        from bids
        qualify row_number() over (
            partition by window_start order by price desc, auction desc, bidder desc
        ) = 1
    """,
    "q8": """
        with accounts as (
            select id, name, time_bucket(interval '10 seconds', "at") as window_start from people
        ),
        sellers as (
            select distinct seller as id, time_bucket(interval '10 seconds', "at") as window_start
            from auctions
        )
        select id, name, window_start from accounts join sellers using (id, window_start)
    """,
    "q9": f"{_WINNING_BIDS} select id, bidder, price from winning",
    "q11": """
        with marked as (
            select bidder, "at", lag("at") over (partition by bidder order by "at") as before,
                before is null or "at" - before > interval '10 seconds' as begins
            from bids
        ),
        numbered as (
            select bidder, "at", sum(begins::int) over (
                partition by bidder order by "at" rows unbounded preceding
            ) as session
            from marked
        )
        select min("at") as window_start, max("at") + interval '10 seconds' as window_end,
            bidder, count(*) as n
        from numbered group by bidder, session
    """,
    "q12": "select bidder, count(*) as n from bids group by bidder",
    "q13": """
        select b.auction, b.bidder, b.price, b."at", s.value
        from bids b join side s on s.key = b.auction % 10000
    """,
}
"""One text for each query. Of query 12, whose windows depend on when it is run, the sums of all."""


def compare(query: str, found: pl.DataFrame, events: Events, who: str) -> None:
    """Raise NothingMeasured if somebody's answer to a query is not the right one."""
    kinds = ("people", "auctions", "bids", "side")
    expected = answer(TRUTH[query], {kind: getattr(events, kind) for kind in kinds})
    found = without_zones(found).select(expected.columns).cast(expected.schema)
    try:
        assert_frame_equal(found, expected, check_row_order=False)
    except AssertionError as error:
        raise NothingMeasured(
            f"{who} says something else than DuckDB to {query}: {error}"
        ) from None


def answer(text: str, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """What DuckDB answers to a query over some tables."""
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, without_zones(rows).to_arrow())
        return pl.DataFrame(connection.sql(text).to_arrow_table())


def without_zones(rows: pl.DataFrame) -> pl.DataFrame:
    """The same moments, all of them in UTC."""
    return rows.with_columns(
        pl.col(name).dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        for name, kind in rows.schema.items()
        if isinstance(kind, pl.Datetime) and kind.time_zone is not None
    )
