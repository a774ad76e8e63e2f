"""State that operators keep by key between batches, in columnar buckets.

`operator` is what one writes: a description and a function over whole columns. `keyed` runs it on
Spark: `packing` makes one blob of the rows of a task for a bucket, Spark shuffles the few blobs,
`processor` hands them to `bucket`, and what the operator says is unpacked again. In a bucket,
`table` is what the operator sees, `runs` how rows lie in memory, `record`, `chunks` and `merging`
how they are stored, and `cache` what a worker remembers. `watermarks` is how time travels with the
rows; `inspecting` reads the state of a checkpoint.
"""

from headrace.streams.state.budget import Limits
from headrace.streams.state.errors import (
    InvalidOperator,
    StateError,
    StateMismatch,
    StateTooLarge,
)
from headrace.streams.state.operator import Description, Kept, Operator, State
from headrace.streams.state.watermarks import Watermark

__all__ = [
    "Description",
    "InvalidOperator",
    "Kept",
    "Limits",
    "Operator",
    "State",
    "StateError",
    "StateMismatch",
    "StateTooLarge",
    "Watermark",
]
