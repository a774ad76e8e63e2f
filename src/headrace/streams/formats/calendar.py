"""The times that there are: the years 1 to 9999, which Python and Spark agree on.

Arrow holds others too, and casts some of them to nonsense, or fails with all that are beside them.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from headrace.streams.formats.decoding import Reasons
from headrace.streams.formats.kernels.times import EARLIEST_DAY, LATEST_DAY

_PER_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}


def beyond_calendar(times: pa.Array, path: str) -> Reasons:
    """Which of some timestamps or dates are no times, and why."""
    kind = times.type
    if pa.types.is_date32(kind):
        unit, per_day, numbers = "days", 1, times.view(pa.int32())
    elif pa.types.is_timestamp(kind) and kind.unit in _PER_DAY:
        unit, per_day, numbers = kind.unit, _PER_DAY[kind.unit], times.view(pa.int64())
    else:
        return {}
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    beyond = (values < EARLIEST_DAY * per_day) | (values >= (LATEST_DAY + 1) * per_day)
    return {
        row: f"{path}: {values[row]} {unit} from 1970 is not in the years 1 to 9999"
        for row in np.flatnonzero(beyond).tolist()
    }
