"""The progress of running flows as text that Prometheus reads."""

from collections.abc import Callable, Iterable, Iterator

from headrace.prometheus import escaped, written
from headrace.streams.running.progress import QueryProgress, QueryState
from headrace.streams.time.standing import SourceTime, Standing

_Value = Callable[[QueryProgress], float | None]
_OfSource = Callable[[SourceTime, Standing], float | None]

_ABOUT: tuple[tuple[str, str, str, _Value], ...] = (
    ("rows_read_total", "counter", "Rows read in this run.", lambda each: each.read),
    ("rows_written_total", "counter", "Rows written in this run.", lambda each: each.written),
    (
        "records_rejected_total",
        "counter",
        "Records that did not parse and were skipped in this run.",
        lambda each: each.rejected,
    ),
    (
        "rows_refused_total",
        "counter",
        "Rows that the store did not take and that became dead letters in this run.",
        lambda each: each.refused,
    ),
    (
        "records_lost_total",
        "counter",
        "Records that were gone before they were read and were skipped in this run.",
        lambda each: each.lost,
    ),
    (
        "events_late_total",
        "counter",
        "Events that a window did not take in this run, being too late or without a time.",
        lambda each: each.late,
    ),
    (
        "events_implausible_total",
        "counter",
        "Events whose time was too far ahead of the clock to count for the watermark in this run.",
        lambda each: each.implausible,
    ),
    (
        "watermark_seconds",
        "gauge",
        "The event time before which nothing more is expected.",
        lambda each: None if each.time is None else _seconds(each.time.watermark),
    ),
    ("restarts_total", "counter", "Times it was started again.", lambda each: each.restarts),
    ("rows_per_second", "gauge", "Rows per second in the last batch.", lambda each: each.rate),
    ("lag_records", "gauge", "Records that are still to be read.", lambda each: each.lag),
    ("last_batch", "gauge", "The number of the last finished batch.", lambda each: each.batch),
    (
        "batch_seconds",
        "gauge",
        "How long the last batch took.",
        lambda each: None if each.batch_ms is None else each.batch_ms / 1000,
    ),
    (
        "up",
        "gauge",
        "1 while it runs, 0 while it waits for another try or is given up.",
        lambda each: float(each.state in (QueryState.STARTING, QueryState.RUNNING)),
    ),
)
"""Name, kind, help and value of every metric."""


_OF_SOURCES: tuple[tuple[str, str, _OfSource], ...] = (
    (
        "source_bound_seconds",
        "The event time before which nothing more is expected from a source.",
        lambda source, time: _seconds(source.bound),
    ),
    (
        "source_idle",
        "1 for a source that was silent for so long that the others do not wait for it.",
        lambda source, time: float(source.idle),
    ),
    (
        "source_holds_back",
        "1 for the source that all others wait for.",
        lambda source, time: float(source.name == time.holding),
    ),
)
"""Name, help and value of the gauges that each source of time has."""

_MOST_SOURCES = 100
"""Of a query whose metrics are told, those furthest behind: there may be as many as producers."""


def exposition(queries: Iterable[QueryProgress]) -> str:
    """The metrics of the queries as Prometheus' text format."""
    queries = list(queries)
    lines = []
    for name, kind, about, value in _ABOUT:
        lines += [f"# HELP headrace_flow_{name} {about}", f"# TYPE headrace_flow_{name} {kind}"]
        for each in queries:
            if (number := value(each)) is not None:
                lines.append(f"headrace_flow_{name}{{{_labels(each)}}} {written(number)}")
    for name, about, of_source in _OF_SOURCES:
        lines += [f"# HELP headrace_flow_{name} {about}", f"# TYPE headrace_flow_{name} gauge"]
        for each, time, source in _sources(queries):
            if (number := of_source(source, time)) is not None:
                labels = f'{_labels(each)},source="{escaped(source.name)}"'
                lines.append(f"headrace_flow_{name}{{{labels}}} {written(number)}")
    return "\n".join(lines) + "\n"


def _sources(
    queries: Iterable[QueryProgress],
) -> Iterator[tuple[QueryProgress, Standing, SourceTime]]:
    for each in queries:
        if each.time is not None:
            behind = each.time.furthest_behind(_MOST_SOURCES)
            yield from ((each, each.time, source) for source in behind)


def _labels(query: QueryProgress) -> str:
    return f'flow="{query.flow}",output="{query.output}"'


def _seconds(time: int | None) -> float | None:
    return None if time is None else time / 1_000_000
