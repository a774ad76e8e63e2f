"""What a stream leaves out, counted where it is read and added up where the query runs.

Tasks run in other processes, and a data source has no way to tell a number but in its rows. So a
task that skipped something ends with a row that says how much, Spark adds those up as an observed
metric of the batch, and the rows go no further. A batch's numbers come with its progress, when it
is finished: an attempt that fails counts for nothing, and its repetition once.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.streams.plan import CONTROL
from headrace.streams.source.columns import COUNTS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress

_METRIC: Final = "headrace.skipped."
_ROWS: Final = "_rows"


def skips(options: Mapping[str, str]) -> bool:
    """Whether a source with these options leaves out anything; others fail instead."""
    return "skip" in (options.get("on_error"), options.get("on_gap"))


def counted(rows: "DataFrame") -> "DataFrame":
    """The rows alone, with what was skipped beside them as a metric of their query."""
    from uuid import uuid4

    from pyspark.sql.functions import count
    from pyspark.sql.functions import sum as total

    counts = [total(name).alias(name) for name in COUNTS]
    said = count(COUNTS[0])
    if CONTROL in rows.columns:
        said = said + count(CONTROL)
    counts.append(said.alias(_ROWS))
    # Two reads of a query must not have metrics of the same name.
    observed = rows.observe(f"{_METRIC}{uuid4().hex}", *counts)
    return observed.where(" and ".join(f"{name} is null" for name in COUNTS)).drop(*COUNTS)


def counted_implausible(rows: "DataFrame", number: "Column") -> "DataFrame":
    """The rows, with the sum of a column as what the clocks of a batch were implausible."""
    from uuid import uuid4

    from pyspark.sql.functions import lit
    from pyspark.sql.functions import sum as total

    if not rows.isStreaming:
        return rows
    *others, counted = COUNTS
    nothing = [total(lit(0)).alias(name) for name in (*others, _ROWS)]
    return rows.observe(f"{_METRIC}{uuid4().hex}", total(number).alias(counted), *nothing)


class Skipped(NamedTuple):
    """What the tasks of a batch left out."""

    rejected: int = 0
    """Records that did not parse."""

    lost: int = 0
    """Offsets whose records were gone when a task came to them."""

    implausible: int = 0
    """Events whose time was too far ahead of the clock to count for the watermark."""

    rows: int = 0
    """The rows that said so, which Spark takes for rows of the source."""


def skipped(progress: "StreamingQueryProgress") -> Skipped:
    """What was skipped in a batch, all its sources together."""
    found = [row for name, row in progress.observedMetrics.items() if name.startswith(_METRIC)]
    return Skipped(*(sum(row[name] or 0 for row in found) for name in (*COUNTS, _ROWS)))
