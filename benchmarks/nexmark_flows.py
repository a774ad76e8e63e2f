"""The queries of Nexmark as flows, with Headrace's source and operators."""

from collections.abc import Mapping
from typing import Final

from headrace.streams import Stream, Table
from headrace.streams.rows import Rows
from headrace.streams.windows import hopping, session, tumbling

PEOPLE: Final = "people"
AUCTIONS: Final = "auctions"
BIDS: Final = "bids"
SIDE: Final = "side"

WAIT: Final = "1 second"
"""How much out of order events may be; they are not, but nobody knows."""

LONGEST: Final = "20 seconds"
"""How long an auction is open, at most."""

TEN_SECONDS: Final = "10 seconds"

Streams = Mapping[str, Stream]


def bids(on: Streams) -> Rows:
    """Query 0: all bids as they are."""
    return on[BIDS].select("auction", "bidder", "price", "at")


def converted(on: Streams) -> Rows:
    """Query 1: bids in another currency."""
    return on[BIDS].select("auction", "bidder", "at", price="price * 0.908D")


def chosen(on: Streams) -> Rows:
    """Query 2: bids on some auctions."""
    return on[BIDS].where("auction % 123 = 0").select("auction", "price")


def local_sellers(on: Streams) -> Rows:
    """Query 3: who sells in category 10 in Oregon, Idaho or California, whoever comes first."""
    people = on[PEOPLE].where("state in ('OR', 'ID', 'CA')").select("id", "name", "city", "state")
    offers = on[AUCTIONS].where("category = 10").select("seller", auction="id")
    # An auction stays its seller's, so that it need not be remembered whose it was.
    sold = offers.table(key=("seller", "auction"))
    return sold.join(people.table(key="id"), on={"seller": "id"})


def average_prices(on: Streams) -> Rows:
    """Query 4: the average winning bid of each category."""
    return _winning_bids(on).group_by("category").agg(price="avg(price)")


def hot_items(on: Streams) -> Rows:
    """Query 5: of the last 10 seconds, every 2 seconds: the auction with the most bids."""
    windows = on[BIDS].window(hopping(TEN_SECONDS, "2 seconds"))
    best = windows.agg(best="top_k(auction, 1, 100000)")
    return best.select("window_start", "window_end", auction="best[0].value", n="best[0].count")


def average_of_sellers(on: Streams) -> Rows:
    """Query 6: the average winning bid of the last ten auctions of each seller."""
    last = _winning_bids(on).top(10, by="seller", order=("expires desc", "id desc"))
    return last.group_by("seller").agg(price="avg(price)")


def highest_bids(on: Streams) -> Rows:
    """Query 7: of every 10 seconds: the highest bid."""
    return (
        on[BIDS]
        .window(tumbling(TEN_SECONDS))
        .agg(price="max(price)", auction="max_by(auction, price)", bidder="max_by(bidder, price)")
    )


def new_sellers(on: Streams) -> Rows:
    """Query 8: who opened an account and an auction in the same 10 seconds."""
    offers = on[AUCTIONS].window(tumbling(TEN_SECONDS), by="seller").agg(offers="count(*)")
    accounts = on[PEOPLE].with_columns(begin="window(at, '10 seconds').start")
    return accounts.join(
        offers.changes(), on={"id": "seller", "begin": "window_start"}, within=("0 s", TEN_SECONDS)
    ).select("id", "name", window_start="begin")


def winning_bids(on: Streams) -> Rows:
    """Query 9: the winning bid of each auction."""
    return _winning_bids(on)


def sessions(on: Streams) -> Rows:
    """Query 11: bids of each bidder until 10 seconds of silence."""
    return on[BIDS].window(session(TEN_SECONDS), by="bidder").agg(n="count(*)")


def processed(on: Streams) -> Rows:
    """Query 12: bids of each bidder in 10 seconds of processing time, as they become more."""
    windows = on[BIDS].window(tumbling(TEN_SECONDS), by="bidder", time="processing", emit="updates")
    return windows.agg(n="count(*)")


def enriched(on: Streams) -> Rows:
    """Query 13: bids with what a table that does not change says of them."""
    keyed = on[BIDS].with_columns(key="auction % 10000")
    return keyed.lookup(on[SIDE].table(key="key"), on="key", how="inner")


def _winning_bids(on: Streams) -> Table:
    """Of each auction that is over, the highest bid while it was open, and of equal ones the first.

    What is bid on an auction is one session, since no auction is open for longer than its gap.
    """
    offered = on[AUCTIONS].join(
        on[BIDS],
        on={"id": "auction"},
        within=("0 s", LONGEST),
        condition="at_right <= expires",
    )
    soonest = "price * 100000 - (unix_millis(at_right) - unix_millis(at))"
    return offered.window(session(LONGEST), by=("id", "category", "seller", "expires")).agg(
        price="max(price)", bidder=f"max_by(bidder, {soonest})"
    )
