"""What a benchmark says: a table for people, then one line of JSON for programs."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rich.console import Console
from rich.table import Table


class Better(StrEnum):
    """Which way a figure improves."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a report: which figure of which side is set against which other side's."""

    metric: str
    unit: str
    better: Better
    figure: str
    """The name under which an experiment measures it."""
    headrace: str
    peer: str
    target: float | None = None
    """The ratio to reach: at least this if higher is better, at most this if lower is."""
    bound: float | None = None
    """The figure to reach, whatever the peer's is: at least or at most this, likewise."""


@dataclass(frozen=True, slots=True)
class Result:
    """A row with its two medians."""

    row: Row
    headrace: float
    peer: float

    @property
    def ratio(self) -> float:
        """Headrace's figure over its peer's."""
        return self.headrace / self.peer

    @property
    def reached(self) -> bool | None:
        """Whether the target was reached, and the bound; None if the row has neither."""
        wanted = ((self.ratio, self.row.target), (self.headrace, self.row.bound))
        found = [
            value >= least if self.row.better is Better.HIGHER else value <= least
            for value, least in wanted
            if least is not None
        ]
        return all(found) if found else None

    def as_json(self) -> dict[str, str | float]:
        """The result as it stands in the last line of a benchmark's output."""
        return {
            "metric": self.row.metric,
            "unit": self.row.unit,
            "headrace": _significant(self.headrace),
            "peer": _significant(self.peer),
            "peer_name": self.row.peer,
            "ratio": _significant(self.ratio),
            "better": self.row.better.value,
        }


def json_line(benchmark: str, results: Sequence[Result]) -> str:
    """The one line by which a program reads a benchmark."""
    return json.dumps({"benchmark": benchmark, "results": [each.as_json() for each in results]})


def table(results: Sequence[Result]) -> Table:
    """The results for a reader, with what each was meant to reach."""
    drawn = Table("metric", "unit", title="medians of all rounds", title_justify="left")
    for heading in ("Headrace", "peer", "ratio", "target", ""):
        drawn.add_column(heading, justify="right")
    drawn.add_column("peer is")
    for result in results:
        row = result.row
        sign = "≥" if row.better is Better.HIGHER else "≤"
        drawn.add_row(
            row.metric,
            row.unit,
            _readable(result.headrace),
            _readable(result.peer),
            f"{result.ratio:.2f}",
            _wanted(row, sign),
            {True: "reached", False: "missed", None: ""}[result.reached],
            row.peer,
        )
    return drawn


def _wanted(row: Row, sign: str) -> str:
    ratio = [] if row.target is None else [f"{sign} {row.target:g}"]
    return ", ".join(ratio + ([] if row.bound is None else [f"{sign} {row.bound:g} {row.unit}"]))


def machine() -> str:
    """The machine in one line, with how busy it was: a figure means nothing without it."""
    load, *_ = os.getloadavg()
    return (
        f"{os.cpu_count()} x {_processor()}, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, load before the run {load:.2f}"
    )


def publish(benchmark: str, results: Sequence[Result]) -> None:
    """Print the table and, as the last line, the JSON."""
    # A pipe has no width of its own, and a table folded at 80 columns is no table.
    width = None if Console().is_terminal else 120
    Console(width=width).print(table(results))
    print(json_line(benchmark, results), flush=True)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _significant(value: float) -> float:
    return float(f"{value:.5g}")


def _readable(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
