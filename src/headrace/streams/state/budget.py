"""What a worker may spend on state, and what is said before it is spent."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from headrace.streams.state.blobs import to_polars
from headrace.streams.state.errors import StateTooLarge
from headrace.streams.state.table import StateTable

_NAMED = 5
"""How many of the biggest keys an error names."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much state there may be, and where it lies; all in bytes."""

    bucket: int = 4 << 30
    """Of one bucket, as stored. More is an error that names the biggest keys."""

    memory: int = 512 << 20
    """Decoded state that a worker process keeps in its memory. More lies in mapped files."""

    chunk: int = 4 << 20
    """One piece of a bucket: what is read, written and merged at a time."""


def check_budget(stored: int, limits: Limits, whose: str, tables: Mapping[str, StateTable]) -> None:
    """Raise StateTooLarge if a bucket has outgrown its budget; `whose` it is begins the message."""
    if stored <= limits.bucket:
        return
    raise StateTooLarge(
        f"{whose}: the state of one bucket is {_megabytes(stored)} and "
        f"may be {_megabytes(limits.bucket)}. {_biggest(tables)} Let state expire sooner, key by "
        "something finer, rebuild with more [streams] partitions, or raise [streams] state_limit "
        "if the disk has room."
    )


def _biggest(tables: Mapping[str, StateTable]) -> str:
    name, table = max(tables.items(), key=lambda each: len(each[1]))
    key = list(table.kept.key)
    columns = [
        pa.Table.from_batches(run.batches, table.kept.schema).select(key).filter(pa.array(run.live))
        for run in table.runs
    ]
    counts = (
        to_polars(pa.concat_tables(columns))
        .group_by(key)
        .agg(pl.len().alias("rows"))
        .sort(["rows", *key], descending=[True, *([False] * len(key))])
        .head(_NAMED)
    )
    if not counts.height or counts["rows"][0] == 1:
        return f"No key stands out: table {name} has {len(table):,} rows, each of another key."
    named = [f"{', '.join(map(str, each[:-1]))} ({each[-1]:,} rows)" for each in counts.iter_rows()]
    return f"The biggest keys of table {name} are {'; '.join(named)}, of {len(table):,} rows."


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MB"
