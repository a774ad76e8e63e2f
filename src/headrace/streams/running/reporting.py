"""What a running flow tells the cluster about itself, for the console and whoever else asks.

The key of its status is "flow/" and the title of the version. Beside it are the last batches of
every query, one record each under "batch/", so that one finds out which batch has read a record;
their keys come round, and the topic remembers so many of them. `headrace.kafka.statuses` has what
is common to all statuses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from headrace.kafka import Cluster
from headrace.kafka.statuses import StatusReporter
from headrace.streams.outputs import Output, SinkOutput, StoreOutput
from headrace.streams.plan import sources
from headrace.streams.running.progress import QueryProgress
from headrace.streams.running.stage import Stage
from headrace.streams.time.standing import Standing
from headrace.streams.versions import resolved

PREFIX: Final = "flow/"
"""How the keys of flows begin."""

BATCHES: Final = "batch/"
"""How the keys of batches begin."""

REMEMBERED: Final = 500
"""Batches of a query that the topic remembers."""

_MOST_SOURCES: Final = 20
"""Sources of time that are told, those furthest behind; there may be as many as producers."""

Progress = Callable[[], Sequence[QueryProgress]]


def reporter_of(stage: Stage, progress: Progress) -> StatusReporter | None:
    """Who tells about a run; None if the settings say that nobody does."""
    settings = stage.flow.settings
    if not settings.streams.report_ms:
        return None
    key = f"{PREFIX}{stage.version.title}"

    def describe() -> Mapping[str, Mapping[str, Any]]:
        queries = progress()
        return {**_batches(stage.version.title, queries), key: status_of(stage, queries)}

    return StatusReporter(
        Cluster(settings.kafka), key, describe, interval_ms=settings.streams.report_ms
    )


def _batches(title: str, queries: Sequence[QueryProgress]) -> dict[str, Mapping[str, Any]]:
    return {
        f"{BATCHES}{title}/{query.output}/{batch.number % REMEMBERED}": {
            "flow": title,
            "output": query.output,
            **asdict(batch),
        }
        for query in queries
        for batch in query.recent
    }


def status_of(stage: Stage, queries: Sequence[QueryProgress]) -> Mapping[str, Any]:
    """All about a run at this moment."""
    outputs = {each.name: each for each in stage.outputs}
    return {
        "flow": stage.version.flow,
        "name": stage.version.name,
        "checkpoints": stage.root.address,
        "outputs": [
            {**_told(each), **_ends(outputs[each.output], stage.aliases)} for each in queries
        ],
    }


def _ends(output: Output, aliases: Mapping[str, str]) -> dict[str, Any]:
    """Where the rows of an output come from, and where they go."""
    reads = list(sources(output.node))
    letters = {each.dead_letters for each in reads if each.dead_letters}
    stored = isinstance(output, (SinkOutput, StoreOutput))
    if isinstance(output, StoreOutput) and output.dead_letters:
        letters.add(output.dead_letters)
    return {
        "reads": sorted({one for each in reads for one in resolved(each.topics, aliases)}),
        "patterns": sorted({each.pattern for each in reads if each.pattern is not None}),
        "writes": None if isinstance(output, (SinkOutput, StoreOutput)) else output.topic,
        "sink": output.label[0] if stored else None,
        "dead_letters": sorted(letters),
    }


def _told(query: QueryProgress) -> dict[str, Any]:
    told = asdict(query)
    told["time"] = None if query.time is None else _time(query.time)
    told["split_ms"] = query.recent[-1].split_ms if query.recent else {}
    del told["flow"], told["recent"]
    return told


def _time(standing: Standing) -> dict[str, Any]:
    behind = sorted(standing.sources, key=lambda each: (each.idle, each.bound, each.name))
    return {
        "watermark": standing.watermark,
        "holding": standing.holding,
        "sources": [
            {"name": each.name, "bound": each.bound, "idle": each.idle}
            for each in behind[:_MOST_SOURCES]
        ],
    }
