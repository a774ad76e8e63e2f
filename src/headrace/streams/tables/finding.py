"""Rows of state by their whole identity, where a key alone has too many of them.

A table of state is looked up by key, which reads all rows of it: the follows of a celebrity, the
prices of a category. A change of one row must not cost that.
"""

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from headrace.streams.state.blobs import to_arrow, to_polars
from headrace.streams.state.runs import Identities

if TYPE_CHECKING:
    from headrace.streams.state.table import StateTable


def found(table: "StateTable", rows: pl.DataFrame) -> pl.DataFrame:
    """The stored rows with the identities of these rows, in an order that only they decide.

    What this batch has written is not among them: ask first, write then.
    """
    kept = table.kept
    identity = pa.schema([kept.schema.field(name) for name in kept.identity])
    wanted = Identities.of(to_arrow(rows, identity), kept).sorted_set()
    identities: list[Identities] = []
    parts = [kept.schema.empty_table()]
    for run in table.runs:
        positions = run.identities.find(wanted)
        positions = positions[positions >= 0]
        positions = positions[run.live[positions]]
        if len(positions):
            identities.append(run.identities.at(positions))
            parts.append(run.take(positions))
    if not identities:
        return to_polars(parts[0])
    order = Identities.joined(identities).order()
    return to_polars(pa.concat_tables(parts).combine_chunks().take(pa.array(order)))
