"""Aggregates: how the events of a window become a value.

Read `protocol` for what an aggregate is and how to write one; then `sums`, `extremes` and
`collecting`, which are exact, and `hyperloglog`, `kll` and `bloom`, which are not and say by how
much. `functions` has their names in SQL.
"""

from headrace.streams.windows.aggregates.bloom import contains
from headrace.streams.windows.aggregates.errors import AggregateOverflow, InvalidAggregate
from headrace.streams.windows.aggregates.functions import FUNCTIONS
from headrace.streams.windows.aggregates.protocol import Aggregate, Applied, Windows

__all__ = [
    "FUNCTIONS",
    "Aggregate",
    "AggregateOverflow",
    "Applied",
    "InvalidAggregate",
    "Windows",
    "contains",
]
