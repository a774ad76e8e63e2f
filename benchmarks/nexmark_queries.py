"""The queries of Nexmark, each as a flow and as Spark has it; `nexmark_truth` has the answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from benchmarks import nexmark_flows as flows
from benchmarks import nexmark_native as native
from benchmarks.nexmark_flows import AUCTIONS, BIDS, PEOPLE, SIDE, Streams
from benchmarks.nexmark_native import Frames
from headrace.streams.rows import Rows

SCHEMAS: Final = {
    PEOPLE: "id bigint, name string, city string, state string, at timestamp",
    AUCTIONS: "id bigint, seller bigint, category bigint, expires timestamp, at timestamp",
    BIDS: "auction bigint, bidder bigint, price bigint, at timestamp",
    SIDE: "key bigint, value string",
}

NATIVE: Final = "native Spark"
HALF_NATIVE: Final = "Spark and transformWithState"

_AUCTIONS_AND_BIDS: Final = (AUCTIONS, BIDS)


@dataclass(frozen=True, slots=True)
class Query:
    """One query in two forms."""

    reads: tuple[str, ...]
    flow: Callable[[Streams], Rows]
    native: Callable[[Frames], DataFrame]
    key: tuple[str, ...] = ()
    """Columns of which the last row counts that is told, if results change."""

    told: str | None = None
    """SQL over the rows that are told, to make of them what is compared."""

    mode: str = "append"
    """In which native Spark runs it."""

    peer: str = NATIVE


QUERIES: Final[Mapping[str, Query]] = {
    "q0": Query((BIDS,), flows.bids, native.bids),
    "q1": Query((BIDS,), flows.converted, native.converted),
    "q2": Query((BIDS,), flows.chosen, native.chosen),
    "q3": Query((AUCTIONS, PEOPLE), flows.local_sellers, native.local_sellers, key=("auction",)),
    "q4": Query(
        _AUCTIONS_AND_BIDS,
        flows.average_prices,
        native.average_prices,
        key=("category",),
        peer=HALF_NATIVE,
    ),
    "q5": Query((BIDS,), flows.hot_items, native.hot_items),
    "q6": Query(
        _AUCTIONS_AND_BIDS,
        flows.average_of_sellers,
        native.average_of_sellers,
        key=("seller",),
        peer=HALF_NATIVE,
    ),
    "q7": Query((BIDS,), flows.highest_bids, native.highest_bids),
    "q8": Query((AUCTIONS, PEOPLE), flows.new_sellers, native.new_sellers),
    "q9": Query(_AUCTIONS_AND_BIDS, flows.winning_bids, native.winning_bids),
    "q11": Query((BIDS,), flows.sessions, native.sessions),
    "q12": Query(
        (BIDS,),
        flows.processed,
        native.processed,
        key=("window_start", "bidder"),
        told="select bidder, sum(n) as n from told where bidder <> 1 group by bidder",
        mode="update",
    ),
    "q13": Query((BIDS, SIDE), flows.enriched, native.enriched),
}
