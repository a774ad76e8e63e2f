"""Operators for tests: one that does what its events say, and a running count."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import polars as pl
import pyarrow as pa

from headrace.streams.state import Description, Kept, State

ROWS = pa.schema(
    [
        ("name", pa.string()),
        ("part", pa.int64()),
        ("at", pa.int64()),
        ("value", pa.string()),
    ]
)
SCRIPT = pa.schema([("action", pa.string()), *ROWS])
TABLES = {
    "rows": Kept(ROWS, key=("name",), row=("part",), time="at"),
    "names": Kept(
        pa.schema([("name", pa.string()), ("last", pa.int64())]),
        key=("name",),
        time="last",
        keep_for=10,
    ),
}


@dataclass(frozen=True)
class Scripted:
    """Writes and deletes what its events say; tells all rows of their names and what is due."""

    description: Description = field(
        default_factory=lambda: Description(
            "scripted", TABLES, {"looked_up": ROWS, "due": ROWS, "names": TABLES["names"].schema}
        )
    )

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        return events

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        script = events["events"]
        rows = state["rows"]
        before = rows.lookup(script)
        rows.delete(script.filter(pl.col("action") == "delete"))
        rows.upsert(script.filter(pl.col("action") == "write"))
        names = script.select("name", last=pl.col("at")).drop_nulls("last")
        state["names"].upsert(names)
        due = rows.due(watermark)
        rows.delete(due)
        return {"looked_up": before, "due": due, "names": state["names"].lookup(script)}


COUNTS = pa.schema([("k", pa.int64()), ("n", pa.int64())])


@dataclass(frozen=True)
class Counting:
    """A running count per key, which tells odd counts apart."""

    version: int = 1

    @property
    def description(self) -> Description:
        kept = {"counts": Kept(COUNTS, key=("k",))}
        outputs = {"counts": COUNTS, "odd": pa.schema([("k", pa.int64())])}
        return Description("counting", kept, outputs, self.version)

    def prepare(self, source: str, events: pl.DataFrame) -> pl.DataFrame:
        return events.group_by("k", maintain_order=True).agg(n=pl.len().cast(pl.Int64))

    def update(
        self, state: State, events: Mapping[str, pl.DataFrame], watermark: int | None
    ) -> Mapping[str, pl.DataFrame]:
        new = events["events"].group_by("k", maintain_order=True).agg(pl.col("n").sum())
        old = state["counts"].lookup(new).rename({"n": "before"})
        counts = new.join(old, on="k", how="left", maintain_order="left").select(
            "k", n=pl.col("n") + pl.col("before").fill_null(0)
        )
        state["counts"].upsert(counts)
        return {"counts": counts, "odd": counts.filter(pl.col("n") % 2 == 1).select("k")}


def scripted(**changed: object) -> Scripted:
    """The scripted operator with another description."""
    return Scripted(replace(Scripted().description, **changed))  # type: ignore[arg-type]
