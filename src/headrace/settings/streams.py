"""The [streams] section: where flows run, and where they keep what they know."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.settings.address import Address
from headrace.settings.kinds import Duration, Maybe, Properties, Size, Text, Whole
from headrace.settings.sections import Section, setting


@dataclass(frozen=True, slots=True)
class StreamsSettings(Section):
    """How flows are run; durations are milliseconds, sizes are bytes."""

    master: str = setting(Text(), "local[*]", "Spark to run on: local[*] or spark://HOST:PORT.")
    memory: int = setting(
        Size(minimum=512 << 20), "1 GiB", "Memory of the Spark that a flow starts, per process."
    )
    checkpoints: str = setting(
        Text(),
        "headrace-flows",
        "Where flows keep positions and state: a directory, or a URL that Spark can write to.",
    )
    partitions: int | None = setting(
        Maybe(Whole(minimum=1, maximum=100_000)),
        None,
        "Parts that keyed work is cut into; one per core if not set.",
    )
    state_limit: int = setting(
        Size(minimum=1 << 20),
        "4 GiB",
        "State that one bucket of an operator may have; more is an error with the biggest keys.",
    )
    state_memory: int = setting(
        Size(minimum=1 << 20),
        "512 MiB",
        "State that a worker process keeps in memory, decoded; what is more lies in files.",
    )
    tries: int = setting(
        Whole(minimum=1), 5, "How often a batch is tried before its query is given up."
    )
    backoff_ms: int = setting(
        Duration(minimum=1), "1s", "Pause before the first new try; it doubles with each one."
    )
    backoff_max_ms: int = setting(Duration(minimum=1), "1 minute", "Longest pause between tries.")
    metrics: str | None = setting(
        Maybe(Address()), None, "Address of the metrics of running flows; none if not set."
    )
    report_ms: int = setting(
        Duration(), "1s", "Time between two reports of a running flow; 0 for none."
    )
    ui: str | None = setting(
        Maybe(Address()), None, "Address of Spark's own web page; none if not set."
    )
    properties: Mapping[str, str] = setting(
        Properties(), {}, "Properties handed to Spark, such as spark.executor.cores."
    )
