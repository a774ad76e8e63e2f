"""How a comparison is made: sides measured in turn, round after round, and medians of the rounds.

A shared machine drifts while a benchmark runs, so no side has the machine's good minutes to
itself: every round measures all sides, and every other round measures them in reverse.
"""

import fnmatch
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.command import Options
from benchmarks.report import Result, Row, machine, publish
from headrace.errors import HeadraceError

Figures = Mapping[str, float]
"""What one measurement found, by name."""

Measure = Callable[[], Figures]
"""Puts the load on one side and measures it once."""


class NothingMeasured(HeadraceError):
    """A benchmark has no figure to report; the message says why."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One load, the sides it is put on, and the rows made of what was measured."""

    name: str
    sides: Mapping[str, Measure]
    rows: tuple[Row, ...]
    rounds: int
    warm_up: int = 1
    """Rounds that come first and do not count: caches fill, connections open, the JVM compiles."""


def chosen(experiments: Sequence[Experiment], options: Options) -> list[Experiment]:
    """The experiments to run: rows that were not asked for go, and sides that no row needs."""
    kept: list[Experiment] = []
    for experiment in experiments:
        rows = tuple(row for row in experiment.rows if _wanted(row.metric, options.only))
        if not rows:
            continue
        needed = {row.headrace for row in rows} | {row.peer for row in rows}
        kept.append(
            replace(
                experiment,
                rows=rows,
                sides={side: run for side, run in experiment.sides.items() if side in needed},
                rounds=options.rounds or experiment.rounds,
            )
        )
    if not kept:
        known = ", ".join(row.metric for experiment in experiments for row in experiment.rows)
        raise NothingMeasured(f"no metric is named {' or '.join(options.only)}; there are {known}")
    return kept


def medians(experiment: Experiment) -> dict[str, dict[str, float]]:
    """Measure every round, and return each side's median of each figure."""
    found: dict[str, list[Figures]] = {side: [] for side in experiment.sides}
    for number in range(experiment.warm_up + experiment.rounds):
        counts = number >= experiment.warm_up
        for side in _order(list(experiment.sides), number):
            figures = experiment.sides[side]()
            _tell(experiment, number, side, figures)
            if counts:
                found[side].append(figures)
    return {
        side: {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        for side, rounds in found.items()
    }


def results(experiment: Experiment) -> list[Result]:
    """Run one experiment and fill its rows."""
    found = medians(experiment)
    for row in experiment.rows:
        if found[row.peer][row.figure] <= 0:
            raise NothingMeasured(
                f"{row.peer} shows nothing for {row.metric}: the load was too small to measure"
            )
    return [
        Result(row, found[row.headrace][row.figure], found[row.peer][row.figure])
        for row in experiment.rows
    ]


def run(benchmark: str, experiments: Sequence[Experiment], options: Options) -> None:
    """Run what was asked for and publish it."""
    print(machine(), flush=True)
    publish(
        benchmark,
        [result for experiment in chosen(experiments, options) for result in results(experiment)],
    )


def _wanted(metric: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(metric, pattern) for pattern in patterns)


def _order(sides: list[str], number: int) -> list[str]:
    return sides if number % 2 == 0 else sides[::-1]


def _tell(experiment: Experiment, number: int, side: str, figures: Figures) -> None:
    """Say on standard error what was just measured: a run takes minutes, and people wonder."""
    step = number - experiment.warm_up + 1
    when = f"round {step}/{experiment.rounds}" if step > 0 else "warm-up"
    shown = "  ".join(f"{name} {value:,.4g}" for name, value in figures.items())
    print(f"{experiment.name:12} {when:10} {side:24} {shown}", file=sys.stderr, flush=True)
