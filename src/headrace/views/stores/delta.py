"""A directory of Delta tables, which Spark writes.

Delta is written by transactions of whole tables, and what does that is a library for Spark. So a
flow hands it whole batches (`headrace.streams.sinks.delta`), and there are no sessions as other
stores have them.
"""

from dataclasses import dataclass

from headrace.views.stores.contract import Session
from headrace.views.stores.errors import StoreRefused


@dataclass(frozen=True, slots=True)
class DeltaStore:
    """Where the tables are: a directory, or anything that Spark can write to."""

    location: str

    def session(self) -> Session:
        """Always refused: without Spark nobody writes here."""
        raise StoreRefused(
            f"The Delta tables in {self.location} are written by Spark, in a flow (flow.sink). "
            "Without Spark, as here, copy to Parquet files or to DuckDB."
        )
